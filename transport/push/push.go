// Package push sends what an agent measured to Prometheus remote write endpoints.
//
// It speaks remote write 2.0 (https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/),
// with native histograms, the moment each counter was zero, and a description of each
// metric, and falls back to 1.0 (https://prometheus.io/docs/specs/prw/remote_write_spec/)
// where the other side knows only that; there native histograms travel as classic
// ones unless the endpoint is said to take them.
//
// Each [Endpoint] has a queue on disk (package internal/queue), labels and a filter of
// its own, so that one that is away holds up no other. Requests go in order. Only what
// the other side calls unusable (400, 413, 422) is dropped, and counted; everything
// else is tried again: soon at first, then more and more rarely up to a minute, and
// not before the time that Retry-After names.
//
// Times on the wire are milliseconds since the Unix epoch. The package imports nothing
// of Prometheus: both messages are written by hand, so that the agent stays small. An
// [Encoder] serves one goroutine; a [Pusher] is safe for concurrent use.
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

// Config says where to push.
type Config struct {
	Endpoints []Endpoint
	// Labels are added to every series, such as site and node.
	Labels map[string]string
	// QueueDir holds a folder for each endpoint.
	QueueDir string
	// SyncEvery is the least time between two writes that wait for the disk while an
	// endpoint is away; 0 is with every batch. A power cut loses as much.
	SyncEvery time.Duration
	// Instance tells a server this agent from another one of its name; the zero value shows none.
	Instance instance.ID
	// Clock corrects the times of what is sent by the clock of the other side; the zero value
	// does not.
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

// Open opens the queues. It does not need the network.
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

// Put takes a batch: it is in every queue when Put returns. The batch is not kept.
func (p *Pusher) Put(_ context.Context, b *metric.Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, t := range p.targets {
		if err := t.put(b); err != nil {
			errs = append(errs, fmt.Errorf("push to %s: %w", t.shown, err))
		}
	}
	return errors.Join(errs...)
}

// Run sends until ctx ends. What could not be sent stays in the queues.
func (p *Pusher) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, t := range p.targets {
		wg.Go(func() { t.run(ctx) })
	}
	wg.Wait()
}

// Flush tries once to send everything that waits. It is for the end of a process,
// after Run.
func (p *Pusher) Flush(ctx context.Context) {
	var wg sync.WaitGroup
	for _, t := range p.targets {
		wg.Go(func() { t.drain(ctx) })
	}
	wg.Wait()
}

// Check tests every endpoint and returns what is wrong with each.
func (p *Pusher) Check(ctx context.Context) []Finding {
	out := make([]Finding, len(p.targets))
	var wg sync.WaitGroup
	for i, t := range p.targets {
		wg.Go(func() { out[i] = t.check(ctx) })
	}
	wg.Wait()
	return out
}

// Check tests every endpoint without its queue, so that it can be done beside an
// agent that runs. The error is one of the configuration.
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
	Protocol  string // "2.0", "1.0", or empty before the first answer
	Queue     queue.Stats
	Sent      uint64 // samples that the other side took
	Refused   uint64 // samples that it called unusable
	Lost      uint64 // samples that could not be queued
	Retries   uint64 // requests that had to be sent again
	Bytes     uint64 // sent, compressed
	LastSent  time.Time
	LastError string // why nothing is sent now; empty when all is well
	// Behind is by how much the clock of this machine was behind that of the other side when the last
	// request was stamped, where that was corrected.
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

// Close frees the queues. Run has returned.
func (p *Pusher) Close() error {
	var errs []error
	for _, t := range p.targets {
		errs = append(errs, t.queue.Close())
		t.client.CloseIdleConnections()
	}
	return errors.Join(errs...)
}
