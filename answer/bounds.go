package answer

import (
	"context"
	"sync"
	"time"

	"reckon/answer/invariant"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/metric"
	"reckon/store"
)

// Bounds compares figures with their upper bounds and withholds a figure that exceeds its bound. A nil Bounds withholds
// nothing. It is safe for concurrent use.
type Bounds struct {
	Rollups NodeUse   // for the cores of machines, including past sizes
	Views   NodeViews // for their memory
	Ledger  *invariant.Ledger
	Clock   func() time.Time

	mu    sync.Mutex
	until time.Time // expiry of sizes
	sizes map[nodeName]nodeSize
}

// nodeSize is the largest size a machine was observed to have; 0 is unknown.
type nodeSize struct{ cores, memory float64 }

const (
	// sizesFor is the time that the sizes of machines are cached.
	sizesFor = 5 * time.Minute
	// schedulerSecond is the error of start and end times that a batch system reports in whole seconds.
	schedulerSecond = time.Second
	// bucketWidth is the relative width of a native histogram bucket, and thus the error of a quantile of cores. It
	// also allows for the jitter of the one-second ticks.
	bucketWidth = 0.09
	tickJitter  = 0.05
	// readSkew is the largest delay in seconds between the timestamp of figures, which is the start of the pass, and
	// the reading of a process. At a load of 50 on two processors, CPU time matched the elapsed time within 0.02 s.
	readSkew = 0.1
	// lateChildren is the tolerance in seconds for CPU time that is not exact. The CPU time of children appears only when they are
	// reaped, including use before the first sample. In the test at [readSkew], that was up to 1.1 s of both processors.
	lateChildren = 2.0
)

// nodeSizes returns the cores and the memory of each machine. Cores are the maxima over the last hours, day, week and
// quarter, because a machine may have grown or shrunk. Memory comes from the agents' reports. The roll-ups cannot give
// it, because they exclude time without samples.
func (b *Bounds) nodeSizes(ctx context.Context) map[nodeName]nodeSize {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Clock()
	if now.Before(b.until) {
		return b.sizes
	}
	sizes := map[nodeName]nodeSize{}
	for _, back := range []time.Duration{2 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 90 * 24 * time.Hour} {
		rows, err := b.Rollups.NodeUse(ctx,
			store.RollupQuery{From: now.Add(-back), To: now, Span: store.SpanWhole, By: []string{"site", "node"}})
		if err != nil {
			return b.sizes // an unknown size bounds nothing
		}
		for i := range rows {
			k := nodeName{rows[i].Site, rows[i].Node}
			s := sizes[k]
			s.cores = max(s.cores, orZero(figure.Ratio(rows[i].CoreSeconds, rows[i].UpSeconds)))
			sizes[k] = s
		}
	}
	nodes, err := b.Views.Nodes(ctx, now)
	if err != nil {
		nodes = nil // unavailable: their memory is unknown
	}
	for i := range nodes {
		if n := &nodes[i]; n.Agent {
			k := nodeName{n.Site, n.Node}
			s := sizes[k]
			s.cores, s.memory = max(s.cores, orZero(n.Cores)), orZero(n.MemoryBytes)
			sizes[k] = s
		}
	}
	b.sizes, b.until = sizes, now.Add(sizesFor)
	return sizes
}

// sumSizes returns the sum of the sizes of nodes; nil if one is unknown.
func sumSizes(sizes map[nodeName]nodeSize, site string, nodes []string) (cores, memory *float64) {
	if len(nodes) == 0 {
		return nil, nil
	}
	var all nodeSize
	knowCores, knowMemory := true, true
	for _, n := range nodes {
		s := sizes[nodeName{site, n}]
		knowCores, knowMemory = knowCores && s.cores > 0, knowMemory && s.memory > 0
		all.cores, all.memory = all.cores+s.cores, all.memory+s.memory
	}
	if knowCores {
		cores = &all.cores
	}
	if knowMemory {
		memory = &all.memory
	}
	return cores, memory
}

// checkWorkloads withholds figures that exceed their bounds.
func (b *Bounds) checkWorkloads(ctx context.Context, list []wire.Workload) {
	if b == nil || len(list) == 0 {
		return
	}
	sizes := b.nodeSizes(ctx)
	for i := range list {
		w := &list[i]
		r := runFigures{site: w.Site, id: w.ID, nodes: w.Nodes, start: w.Start, wall: max(w.WallSeconds, w.Seen.Sub(w.Start).Seconds()),
			scheduled: w.State != "" || w.Submit != nil, row: &w.Row}
		b.checkRun(sizes, &r)
	}
}

