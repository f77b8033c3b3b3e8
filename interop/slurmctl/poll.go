package slurmctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"reckon/metric"
	"reckon/store"
)

// Options set up a [Poller]. Zero fields are replaced by what the package comment says.
type Options struct {
	Jobs, Accounts, Nodes time.Duration // how often each is asked for
	// Timeout is how long an answer may take.
	Timeout time.Duration
	// Overlap is how much of what accounting was asked for is asked for again.
	Overlap time.Duration
	// First is how far back accounting is asked for the first time.
	First time.Duration
	// State is the file that keeps up to when accounting was read; empty for none.
	State string
	// Write stores a batch.
	Write  func(ctx context.Context, b *metric.Batch) error
	Logger *slog.Logger
	// Clock is the time of day; nil is time.Now. See [Poller.Step].
	Clock func() time.Time
}

func (o *Options) defaults() {
	for _, d := range []struct {
		to *time.Duration
		v  time.Duration
	}{
		{&o.Jobs, 30 * time.Second}, {&o.Accounts, 2 * time.Minute}, {&o.Nodes, time.Minute},
		{&o.Timeout, 2 * time.Minute}, {&o.Overlap, 10 * time.Minute}, {&o.First, time.Hour},
	} {
		if *d.to <= 0 {
			*d.to = d.v
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

// Poller asks a source, at its own pace, and writes what it says.
type Poller struct {
	source Source
	o      Options
	book   *Book
	tasks  []*task

	mark   time.Time // up to when accounting was read
	failed bool      // accounting could not be read the last time
	nodes  table
	queues table
	self   table
	unsaid string // the last error of the store
}

// task is one of the questions, and when it is asked again.
type task struct {
	name   string
	every  time.Duration
	ask    func(ctx context.Context) (Read, error)
	next   time.Time
	fails  int
	asked  bool
	took   time.Duration
	bad    float64
	logged string
}

// NewPoller returns a poller of a source.
func NewPoller(s Source, o Options) *Poller {
	o.defaults()
	p := &Poller{source: s, o: o, book: NewBook()}
	p.tasks = []*task{
		{name: "jobs", every: o.Jobs, ask: p.readJobs},
		{name: "accounting", every: o.Accounts, ask: p.readAccounts},
		{name: "nodes", every: o.Nodes, ask: p.readNodes},
	}
	return p
}

// What bounds how often is asked.
const (
	share   = 20               // the pause after an answer, in times that it took
	slowest = 10 * time.Minute // the longest pause after failures
)

// Run asks until ctx ends.
func (p *Poller) Run(ctx context.Context) error {
	p.load()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		p.Step(ctx)
		next := p.tasks[0].next
		for _, t := range p.tasks[1:] {
			if t.next.Before(next) {
				next = t.next
			}
		}
		timer.Reset(max(time.Until(next), 100*time.Millisecond))
	}
}

// Step asks what is due by the clock of the options. It is for a caller that moves the
// clock itself, in the place of Run.
func (p *Poller) Step(ctx context.Context) {
	for _, t := range p.tasks {
		if ctx.Err() == nil && !p.o.Clock().Before(t.next) {
			p.do(ctx, t)
		}
	}
}

// do asks one question and says when the next one is.
func (p *Poller) do(ctx context.Context, t *task) {
	begin := p.o.Clock()
	limited, cancel := context.WithTimeoutCause(ctx, p.o.Timeout, fmt.Errorf("the limit is %v", p.o.Timeout))
	got, err := t.ask(limited)
	cancel()
	if ctx.Err() != nil {
		return
	}
	now := p.o.Clock()
	t.took, t.asked = now.Sub(begin), true
	t.bad += float64(got.Bad)
	pause := max(t.every, share*t.took)
	if err != nil {
		t.fails++
		pause = min(max(pause, t.every<<min(t.fails, 6)), max(slowest, t.every))
	} else {
		t.fails = 0
	}
	t.next = now.Add(min(pause, max(slowest, t.every)))
	p.say(t, got, err)
	p.health(ctx, now)
}

// say logs what changed.
func (p *Poller) say(t *task, got Read, err error) {
	said := ""
	if err != nil {
		said = err.Error()
	} else if got.Bad > 0 {
		said = "records that can not be read: " + got.FirstBad
	}
	switch {
	case said == t.logged:
	case err != nil:
		p.o.Logger.Error("Slurm could not be read; it is asked again, and nothing is lost that it says later", "source", t.name, "err", err)
	case said != "":
		p.o.Logger.Warn("Slurm gave records that say nothing; the others were taken", "source", t.name, "bad", got.Bad, "of", got.Records, "first", got.FirstBad)
	default:
		p.o.Logger.Info("Slurm is read again", "source", t.name)
	}
	t.logged = said
}

// health writes how the reading goes.
func (p *Poller) health(ctx context.Context, now time.Time) {
	b := metric.Batch{Time: now}
	p.self.begin()
	for _, t := range p.tasks {
		if !t.asked {
			continue
		}
		up := 1.0
		if t.fails > 0 {
			up = 0
		}
		p.self.add(&b, readUp, up, t.name)
		p.self.add(&b, readSeconds, t.took.Seconds(), t.name)
		p.self.add(&b, badRecords, t.bad, t.name)
	}
	p.self.add(&b, unresolved, float64(p.book.Unresolved()))
	p.self.end(&b)
	p.write(ctx, &b)
}

func (p *Poller) readJobs(ctx context.Context) (Read, error) {
	// What is said is of this moment or a later one, and so lies within the life it is of,
	// also where an answer takes so long that the job is requeued meanwhile.
	now := p.o.Clock()
	jobs, got, err := p.source.Jobs(ctx)
	p.book.Queue(now, jobs, err == nil)
	p.tell(ctx, now)
	if err == nil {
		b := metric.Batch{Time: now}
		p.queues.tellJobs(&b, jobs)
		p.write(ctx, &b)
	}
	return got, err
}

// most is for how many jobs by number accounting is asked at a time.
const most = 200

// longestStretch is the most that accounting is asked for at a time.
const longestStretch = 24 * time.Hour

// readAccounts asks what ended since the last time. After a failure it looks back
// further: what slurmdbd did not have while it was down comes to it late.
func (p *Poller) readAccounts(ctx context.Context) (Read, error) {
	now := p.o.Clock()
	if p.mark.IsZero() || p.mark.After(now) {
		p.mark = now.Add(-p.o.First)
	}
	overlap := p.o.Overlap
	if p.failed {
		overlap = max(overlap, time.Hour)
	}
	// The clock of the controller may be ahead.
	until := now.Add(p.o.Overlap)
	if next := p.mark.Add(longestStretch); next.Before(now) {
		until = next
	}
	jobs, got, err := p.source.Ended(ctx, p.mark.Add(-overlap), until)
	p.book.Accounts(jobs)
	p.failed = err != nil || (p.failed && got.Records == 0)
	if err == nil {
		p.mark = until
		if p.mark.After(now) {
			p.mark = now
		}
		if raw, since := p.book.Missed(now, most); len(raw) > 0 {
			var more []Job
			var also Read
			more, also, err = p.source.ByNumber(ctx, raw, since)
			p.book.Accounts(more)
			got.Records, got.Bad = got.Records+also.Records, got.Bad+also.Bad
			if got.FirstBad == "" {
				got.FirstBad = also.FirstBad
			}
		}
	}
	p.tell(ctx, p.o.Clock())
	p.save()
	return got, err
}

func (p *Poller) readNodes(ctx context.Context) (Read, error) {
	nodes, parts, got, err := p.source.Nodes(ctx)
	if err == nil {
		b := metric.Batch{Time: p.o.Clock()}
		p.nodes.tellNodes(&b, nodes, parts)
		p.write(ctx, &b)
	}
	return got, err
}

// tell writes what the book has to say.
func (p *Poller) tell(ctx context.Context, now time.Time) {
	for _, b := range p.book.Tell(now) {
		if !p.write(ctx, &b) {
			p.book.Undo()
			return
		}
	}
}

// write stores a batch; false says that it is to be written again.
func (p *Poller) write(ctx context.Context, b *metric.Batch) bool {
	if len(b.Samples) == 0 {
		return true
	}
	err := p.o.Write(context.WithoutCancel(ctx), b)
	if err == nil {
		p.unsaid = ""
		return true
	}
	if said := err.Error(); said != p.unsaid {
		p.unsaid = said
		p.o.Logger.Error("what Slurm says was not stored whole", "err", err)
	}
	return !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrDamaged)
}

// saved is what the state file holds.
type saved struct {
	Accounting time.Time `json:"accounting"` // up to when it was read
}

func (p *Poller) load() {
	if p.o.State == "" {
		return
	}
	raw, err := os.ReadFile(p.o.State)
	var s saved
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.o.Logger.Warn("it is not known up to when accounting was read; the last hour is read again", "err", err)
	}
	p.mark = s.Accounting
}

// save keeps the mark, or when the first job left the queue of which no end is known: after
// a restart nobody asks for it by number.
func (p *Poller) save() {
	if p.o.State == "" {
		return
	}
	mark := p.mark
	if left := p.book.LeftSince(); !left.IsZero() && left.Before(mark) {
		mark = left
	}
	raw, err := json.Marshal(saved{mark})
	if err == nil {
		if err = os.WriteFile(p.o.State+".new", append(raw, '\n'), 0o640); err == nil {
			err = os.Rename(p.o.State+".new", p.o.State)
		}
	}
	if err != nil {
		p.o.Logger.Warn("up to when accounting was read could not be saved", "err", err)
	}
}
