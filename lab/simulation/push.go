package simulation

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"reckon/metric"
	"reckon/transport/push"
)

// Push is a [Sink] that sends samples as real agents do. Each node has its own pusher, queue on disk and connection.
type Push struct {
	nodes  map[string]*push.Pusher
	names  []string
	cancel context.CancelFunc
	done   sync.WaitGroup
	// Most is the number of queued exports of a node at which [Push.Wait] waits.
	Most int
	// Strict waits also for an unreachable receiver.
	Strict bool
}

// PushConfig configures a Push: receivers and sender.
type PushConfig struct {
	Endpoints []push.Endpoint
	Site      string
	Nodes     []string
	Dir       string // of the queues
	UserAgent string
	Logger    *slog.Logger
}

// NewPush opens the queues and begins to send.
func NewPush(c PushConfig) (*Push, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Push{nodes: map[string]*push.Pusher{}, cancel: cancel, Most: 4}
	for _, node := range append([]string{""}, c.Nodes...) {
		labels, dir := map[string]string{}, "slurm"
		if c.Site != "" {
			labels["site"] = c.Site
		}
		if node != "" {
			labels["node"], dir = node, "node-"+node
		}
		one, err := push.Open(push.Config{Endpoints: c.Endpoints, Labels: labels, QueueDir: filepath.Join(c.Dir, dir),
			UserAgent: c.UserAgent, Logger: c.Logger})
		if err != nil {
			return nil, errors.Join(err, p.Close(0))
		}
		p.nodes[node] = one
		p.names = append(p.names, node)
		p.done.Go(func() { one.Run(ctx) })
	}
	return p, nil
}

// Put implements [Sink].
func (p *Push) Put(ctx context.Context, node string, b *metric.Batch) error {
	return p.nodes[node].Put(ctx, b)
}

// Backlog is the state of the queues.
type Backlog struct {
	Exports       int    // in all queues and for all endpoints
	Behind        int    // exports that are queued for a reachable endpoint
	Sent          uint64 // accepted samples
	Refused, Lost uint64 // samples
	Retries       uint64
	Failing       int    // queues with a failed last request
	Error         string // an error of one of the failing queues
	Queues        int
	Dropped       uint64 // exports that a full queue dropped
}

// Backlog sums up the queues.
func (p *Push) Backlog() Backlog {
	var b Backlog
	for _, n := range p.names {
		for _, s := range p.nodes[n].Status() {
			b.Queues++
			b.Exports += s.Queue.Records
			b.Dropped += s.Queue.Dropped
			b.Sent, b.Refused, b.Lost, b.Retries = b.Sent+s.Sent, b.Refused+s.Refused, b.Lost+s.Lost, b.Retries+s.Retries
			if s.LastError != "" {
				b.Failing, b.Error = b.Failing+1, s.LastError
			} else {
				b.Behind += s.Queue.Records
			}
		}
	}
	return b
}

// Sent returns the number of samples that each endpoint has accepted, by its name.
func (p *Push) Sent() map[string]uint64 {
	out := map[string]uint64{}
	for _, n := range p.names {
		for _, s := range p.nodes[n].Status() {
			out[s.Name] += s.Sent
		}
	}
	return out
}

// pollInterval is the polling interval of Wait and Drain.
const pollInterval = 20 * time.Millisecond

// Wait implements [Waiter]. It pauses the simulated time while the receiver lags behind. It waits for an unreachable
// receiver only if Strict is set, because exports of real nodes queue up as well.
func (p *Push) Wait(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		b := p.Backlog()
		if !p.Strict && b.Behind <= p.Most*(b.Queues-b.Failing) || b.Exports <= p.Most*b.Queues {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Drain waits until everything was sent, for at most a given time, and returns the remaining backlog.
func (p *Push) Drain(ctx context.Context, timeout time.Duration) Backlog {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		b := p.Backlog()
		if b.Exports == 0 || ctx.Err() != nil {
			return b
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Close stops sending after a last attempt of at most the given time. Unsent exports remain in the queues.
func (p *Push) Close(timeout time.Duration) error {
	if timeout > 0 {
		p.Drain(context.Background(), timeout)
	}
	p.cancel()
	p.done.Wait()
	var errs []error
	for _, one := range p.nodes {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}
