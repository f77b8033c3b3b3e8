package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"reckon/metric"
	"reckon/store"
)

// Options configure a [Poller]. Zero fields have the defaults in the package comment.
type Options struct {
	Jobs, Accounts, Nodes time.Duration // interval of each query
	// Timeout is the time limit of a query.
	Timeout time.Duration
	// Overlap is the time by which a query of accounting reaches back into the previous window.
	Overlap time.Duration
	// First is the time that the first query of accounting reaches back.
	First time.Duration
	// State is the file that stores how far accounting was read; empty for none.
	State string
	// Write stores a batch.
	Write  func(ctx context.Context, b *metric.Batch) error
	Logger *slog.Logger
	// Clock returns the current time; nil is time.Now. See [Poller.Step].
	Clock func() time.Time
}

func (o *Options) setDefaults() {
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

// Poller polls a source at its own pace and writes the responses as samples.
type Poller struct {
	source  Source
	o       Options
	tracker *JobTracker
	queries []*scheduledQuery

	mark           time.Time // up to when accounting was read
	failed         bool      // the last query of accounting failed
	nodes          table
	queues         table
	self           table
	lastWriteError string // the last error of the store
}

// scheduledQuery is one query with its schedule.
type scheduledQuery struct {
	name    string
	every   time.Duration
	run     func(ctx context.Context) (Read, error)
	next    time.Time
	fails   int
	queried bool
	took    time.Duration
	bad     float64
	logged  string
}

// NewPoller returns a poller of a source.
func NewPoller(s Source, o Options) *Poller {
	o.setDefaults()
	p := &Poller{source: s, o: o, tracker: NewJobTracker(s.Kind())}
	p.queries = []*scheduledQuery{
		{name: "jobs", every: o.Jobs, run: p.readJobs},
		{name: "accounting", every: o.Accounts, run: p.readAccounts},
		{name: "nodes", every: o.Nodes, run: p.readNodes},
	}
	return p
}

// Limits of the polling rate.
const (
	pauseFactor = 20               // the pause after a response, as a multiple of its duration
	maxPause    = 10 * time.Minute // the longest pause after failures
)

// Run polls until ctx ends.
func (p *Poller) Run(ctx context.Context) error {
	p.Load()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		p.Step(ctx)
		next := p.queries[0].next
		for _, t := range p.queries[1:] {
			if t.next.Before(next) {
				next = t.next
			}
		}
		timer.Reset(max(time.Until(next), 100*time.Millisecond))
	}
}

// Step runs the queries that are due by the options' clock. It replaces Run for callers that advance the clock themselves.
func (p *Poller) Step(ctx context.Context) {
	for _, t := range p.queries {
		if ctx.Err() == nil && !p.o.Clock().Before(t.next) {
			p.runQuery(ctx, t)
		}
	}
}

// runQuery runs one query and schedules the next.
func (p *Poller) runQuery(ctx context.Context, t *scheduledQuery) {
	begin := p.o.Clock()
	limited, cancel := context.WithTimeoutCause(ctx, p.o.Timeout, fmt.Errorf("the limit is %v", p.o.Timeout))
	got, err := t.run(limited)
	cancel()
	if ctx.Err() != nil {
		return
	}
	now := p.o.Clock()
	t.took, t.queried = now.Sub(begin), true
	t.bad += float64(got.Bad)
	pause := max(t.every, pauseFactor*t.took)
	if err != nil {
		t.fails++
		pause = min(max(pause, t.every<<min(t.fails, 6)), max(maxPause, t.every))
	} else {
		t.fails = 0
	}
	t.next = now.Add(min(pause, max(maxPause, t.every)))
	p.logChange(t, got, err)
	p.writeHealth(ctx, now)
}

// systemName returns the name of the batch system in messages.
func (p *Poller) systemName() string {
	name := string(p.source.Kind())
	return strings.ToUpper(name[:1]) + name[1:]
}

// logChange logs changes of state.
func (p *Poller) logChange(t *scheduledQuery, got Read, err error) {
	message := ""
	if err != nil {
		message = err.Error()
	} else if got.Bad > 0 {
		message = "records that cannot be parsed: " + got.FirstBad
	}
	system := p.systemName()
	switch {
	case message == t.logged:
	case err != nil:
		p.o.Logger.Error(system+" could not be read; the query is repeated, and nothing is lost that it reports later", "source", t.name,
			"err", err)
	case message != "":
		p.o.Logger.Warn(system+" returned records that cannot be parsed; the others were taken", "source", t.name, "bad", got.Bad, "of",
			got.Records, "first", got.FirstBad)
	default:
		p.o.Logger.Info(system+" is read again", "source", t.name)
	}
	t.logged = message
}

