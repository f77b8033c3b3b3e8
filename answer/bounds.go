package answer

import (
	"context"
	"sync"
	"time"

	"reckon/answer/invariant"
	"reckon/client"
	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

// Bounds holds the figures of answers against what they can not pass, and holds back those
// that do. A nil Bounds holds nothing back. It is safe for concurrent use.
type Bounds struct {
	Rollups NodeUse   // for the cores of machines, past ones included
	Views   NodeViews // for their memory
	Ledger  *invariant.Ledger
	Clock   func() time.Time

	mu    sync.Mutex
	until time.Time // of sizes
	sizes map[nodeName]machineSize
}

// machineSize is the most that a machine was seen to have; 0 is unknown.
type machineSize struct{ cores, memory float64 }

const (
	// sizesFor is how long sizes of machines are taken for known.
	sizesFor = 5 * time.Minute
	// schedulerSecond is by how much start and end of a run may each be off where a batch system
	// reports them, in whole seconds.
	schedulerSecond = time.Second
	// A quantile of cores lies in a bucket of a native histogram, which is 9 % wide; cores at one
	// tick of a second are off by what the tick is.
	bucketWidth = 0.09
	tickJitter  = 0.05
)

// machines are the sizes of machines: the most cores over the last hours, day, week and quarter,
// because a machine may have grown or shrunk, and the memory that their agents report. Memory
// of roll-ups lacks the time without samples, so it can not tell the size.
func (b *Bounds) machines(ctx context.Context) map[nodeName]machineSize {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Clock()
	if now.Before(b.until) {
		return b.sizes
	}
	sizes := map[nodeName]machineSize{}
	for _, back := range []time.Duration{2 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 90 * 24 * time.Hour} {
		rows, err := b.Rollups.NodeUse(ctx, store.RollupQuery{From: now.Add(-back), To: now, Span: store.SpanWhole, By: []string{"site", "node"}})
		if err != nil {
			return b.sizes // what is unknown bounds nothing
		}
		for i := range rows {
			k := nodeName{rows[i].Site, rows[i].Node}
			s := sizes[k]
			s.cores = max(s.cores, orZero(ratio(rows[i].CoreSeconds, rows[i].UpSeconds)))
			sizes[k] = s
		}
	}
	nodes, err := b.Views.Nodes(ctx, now)
	if err != nil {
		nodes = nil // away: their memory is unknown
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

// ofNodes adds the sizes of nodes up; nil where one is unknown.
func ofNodes(sizes map[nodeName]machineSize, site string, nodes []string) (cores, memory *float64) {
	if len(nodes) == 0 {
		return nil, nil
	}
	var all machineSize
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

// workloads holds back the figures of runs that pass what bounds them.
func (b *Bounds) workloads(ctx context.Context, list []client.Workload) {
	if b == nil || len(list) == 0 {
		return
	}
	sizes, now := b.machines(ctx), b.Clock()
	for i := range list {
		w := &list[i]
		cores, memory := ofNodes(sizes, w.Site, w.Nodes)
		b.Ledger.Hold(w.ID+" of "+w.Start.UTC().Format(time.RFC3339), now, runChecks(w, cores, memory)...)
	}
}

// runChecks are the bounds of the table of figures for one run, on machines with so many cores
// and so much memory.
func runChecks(w *client.Workload, cores, memory *float64) []invariant.Check {
	wall := max(w.WallSeconds, w.Seen.Sub(w.Start).Seconds())
	slack := invariant.Tick.Seconds()
	if w.State != "" || w.Submit != nil {
		slack += 2 * schedulerSecond.Seconds()
	}
	n := orZero(cores)
	perCore := 0.0
	if wall > 0 {
		perCore = slack / wall
	}
	fact := func(key string) *float64 {
		switch key {
		case figure.WallSeconds:
			return &wall
		case figure.MachineCores:
			return cores
		case figure.MachineMemory:
			return memory
		}
		return *w.Row.At(figure.Index(figure.Run, key))
	}
	var out []invariant.Check
	for i := range figure.Of(figure.Run) {
		f := &figure.Of(figure.Run)[i]
		for _, bound := range f.AtMost {
			c := invariant.Check{Figure: f.Key, Rule: bound.Rule, Value: w.Row.At(i), Bound: bound.Product(fact), Of: bound.Of}
			switch {
			case bound.Rule == figure.SumWithinWhole:
				c.Slack = invariant.Tick.Seconds()
			case f.Unit == metric.Bytes:
				c.Slack = invariant.Batch * n
			case f.Unit == metric.Seconds:
				c.Slack = slack * n
			case f.How.Value == figure.Quantile && f.Quantile < 1:
				c.Slack = bucketWidth * n
			case f.How.Value == figure.Quantile:
				c.Slack = tickJitter * n
			default:
				c.Slack = perCore * n
			}
			out = append(out, c)
		}
	}
	return out
}

// node holds back the figures of a node now.
func (b *Bounds) node(n *client.Node) {
	if b == nil {
		return
	}
	b.Ledger.Hold("node "+n.Node, b.Clock(),
		invariant.Check{Figure: "cores_used", Rule: invariant.SumWithinWhole, Value: &n.CoresUsed, Bound: n.Cores, Slack: tickJitter * orZero(n.Cores), Of: "its cores"},
		invariant.Check{Figure: "memory_used_bytes", Rule: invariant.SumWithinWhole, Value: &n.MemoryUsed, Bound: n.MemoryBytes, Of: "its memory"})
}

// span holds back the shares of a node's past.
func (b *Bounds) span(node string, s *client.NodeSpan) {
	if b == nil || s == nil {
		return
	}
	whole := new(1.0)
	b.Ledger.Hold("node "+node, b.Clock(),
		invariant.Check{Figure: "up_share", Rule: invariant.ShareWithinWhole, Value: &s.UpShare, Bound: whole, Of: "the time since then"},
		invariant.Check{Figure: "cpu_share", Rule: invariant.ShareWithinWhole, Value: &s.CPUShare, Bound: whole, Of: "its core time"},
		invariant.Check{Figure: "memory_share", Rule: invariant.ShareWithinWhole, Value: &s.MemoryShare, Bound: whole, Of: "its memory"})
	if s.CPUShare == nil {
		s.UnusedCoreSeconds = nil // it rests on the same figures
	}
}

// usage holds back shares of capacity above the whole.
func (b *Bounds) usage(list *client.UsageList) {
	if b == nil {
		return
	}
	now, whole := b.Clock(), new(1.0)
	check := func(subject string, share **float64) {
		b.Ledger.Hold(subject, now, invariant.Check{Figure: "capacity_share", Rule: invariant.ShareWithinWhole, Value: share, Bound: whole, Of: "the core time that was there"})
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
		check(subject, &r.CapacityShare)
	}
	check("usage of all from "+list.Since.UTC().Format(time.RFC3339), &list.Total.CapacityShare)
}

// scale holds back speed-ups beyond the cores that the runs were measured to use at once.
func (b *Bounds) scale(out *client.Scale) {
	if b == nil {
		return
	}
	for i := range out.Runs {
		r := &out.Runs[i]
		if r.CPUSeconds == nil || r.Seconds <= 0 {
			continue
		}
		seen := new(max(1, *r.CPUSeconds/r.Seconds))
		b.Ledger.Hold(r.ID+" of "+r.Start.UTC().Format(time.RFC3339), b.Clock(), invariant.Check{
			Figure: "speedup", Rule: invariant.SpeedupWithinConcurrency, Value: &r.Speedup, Bound: seen, Slack: tickJitter * *seen, Of: "the cores in use at once, on the mean"})
	}
}

// Inconsistent lists the figures that were held back since the start.
func (b *Bounds) Inconsistent() []client.InconsistentFigure {
	out := []client.InconsistentFigure{}
	for _, x := range b.Ledger.Broken() {
		out = append(out, client.InconsistentFigure{Figure: x.Figure, Rule: x.Rule, Count: x.Count,
			Subject: x.Subject, Value: x.Value, Bound: x.Bound, Of: x.Of, Time: x.At.UTC()})
	}
	return out
}