// Runs withholds figures of the catalogue rows in list that exceed their bounds. It serves rules that read the
// catalogue directly.
func (b *Bounds) Runs(ctx context.Context, list []store.Workload) {
	if b == nil || len(list) == 0 {
		return
	}
	sizes := b.nodeSizes(ctx)
	for i := range list {
		w := &list[i]
		until := w.Seen
		if w.End.After(until) {
			until = w.End
		}
		r := runFigures{site: w.Site, id: w.ID, nodes: w.Nodes, start: w.Start, wall: until.Sub(w.Start).Seconds(),
			scheduled: w.State != "" || !w.Submit.IsZero(), row: &w.Row}
		b.checkRun(sizes, &r)
	}
}

// runFigures holds the checked figures of one run.
type runFigures struct {
	site, id  string
	nodes     []string
	start     time.Time
	wall      float64
	scheduled bool // the times are from a batch system, in whole seconds
	row       *figure.Row
}

func (b *Bounds) checkRun(sizes map[nodeName]nodeSize, r *runFigures) {
	cores, memory := sumSizes(sizes, r.site, r.nodes)
	b.Ledger.Hold(runSubject(r.id, r.start), b.Clock(), r.listChecks(cores, memory)...)
}

// runSubject returns the name of a run in the list of withheld figures.
func runSubject(id string, start time.Time) string {
	return id + " of " + start.UTC().Format(time.RFC3339)
}

// wallError returns the maximum error of the wall time of a run, seconds.
func (r *runFigures) wallError() float64 {
	slack := invariant.Tick.Seconds()
	if r.scheduled {
		slack += 2 * schedulerSecond.Seconds()
	}
	return slack
}

// listChecks returns the checks of the run's figures against their bounds, on nodes with the given cores and memory.
func (r *runFigures) listChecks(cores, memory *float64) []invariant.Check {
	fact := func(key string) *float64 {
		switch key {
		case figure.WallSeconds:
			return &r.wall
		case figure.MachineCores:
			return cores
		case figure.MachineMemory:
			return memory
		}
		return *r.row.At(figure.Index(figure.Runs, key))
	}
	var out []invariant.Check
	for i := range figure.InScope(figure.Runs) {
		f := &figure.InScope(figure.Runs)[i]
		for _, bound := range f.AtMost {
			if e := r.row.Exactness[f.Key]; bound.Rule == figure.PeakWithinLimit && (e == figure.AtMost || e == figure.Estimated) {
				continue // a sum of the parts' peaks may exceed the peak of their sum
			}
			c := invariant.Check{Figure: f.Key, Rule: bound.Rule, Value: r.row.At(i), Bound: bound.Product(fact), Of: bound.Of}
			if bound.Rule == figure.UseWithinAllocation {
				c.Slack = r.quotaSlack(f)
			} else {
				c.Slack = r.allowedExcess(f, bound.Rule, orZero(cores))
			}
			out = append(out, c)
		}
	}
	return out
}

// allowedExcess returns the amount by which a figure may exceed a bound that depends on a machine with the given cores.
func (r *runFigures) allowedExcess(f *figure.Figure, rule string, cores float64) float64 {
	switch {
	case rule == figure.SumWithinWhole:
		return invariant.Tick.Seconds()
	case f.Unit == metric.Bytes:
		return invariant.Batch * cores
	case f.Unit == metric.Seconds:
		return r.wallError() * cores
	case f.How.Value == figure.Quantile && f.Quantile < 1:
		return bucketWidth * cores
	case f.How.Value == figure.Quantile:
		return tickJitter * cores
	case r.wall > 0:
		return r.wallError() / r.wall * cores
	}
	return 0
}

// quotaPeriod is the period of the kernel's CPU quota in seconds. A run or a tick may use the quota of one period more
// than its length suggests, because it may start and end within a period.
const quotaPeriod = 0.1

// quotaSlack returns the amount by which a figure may exceed a limit of cores.
func (r *runFigures) quotaSlack(f *figure.Figure) float64 {
	limit := orZero(r.row.LimitCores)
	switch {
	case f.Unit == metric.Seconds:
		return (r.wallError() + quotaPeriod) * limit
	case f.How.Value == figure.Quantile:
		return (bucketWidth + tickJitter + quotaPeriod) * limit
	case r.wall > 0:
		return (r.wallError() + quotaPeriod) / r.wall * limit
	}
	return 0
}

