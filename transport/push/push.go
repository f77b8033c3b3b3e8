// Package push sends the samples of an agent to Prometheus remote write endpoints.
//
// It uses remote write 2.0 (https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/), with native histograms, the start time of each
// counter, and a description of each metric, and falls back to 1.0 (https://prometheus.io/docs/specs/prw/remote_write_spec/) if the
// receiver supports only that; native histograms are then sent as classic ones unless the endpoint is configured to accept them.
//
// Each [Endpoint] has a queue on disk (package internal/queue), labels and a filter of its own, so that an unreachable one does not delay
// the others. Requests are sent in order. Only requests that the receiver rejects as invalid (400, 413, 422) are dropped, and counted;
// everything else is retried: soon at first, then at increasing intervals up to a minute, and not before the time in Retry-After.
//
// Times on the wire are milliseconds since the Unix epoch. The package imports nothing of Prometheus: both messages are encoded by hand,
// so that the agent stays small. An [Encoder] is used from one goroutine; a [Pusher] is safe for concurrent use.
package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"reckon/internal/queue"
	"reckon/metric"
	"reckon/transport/instance"
)

// Config configures a Pusher.
type Config struct {
	Endpoints []Endpoint
	// Labels are added to every series, such as site and node.
	Labels map[string]string
	// QueueDir holds a folder for each endpoint.
	QueueDir string
	// SyncEvery is the minimum interval between two syncs of the queue while an endpoint is
	// unreachable; 0 syncs every batch. A power cut loses at most the samples of that interval.
	SyncEvery time.Duration
	// Instance distinguishes this agent from others with the same name; the zero value sends no id.
	Instance instance.ID
	// Clock corrects the times of samples by the clock of the receiver; the zero value does not.
	Clock Clock
	// UserAgent is sent with each request.
	UserAgent string
	Logger    *slog.Logger
}

// Pusher sends batches to every endpoint.
type Pusher struct {
	log     *slog.Logger
	targets []*target
	mu      sync.Mutex // guards encoding
}

// Open opens the queues. It needs no network.
func Open(c Config) (*Pusher, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pusher{log: c.Logger}
	names := make(map[string]string)
	for i := range c.Endpoints {
		t, err := newTarget(&c.Endpoints[i], &c)
		if err == nil {
			if other, taken := names[t.name]; taken {
				err = fmt.Errorf("push to %s and to %s: both are called %q; give each a name of its own", other, t.shown, t.name)
			}
			names[t.name] = t.shown
		}
		if err == nil {
			t.queue, err = queue.Open(queue.Options{
				Dir:      filepath.Join(c.QueueDir, t.name),
				MaxBytes: t.e.Queue.MaxBytes, MaxAge: t.e.Queue.MaxAge,
			})
		}
		if err == nil {
			t.corrector = newCorrector(c.Clock, filepath.Join(c.QueueDir, t.name+".clock"), t.shown, c.Logger)
		}
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.targets = append(p.targets, t)
	}
	return p, nil
}

// Put adds a batch to the queue of every endpoint. It does not retain the batch.
func (p *Pusher) Put(_ context.Context, b *metric.Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, t := range p.targets {
		if err := t.enqueue(b); err != nil {
			errs = append(errs, fmt.Errorf("push to %s: %w", t.shown, err))
		}
	}
	return errors.Join(errs...)
}

// Run sends until ctx ends. Unsent batches stay in the queues.
func (p *Pusher) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, t := range p.targets {
		wg.Go(func() { t.run(ctx) })
	}
	wg.Wait()
}

// Flush tries once to send everything in the queue. Call it after Run at the end of a process.
func (p *Pusher) Flush(ctx context.Context) {
	var wg sync.WaitGroup
	for _, t := range p.targets {
		wg.Go(func() { t.drain(ctx) })
	}
	wg.Wait()
}

// Check tests every endpoint and returns the result for each.
func (p *Pusher) Check(ctx context.Context) []Finding {
	out := make([]Finding, len(p.targets))
	var wg sync.WaitGroup
	for i, t := range p.targets {
		wg.Go(func() { out[i] = t.check(ctx) })
	}
	wg.Wait()
	return out
}

// Check tests every endpoint without its queue, so that it can run beside a running agent. It returns configuration errors.
func Check(ctx context.Context, c Config) ([]Finding, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pusher{log: c.Logger}
	for i := range c.Endpoints {
		t, err := newTarget(&c.Endpoints[i], &c)
		if err != nil {
			return nil, err
		}
		defer t.client.CloseIdleConnections()
		p.targets = append(p.targets, t)
	}
	return p.Check(ctx), nil
}

// Status is the state of one endpoint.
type Status struct {
	Name, URL string
	Protocol  string // "2.0", "1.0", or empty before the first response
	Queue     queue.Stats
	Sent      uint64 // samples that the receiver accepted
	Refused   uint64 // samples that it rejected as invalid
	Lost      uint64 // samples that could not be queued
	Retries   uint64 // requests that had to be sent again
	Bytes     uint64 // sent, compressed
	LastSent  time.Time
	LastError string // why sending fails at present; empty if all is well
	// Behind is the time that this machine's clock was behind the receiver's when the last request was
	// stamped, if that was corrected.
	Behind time.Duration
}

// Status returns the state of each endpoint, in the order of the configuration.
func (p *Pusher) Status() []Status {
	out := make([]Status, len(p.targets))
	for i, t := range p.targets {
		out[i] = t.status()
	}
	return out
}

// Close closes the queues. Run must have returned.
func (p *Pusher) Close() error {
	var errs []error
	for _, t := range p.targets {
		errs = append(errs, t.queue.Close())
		t.client.CloseIdleConnections()
	}
	return errors.Join(errs...)
}
