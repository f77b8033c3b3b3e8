package simulation

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"reckon/agent"
	"reckon/interop/scheduler"
	"reckon/lab/simulate"
	"reckon/metric"
)

// Sink receives the exports of agents. Put may be called concurrently for different nodes, and node is empty for data
// of the batch system. Put must not use the batch after it returns.
type Sink interface {
	Put(ctx context.Context, node string, b *metric.Batch) error
}

// Waiter is a [Sink] that can fall behind. Wait returns when it has caught up enough.
type Waiter interface {
	Wait(ctx context.Context) error
}

// Preparer is a [Sink] that is notified of the time of the next exports before they come.
type Preparer interface {
	Before(ctx context.Context, at time.Time) error
}

// Config configures a fleet.
type Config struct {
	Site    *simulate.Site
	Version string
	// Workers is the number of nodes processed concurrently; 0 is one for each processor.
	Workers int
	// Installed is the time when the agents are installed and start to read. The zero value is the
	// beginning of the site.
	Installed time.Time
	// Slots is the number of slots in an export interval over which the nodes' exports are spread,
	// so that they do not all arrive at once. 0 means 15 for 60 or more nodes, else 1.
	Slots int
}

// Fleet is a site with its agents.
type Fleet struct {
	config  Config
	members []*nodeAgent
	source  *simController
	poller  *scheduler.Poller
	out     Sink // for the poller, while Run runs
	now     time.Time
	samples atomic.Int64
	batches atomic.Int64
}

// nodeAgent is a node and its agent.
type nodeAgent struct {
	node  *simulate.Node
	agent *agent.Agent // nil while the node is down
	label string
}

// New returns the fleet of a site at its beginning.
func New(c Config) *Fleet {
	c.Workers = cmp.Or(c.Workers, runtime.GOMAXPROCS(0))
	if c.Slots == 0 {
		c.Slots = 1
		if c.Site.Nodes >= 60 {
			c.Slots = 15
		}
	}
	f := &Fleet{config: c, now: laterTime(c.Site.From, c.Installed)}
	for i := range c.Site.Names() {
		n := c.Site.Node(i)
		f.members = append(f.members, &nodeAgent{node: n, label: n.Hostname()})
	}
	f.source = newSource(c.Site)
	f.poller = scheduler.NewPoller(f.source, scheduler.Options{
		Clock: func() time.Time { return f.now },
		Write: func(ctx context.Context, b *metric.Batch) error {
			f.samples.Add(int64(len(b.Samples)))
			return f.out.Put(ctx, "", b)
		},
	})
	return f
}

func laterTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Stretch is a period of the time of a site and how it is simulated.
type Stretch struct {
	Until  time.Time
	Tick   time.Duration // between two readings of a node
	Export time.Duration // interval between two exports of a node
	// Speed is the number of simulated seconds per second; 0 is the maximum.
	Speed float64
	// Live makes simulated time follow the clock, after catching up if it is behind.
	Live bool
	// Progress, if not nil, is called after each export interval, and by [WriteHistory] while the catalogue is built.
	Progress func(Progress)
}

// Progress is the progress of a run.
type Progress struct {
	At      time.Time // simulated
	Samples int64
	Batches int64
	Live    int           // running jobs
	Waiting int           // pending jobs
	Took    time.Duration // by the clock of this machine
	Passed  time.Duration // of simulated time
	Step    string        // step of [WriteHistory] after all samples are written: see [catalogue.BuilderOptions]
	Built   time.Time     // the time up to which that is done
}

// Speed returns the number of simulated seconds per second.
func (p Progress) Speed() float64 { return p.Passed.Seconds() / max(p.Took.Seconds(), 1e-9) }

// Now returns the simulated time.
func (f *Fleet) Now() time.Time { return f.now }