// writeHealth writes the series about the polling itself.
func (p *Poller) writeHealth(ctx context.Context, now time.Time) {
	b := metric.Batch{Time: now}
	p.self.beginRound()
	for _, t := range p.queries {
		if !t.queried {
			continue
		}
		up := 1.0
		if t.fails > 0 {
			up = 0
		}
		p.self.addSample(&b, readUp, up, t.name)
		p.self.addSample(&b, readSeconds, t.took.Seconds(), t.name)
		p.self.addSample(&b, badRecords, t.bad, t.name)
	}
	p.self.addSample(&b, unresolved, float64(p.tracker.Unresolved()))
	p.self.endRound(&b)
	p.storeBatch(ctx, &b)
}

func (p *Poller) readJobs(ctx context.Context) (Read, error) {
	// The response is from this moment or later, and so within its run, even if the job is requeued
	// while a slow response arrives.
	now := p.o.Clock()
	jobs, got, err := p.source.Jobs(ctx)
	p.tracker.UpdateQueue(now, jobs, err == nil)
	p.writeDue(ctx, now)
	if err == nil {
		b := metric.Batch{Time: now}
		p.queues.addJobs(&b, jobs)
		p.storeBatch(ctx, &b)
	}
	return got, err
}

// maxByNumber limits the number of jobs per query of accounting by number.
const maxByNumber = 200

// maxWindow is the longest time window of one query of accounting.
const maxWindow = 24 * time.Hour

// readAccounts reads the jobs that ended since the last call. After a failed call it starts further back, because
// slurmdbd receives some updates late after an outage.
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
	if next := p.mark.Add(maxWindow); next.Before(now) {
		until = next
	}
	jobs, got, err := p.source.Ended(ctx, p.mark.Add(-overlap), until)
	p.tracker.UpdateAccounting(jobs)
	p.failed = err != nil || (p.failed && got.Records == 0)
	if err == nil {
		p.mark = until
		if p.mark.After(now) {
			p.mark = now
		}
		if numbers, since := p.tracker.Unaccounted(now, maxByNumber); len(numbers) > 0 {
			var more []Job
			var also Read
			more, also, err = p.source.ByNumber(ctx, numbers, since)
			p.tracker.UpdateAccounting(more)
			got.Records, got.Bad = got.Records+also.Records, got.Bad+also.Bad
			if got.FirstBad == "" {
				got.FirstBad = also.FirstBad
			}
		}
	}
	p.writeDue(ctx, p.o.Clock())
	p.saveState()
	return got, err
}

func (p *Poller) readNodes(ctx context.Context) (Read, error) {
	nodes, parts, got, err := p.source.Nodes(ctx)
	if err == nil {
		b := metric.Batch{Time: p.o.Clock()}
		p.nodes.addNodes(&b, nodes, parts)
		p.storeBatch(ctx, &b)
	}
	return got, err
}

// writeDue writes the samples that are due.
func (p *Poller) writeDue(ctx context.Context, now time.Time) {
	for _, b := range p.tracker.Collect(now) {
		if !p.storeBatch(ctx, &b) {
			p.tracker.Resend()
			return
		}
	}
}

// storeBatch stores a batch; false if it must be written again.
func (p *Poller) storeBatch(ctx context.Context, b *metric.Batch) bool {
	if len(b.Samples) == 0 {
		return true
	}
	err := p.o.Write(context.WithoutCancel(ctx), b)
	if err == nil {
		p.lastWriteError = ""
		return true
	}
	if message := err.Error(); message != p.lastWriteError {
		p.lastWriteError = message
		p.o.Logger.Error("samples of "+p.systemName()+" were not all stored", "err", err)
	}
	return !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrDamaged)
}

// savedState is the content of the state file.
type savedState struct {
	Accounting time.Time `json:"accounting"` // up to when it was read
}

// Load reads the end of the time range already read from accounting, for callers of [Poller.Step].
func (p *Poller) Load() {
	if p.o.State == "" {
		return
	}
	raw, err := os.ReadFile(p.o.State)
	var s savedState
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.o.Logger.Warn("the position in accounting is unknown; the last hour is read again", "err", err)
	}
	p.mark = s.Accounting
}

// saveState stores the end of that range, or the time from which accounting must be read again after a restart.
func (p *Poller) saveState() {
	if p.o.State == "" {
		return
	}
	mark := p.mark
	if again := p.tracker.RereadSince(); !again.IsZero() && again.Before(mark) {
		mark = again
	}
	raw, err := json.Marshal(savedState{mark})
	if err == nil {
		if err = os.WriteFile(p.o.State+".new", append(raw, '\n'), 0o640); err == nil {
			err = os.Rename(p.o.State+".new", p.o.State)
		}
	}
	if err != nil {
		p.o.Logger.Warn("up to when accounting was read could not be saved", "err", err)
	}
}
