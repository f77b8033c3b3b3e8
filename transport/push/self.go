package push

import (
	"time"

	"reckon/metric"
)

// Series about the agent's own transmission.
var (
	pushUp = &metric.Desc{
		Name: "reckon_agent_push_up", Kind: metric.Gauge,
		Help: "Whether the endpoint took the last request sent to it.", Labels: []string{"endpoint"},
	}
	pushSent = &metric.Desc{
		Name: "reckon_agent_push_samples_total", Kind: metric.Counter,
		Help: "Samples that the endpoint took.", Labels: []string{"endpoint"},
	}
	pushRefused = &metric.Desc{
		Name: "reckon_agent_push_refused_samples_total", Kind: metric.Counter,
		Help: "Samples that the endpoint called unusable and that were dropped.", Labels: []string{"endpoint"},
	}
	pushLost = &metric.Desc{
		Name: "reckon_agent_push_lost_samples_total", Kind: metric.Counter,
		Help: "Samples that could not be written to the queue of the endpoint.", Labels: []string{"endpoint"},
	}
	pushDropped = &metric.Desc{
		Name: "reckon_agent_push_dropped_requests_total", Kind: metric.Counter,
		Help: "Requests that were dropped unsent because the queue was full or they were too old.", Labels: []string{"endpoint"},
	}
	pushRetries = &metric.Desc{
		Name: "reckon_agent_push_retries_total", Kind: metric.Counter,
		Help: "Requests that failed and were or will be sent again.", Labels: []string{"endpoint"},
	}
	pushBytes = &metric.Desc{
		Name: "reckon_agent_push_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help: "Compressed bytes of requests sent to the endpoint.", Labels: []string{"endpoint"},
	}
	pushWaiting = &metric.Desc{
		Name: "reckon_agent_push_queue_requests", Kind: metric.Gauge,
		Help: "Requests that wait to be sent.", Labels: []string{"endpoint"},
	}
	pushOldest = &metric.Desc{
		Name: "reckon_agent_push_oldest_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help: "Age of the oldest sample that waits to be sent; 0 when none does.", Labels: []string{"endpoint"},
	}
	pushBehind = &metric.Desc{
		Name: "reckon_agent_push_clock_behind_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help: "How far the clock of the machine was behind that of the endpoint, if the times of sent samples were corrected by it; 0 if it was right.", Labels: []string{"endpoint"},
	}
	pushQueue = &metric.Desc{
		Name: "reckon_agent_push_queue_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help: "Size on disk of the queue of the endpoint.", Labels: []string{"endpoint"},
	}
)

// Descs lists the series of a [Reporter].
func Descs() []*metric.Desc {
	return []*metric.Desc{pushUp, pushSent, pushRefused, pushLost, pushDropped, pushRetries, pushBytes, pushWaiting, pushOldest, pushQueue, pushBehind}
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