// Run simulates the fleet for a stretch of time from the end of the previous run. When ctx ends, it stops between two
// exports and returns the error of ctx.
func (f *Fleet) Run(ctx context.Context, s Stretch, out Sink) (Progress, error) {
	if s.Tick <= 0 || s.Export < s.Tick {
		return Progress{}, fmt.Errorf("a tick of %v and an export interval of %v: the tick is positive and no longer than the interval",
			s.Tick, s.Export)
	}
	f.out = out
	began, from := time.Now(), f.now
	samples, batches := f.samples.Load(), f.batches.Load()
	progress := func() Progress {
		waiting, running := f.source.countJobs()
		return Progress{At: f.now, Samples: f.samples.Load() - samples, Batches: f.batches.Load() - batches,
			Took: time.Since(began), Passed: f.now.Sub(from), Live: running, Waiting: waiting}
	}
	waiter, _ := out.(Waiter)
	preparer, _ := out.(Preparer)
	for f.now.Before(s.Until) {
		base := f.now
		for slot := range f.config.Slots {
			f.now = base.Add(s.Export * time.Duration(slot+1) / time.Duration(f.config.Slots))
			switch {
			case s.Live:
				if err := waitUntil(ctx, f.now); err != nil {
					return progress(), err
				}
			case s.Speed > 0:
				if err := waitUntil(ctx, began.Add(time.Duration(float64(f.now.Sub(from))/s.Speed))); err != nil {
					return progress(), err
				}
			}
			if preparer != nil {
				if err := preparer.Before(ctx, f.now); err != nil {
					return progress(), err
				}
			}
			if err := f.exportSlot(ctx, slot, s, out); err != nil {
				return progress(), err
			}
			f.source.advance(f.now)
			f.poller.Step(ctx)
			if err := ctx.Err(); err != nil {
				return progress(), err
			}
		}
		if waiter != nil {
			if err := waiter.Wait(ctx); err != nil {
				return progress(), err
			}
		}
		if s.Progress != nil {
			s.Progress(progress())
		}
	}
	return progress(), nil
}

// waitUntil waits until a time has come.
func waitUntil(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exportSlot reads and exports the nodes of a slot.
func (f *Fleet) exportSlot(ctx context.Context, slot int, s Stretch, out Sink) error {
	g, ctx := errgroup.WithContext(ctx)
	for w := range f.config.Workers {
		g.Go(func() error {
			for i := slot + w*f.config.Slots; i < len(f.members); i += f.config.Slots * f.config.Workers {
				if err := f.exportNode(ctx, f.members[i], s, out); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// exportNode advances one node to the current simulated time.
func (f *Fleet) exportNode(ctx context.Context, m *nodeAgent, s Stretch, out Sink) error {
	for at := f.now.Add(-s.Export + s.Tick); ; at = at.Add(s.Tick) {
		if at.After(f.now) || at.Add(s.Tick).After(f.now) {
			at = f.now
		}
		boot := m.node.Booted()
		m.node.Advance(at)
		if m.node.Down() || !m.node.Booted().Equal(boot) {
			if m.agent != nil { // it went down with its machine, without a final export
				_ = m.agent.Close()
				m.agent = nil
			}
			if m.node.Down() {
				if at.Equal(f.now) {
					return nil
				}
				continue
			}
		}
		if m.agent == nil {
			a, err := agent.OpenMachine(agent.Config{Node: m.label, Root: "/nowhere", Tick: s.Tick, Export: s.Export,
				Version: f.config.Version}, m.node, m.node.Sensor())
			if err != nil {
				return err
			}
			m.agent = a
		}
		if err := m.agent.Step(); err != nil {
			return fmt.Errorf("node %s: %w", m.label, err)
		}
		if at.Equal(f.now) {
			break
		}
	}
	b := m.agent.TakeExport()
	f.samples.Add(int64(len(b.Samples)))
	f.batches.Add(1)
	if err := out.Put(ctx, m.label, b); err != nil {
		return fmt.Errorf("export of node %s: %w", m.label, err)
	}
	return nil
}
