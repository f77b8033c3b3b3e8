package push

import (
	"time"

	"reckon/metric"
)

// Series about the agent's own transmission.
var (
	pushUp = metric.NewDesc("reckon_agent_push_up", metric.Gauge, metric.None, []string{"endpoint"},
		"Whether the endpoint took the last request sent to it.")
	pushSent = metric.NewDesc("reckon_agent_push_samples_total", metric.Counter, metric.None, []string{"endpoint"},
		"Samples that the endpoint took.")
	pushRefused = metric.NewDesc("reckon_agent_push_refused_samples_total", metric.Counter, metric.None, []string{"endpoint"},
		"Samples that the endpoint called unusable and that were dropped.")
	pushLost = metric.NewDesc("reckon_agent_push_lost_samples_total", metric.Counter, metric.None, []string{"endpoint"},
		"Samples that could not be written to the queue of the endpoint.")
	pushDropped = metric.NewDesc("reckon_agent_push_dropped_requests_total", metric.Counter, metric.None, []string{"endpoint"},
		"Requests that were dropped unsent because the queue was full or they were too old.")
	pushRetries = metric.NewDesc("reckon_agent_push_retries_total", metric.Counter, metric.None, []string{"endpoint"},
		"Requests that failed and were or will be sent again.")
	pushBytes = metric.NewDesc("reckon_agent_push_bytes_total", metric.Counter, metric.Bytes, []string{"endpoint"},
		"Compressed bytes of requests sent to the endpoint.")
	pushWaiting = metric.NewDesc("reckon_agent_push_queue_requests", metric.Gauge, metric.None, []string{"endpoint"},
		"Requests that wait to be sent.")
	pushOldest = metric.NewDesc("reckon_agent_push_oldest_seconds", metric.Gauge, metric.Seconds, []string{"endpoint"},
		"Age of the oldest sample that waits to be sent; 0 when none does.")
	pushBehind = metric.NewDesc("reckon_agent_push_clock_behind_seconds", metric.Gauge, metric.Seconds, []string{"endpoint"},
		"How far the machine's clock was behind the endpoint's clock, if the times of sent samples were corrected; else 0.")
	pushQueue = metric.NewDesc("reckon_agent_push_queue_bytes", metric.Gauge, metric.Bytes, []string{"endpoint"},
		"Size on disk of the queue of the endpoint.")
)

// Descs returns the descriptions of the series of a [Reporter].
func Descs() []*metric.Desc {
	return []*metric.Desc{pushUp, pushSent, pushRefused, pushLost, pushDropped, pushRetries, pushBytes, pushWaiting, pushOldest, pushQueue,
		pushBehind}
}

// Reporter exports the state of a Pusher as a sensor: it implements sensor.Sensor.
type Reporter struct {
	p     *Pusher
	cache metric.Cache
}

// Reporter returns a reporter of p.
func (p *Pusher) Reporter() *Reporter { return &Reporter{p: p} }

// Name implements sensor.Sensor.
func (*Reporter) Name() string { return "push" }

// Descs implements sensor.Sensor.
func (*Reporter) Descs() []*metric.Desc { return Descs() }

// Close implements sensor.Sensor. The Pusher stays open.
func (*Reporter) Close() error { return nil }

// Read implements sensor.Sensor. An unreachable endpoint is not an error of Read.
func (r *Reporter) Read(b *metric.Batch) error {
	for _, t := range r.p.targets {
		s := t.status()
		up := 1.0
		if s.LastError != "" {
			up = 0
		}
		if s.LastError != "" || !s.LastSent.IsZero() { // otherwise it is unknown yet
			b.Add(r.cache.Get(pushUp, s.Name), up)
		}
		b.Add(r.cache.Get(pushSent, s.Name), float64(s.Sent))
		b.Add(r.cache.Get(pushRefused, s.Name), float64(s.Refused))
		b.Add(r.cache.Get(pushLost, s.Name), float64(s.Lost))
		b.Add(r.cache.Get(pushDropped, s.Name), float64(s.Queue.Dropped+s.Queue.Expired))
		b.Add(r.cache.Get(pushRetries, s.Name), float64(s.Retries))
		b.Add(r.cache.Get(pushBytes, s.Name), float64(s.Bytes))
		b.Add(r.cache.Get(pushWaiting, s.Name), float64(s.Queue.Records))
		age := 0.0
		if s.Queue.Records > 0 && !s.Queue.Oldest.IsZero() {
			age = max(time.Since(s.Queue.Oldest).Seconds(), 0)
		}
		b.Add(r.cache.Get(pushOldest, s.Name), age)
		b.Add(r.cache.Get(pushQueue, s.Name), float64(s.Queue.Bytes))
		if t.corrector != nil {
			b.Add(r.cache.Get(pushBehind, s.Name), s.Behind.Seconds())
		}
	}
	r.cache.Sweep()
	return nil
}