// checkParts withholds the figures of the parts of a run that exceed their node or the run.
func (b *Bounds) checkParts(ctx context.Context, d *wire.WorkloadDetail) {
	if b == nil || len(d.Parts) == 0 {
		return
	}
	sizes := b.nodeSizes(ctx)
	r := runFigures{wall: max(d.WallSeconds, d.Seen.Sub(d.Start).Seconds()), scheduled: d.State != "" || d.Submit != nil}
	for i := range d.Parts {
		p := &d.Parts[i]
		cores, memory := sumSizes(sizes, d.Site, []string{p.Node})
		var time *float64
		if cores != nil {
			time = new(r.wall * *cores)
		}
		b.Ledger.Hold("part "+p.Part+" on "+p.Node+" of "+runSubject(d.ID, d.Start), b.Clock(),
			invariant.Check{Figure: "cpu_seconds", Rule: invariant.CPUWithinWall, Value: &p.CPUSeconds, Bound: time,
				Slack: r.wallError() * orZero(cores), Of: "wall time by the cores of its node"},
			invariant.Check{Figure: "cpu_seconds", Rule: invariant.SumWithinWhole, Value: &p.CPUSeconds, Bound: d.CPUSeconds,
				Slack: r.wallError() * orZero(cores), Of: "the CPU time of the whole run"},
			invariant.Check{Figure: "memory_peak_bytes", Rule: invariant.PeakWithinMachine, Value: &p.MemoryPeakBytes, Bound: memory,
				Slack: invariant.Batch * orZero(cores), Of: "the memory of its node"},
			invariant.Check{Figure: "memory_needed_peak_bytes", Rule: invariant.PeakWithinMachine, Value: &p.MemoryNeededPeakBytes,
				Bound: memory, Slack: invariant.Batch * orZero(cores), Of: "the memory of its node"})
	}
}

// checkNode withholds the current figures of a node.
func (b *Bounds) checkNode(n *wire.Node) {
	if b == nil {
		return
	}
	b.Ledger.Hold("node "+n.Node, b.Clock(),
		invariant.Check{Figure: "cores_used", Rule: invariant.SumWithinWhole, Value: &n.CoresUsed, Bound: n.Cores,
			Slack: tickJitter * orZero(n.Cores), Of: "its cores"},
		invariant.Check{Figure: "memory_used_bytes", Rule: invariant.SumWithinWhole, Value: &n.MemoryUsed, Bound: n.MemoryBytes,
			Of: "its memory"})
}

// checkSpan withholds the shares of a node's past.
func (b *Bounds) checkSpan(node string, s *wire.NodeSpan) {
	if b == nil || s == nil {
		return
	}
	whole := new(1.0)
	b.Ledger.Hold("node "+node, b.Clock(),
		invariant.Check{Figure: "up_share", Rule: invariant.ShareWithinWhole, Value: &s.UpShare, Bound: whole, Of: "the time since then"},
		invariant.Check{Figure: "cpu_share", Rule: invariant.ShareWithinWhole, Value: &s.CPUShare, Bound: whole, Of: "its core time"},
		invariant.Check{Figure: "memory_share", Rule: invariant.ShareWithinWhole, Value: &s.MemoryShare, Bound: whole, Of: "its memory"})
	if s.CPUShare == nil {
		s.UnusedCoreSeconds = nil // derived from the same figures
	}
}

// checkUsage withholds shares of capacity above 1.
func (b *Bounds) checkUsage(list *wire.UsageList) {
	if b == nil {
		return
	}
	now, whole := b.Clock(), new(1.0)
	check := func(subject string, r *wire.Usage) {
		slack := 0.0
		if seconds := orZero(r.UpSeconds); seconds > 0 {
			slack = readSkew / seconds
			if r.Exactness["cpu_seconds"] != figure.Exact {
				slack = lateChildren / seconds
			}
		}
		b.Ledger.Hold(subject, now, invariant.Check{Figure: "capacity_share", Rule: invariant.ShareWithinWhole, Value: &r.CapacityShare,
			Bound: whole, Slack: slack, Of: "the core time that was there"})
	}
	for i := range list.Rows {
		r := &list.Rows[i]
		subject := "usage of"
		for _, word := range []string{r.Site, r.Owner, r.Account, r.Partition, r.Node, r.Command, r.Kind} {
			if word != "" {
				subject += " " + word
			}
		}
		if r.From != nil {
			subject += " from " + r.From.UTC().Format(time.RFC3339)
		}
		check(subject, r)
	}
	check("usage of all from "+list.Since.UTC().Format(time.RFC3339), &list.Total)
}

// checkScale withholds speed-ups above the number of cores that the runs were measured to use at once.
func (b *Bounds) checkScale(out *wire.Scale) {
	if b == nil {
		return
	}
	for i := range out.Runs {
		r := &out.Runs[i]
		if r.CPUSeconds == nil || r.Seconds <= 0 {
			continue
		}
		seen := new(max(1, *r.CPUSeconds/r.Seconds))
		b.Ledger.Hold(runSubject(r.ID, r.Start), b.Clock(), invariant.Check{
			Figure: "speedup", Rule: invariant.SpeedupWithinConcurrency, Value: &r.Speedup, Bound: seen, Slack: tickJitter * *seen,
			Of: "the cores in use at once, on the mean"})
	}
}

// Inconsistent lists the figures withheld since the start.
func (b *Bounds) Inconsistent() []wire.InconsistentFigure {
	out := []wire.InconsistentFigure{}
	for _, x := range b.Ledger.Broken() {
		out = append(out, wire.InconsistentFigure{Figure: x.Figure, Rule: x.Rule, Count: x.Count,
			Subject: x.Subject, Value: x.Value, Bound: x.Bound, Of: x.Of, Time: x.At.UTC()})
	}
	return out
}
