package findings

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"reckon/analysis/misuse"
	"reckon/figure"
	"reckon/store"
)

// Past is the part of the catalogue that findings over days are made of: runs and the hours of nodes.
type Past interface {
	EachRun(ctx context.Context, q store.RunQuery, next func(*store.Workload)) error
	NodeUse(ctx context.Context, q store.RollupQuery) ([]store.NodeUse, error)
	Workloads(ctx context.Context, f store.Filter) ([]store.Workload, int, error)
}

const (
	week  = 7 * 24 * time.Hour
	month = 30 * 24 * time.Hour
)

var allocatedFigures = []string{"cpu_seconds", "gpu_seconds", "allocated_cores", "allocated_memory_bytes", "allocated_gpus",
	"request_cores",
	"request_memory_bytes", "request_gpus", "suspended_seconds", "memory_needed_peak_bytes", "memory_needed_most_bytes",
	"memory_peak_bytes"}

// holdings sums allocated and unused amounts of runs in periods with a common end.
type holdings struct {
	periods  []misuse.Period
	sums     []map[holdingKey]*misuse.AllocationSum
	pools    map[[2]string]*partitionPool // by site and partition
	nodes    map[nodeKey]*nodeDays
	imported bool    // of the time in which nodes were not measured, else of that in which they were
	watts    float64 // that machines drew for each of their cores
	spared   map[sparedRun]bool
}

// partitionPool is a partition with the sizes of its runs, and its nodes.
type partitionPool struct {
	whole wholeNodes
	nodes map[nodeKey]*nodeDays
	// perCore is the memory of its nodes for each core, bytes, if it runs out before the cores do; else 0.
	perCore float64
}

// nodeDays has the cores and memory of a measured node, and the part that batch jobs held: core and byte seconds.
type nodeDays struct {
	first                                time.Time // day
	cores, memory, heldCores, heldMemory float64
}

// setLimit determines whether jobs run out of memory before they run out of cores, and sets p.perCore in that case. At
// least a quarter of the memory must be allocated, and its share must exceed the share of the cores by a tenth. A batch
// system that allocates more memory than exists does not track memory.
func (p *partitionPool) setLimit() {
	var sum nodeDays
	for _, n := range p.nodes {
		sum.cores, sum.memory = sum.cores+n.cores, sum.memory+n.memory
		sum.heldCores, sum.heldMemory = sum.heldCores+n.heldCores, sum.heldMemory+n.heldMemory
	}
	if share := sum.heldMemory / sum.memory; share >= 0.25 && share <= 1.05 && share >= 1.1*sum.heldCores/sum.cores {
		p.perCore = sum.memory / sum.cores
	}
}

// sparedRun is a resource of a run that sums over days omit, because a finding about it is muted.
type sparedRun struct {
	site, owner, name string
	start             int64 // Unix milliseconds
	resource          int
}

// setMuted sets the muted findings. Their runs do not count again in sums over days.
func (e *Evaluator) setMuted(list []store.Finding) {
	e.mu.Lock()
	defer e.mu.Unlock()
	same := func(a, b store.Finding) bool { return a.ID == b.ID }
	if !slices.EqualFunc(e.muted, list, same) {
		e.muted, e.held = list, nil
	}
}

// findMuted finds the runs that muted findings are about.
func (e *Evaluator) findMuted(ctx context.Context, past Past) (map[sparedRun]bool, error) {
	about := map[workloadKey][]*store.Finding{}
	var ids []string
	for i := range e.muted {
		if f := &e.muted[i]; f.Workload != "" {
			about[workloadKey{f.Site, f.Workload}] = append(about[workloadKey{f.Site, f.Workload}], f)
			ids = append(ids, f.Workload)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, _, err := past.Workloads(ctx, store.Filter{IDs: ids})
	if err != nil {
		return nil, fmt.Errorf("read the runs of muted findings: %w", err)
	}
	out := map[sparedRun]bool{}
	for i := range rows {
		w := &rows[i]
		for _, f := range about[workloadKey{w.Site, w.ID}] {
			resource, ok := replacedParts[[2]string{f.Rule, f.Part}]
			if ok && !f.Last.Before(w.Start) && !f.First.After(cmp.Or(w.End, w.Seen)) { // of this run, not of another run with the same id
				out[sparedRun{w.Site, w.Owner, w.Name, w.Start.UnixMilli(), resource}] = true
			}
		}
	}
	return out, nil
}

type holdingKey struct{ site, owner, name, partition string }

// wholeNodes counts the runs of a partition by their cores per node.
type wholeNodes map[float64]float64

// isWhole reports whether the partition allocates whole nodes. Nearly every run then has as much of each node as the
// largest run.
func (w wholeNodes) isWhole() bool {
	full, runs, most := 0.0, 0.0, 0.0
	for cores := range w {
		most = max(most, cores)
	}
	for cores, n := range w {
		if runs += n; cores >= 0.9*most {
			full += n
		}
	}
	return runs >= 3 && full >= 0.95*runs
}

// findOverTime finds owners with unused allocations over the last days.
func (e *Evaluator) findOverTime(ctx context.Context, to time.Time, policies []*Policy) ([][]misuse.Finding, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if age := to.Sub(e.heldAt); e.held == nil || age < 0 || age >= overTimeCacheAge {
		periods := []misuse.Period{{From: to.Add(-week), To: to}, {From: to.Add(-month), To: to}}
		h, err := e.sumHoldings(ctx, periods, false)
		if err != nil {
			return nil, err
		}
		e.held, e.heldAt = h, to
	}
	return e.findUnused(e.held, policies), nil
}

// overTimeCacheAge is the time for which sums over days are reused.
const overTimeCacheAge = 15 * time.Minute

// Imported finds unused allocations from accounting, for time without node measurements.
func (e *Evaluator) Imported(ctx context.Context, p *Policy, from, to time.Time) ([]misuse.Finding, error) {
	h, err := e.sumHoldings(ctx, []misuse.Period{{From: from, To: to, Report: true}}, true)
	if err != nil {
		return nil, err
	}
	return e.findUnused(h, []*Policy{p})[0], nil
}

// findUnused applies the rule.
func (e *Evaluator) findUnused(h *holdings, policies []*Policy) [][]misuse.Finding {
	out := make([][]misuse.Finding, len(policies))
	for i, p := range policies {
		out[i] = misuse.FindUnusedOverTime(h.periods, func(partition string) *misuse.Policy { return p.For(partition, nil) })
		for k := range out[i] {
			e.addCost(&out[i][k], h.watts)
		}
	}
	return out
}

// sumHoldings sums up periods; the last is the longest.
func (e *Evaluator) sumHoldings(ctx context.Context, periods []misuse.Period, imported bool) (*holdings, error) {
	h := &holdings{periods: periods, imported: imported, nodes: map[nodeKey]*nodeDays{}, pools: map[[2]string]*partitionPool{}}
	past, ok := e.Facts.(Past)
	if !ok {
		return h, nil
	}
	longest := periods[len(periods)-1]
	nodes, err := past.NodeUse(ctx,
		store.RollupQuery{From: longest.From, To: longest.To, Span: store.SpanDay, By: []string{"site", "node"}})
	if err != nil {
		return nil, fmt.Errorf("read the hours of nodes: %w", err)
	}
	for i := range nodes {
		n, p := &nodes[i], nodeKey{nodes[i].Site, nodes[i].Node}
		if n.CoreSeconds == nil || *n.CoreSeconds <= 0 {
			continue
		}
		if h.nodes[p] == nil {
			h.nodes[p] = &nodeDays{first: n.At}
		}
		d := h.nodes[p]
		if d.first = store.Earlier(d.first, n.At); n.NodeMemoryByteSeconds != nil {
			d.cores, d.memory = d.cores+*n.CoreSeconds, d.memory+*n.NodeMemoryByteSeconds
		}
	}
	h.watts = wattsPerCore(nodes)
	if h.spared, err = e.findMuted(ctx, past); err != nil {
		return nil, err
	}
	for range periods {
		h.sums = append(h.sums, map[holdingKey]*misuse.AllocationSum{})
	}
	runs := store.RunQuery{Filter: store.Filter{Since: longest.From, Until: longest.To}, Figures: allocatedFigures, Held: true}
	for _, next := range []func(*store.Workload){h.countNodes, h.addRun} {
		if err := past.EachRun(ctx, runs, next); err != nil {
			return nil, fmt.Errorf("read the runs: %w", err)
		}
		for _, p := range h.pools {
			p.setLimit()
		}
	}
	for i := range h.sums {
		for _, sum := range h.sums[i] {
			h.periods[i].Holdings = append(h.periods[i].Holdings, *sum)
		}
	}
	h.sums = nil
	return h, nil
}

// wattsPerCore returns the watts per core that machines drew, or 0 if that was not measured.
func wattsPerCore(nodes []store.NodeUse) float64 {
	joules, seconds := 0.0, 0.0
	for i := range nodes {
		if n := &nodes[i]; n.NodeJoules != nil && n.CoreSeconds != nil {
			joules, seconds = joules+*n.NodeJoules, seconds+*n.CoreSeconds
		}
	}
	if seconds == 0 {
		return 0
	}
	return joules / seconds
}

// addCost adds the cost of the machines' energy for unused cores, if there is a tariff.
func (e *Evaluator) addCost(f *misuse.Finding, watts float64) {
	unused, unit := f.Wasted()
	if e.Tariff == nil || watts == 0 || unit != "core-seconds" {
		return
	}
	rate := e.Tariff()
	if rate == nil {
		return
	}
	if cost, ok := rate.Of(unused*watts, f.First, f.Last); ok {
		f.Evidence = append(f.Evidence, misuse.Evidence{Text: "cost of the energy that machines drew for as many cores", Value: cost,
			Unit: rate.Unit})
	}
}

// countNodes records the sizes of the runs of partitions.
func (h *holdings) countNodes(w *store.Workload) {
	if w.AllocatedCores == nil || len(w.Nodes) == 0 || w.Partition == "" {
		return
	}
	k := [2]string{w.Site, w.Partition}
	if h.pools[k] == nil {
		h.pools[k] = &partitionPool{whole: wholeNodes{}, nodes: map[nodeKey]*nodeDays{}}
	}
	p, of, last := h.pools[k], float64(len(w.Nodes)), h.periods[len(h.periods)-1]
	p.whole[*w.AllocatedCores/of]++
	from, to, ok := h.countedSpan(w)
	seconds := store.Earlier(to, last.To).Sub(store.Later(from, last.From)).Seconds()
	for _, name := range w.Nodes {
		at := nodeKey{w.Site, name}
		if d := h.nodes[at]; d != nil && ok && seconds > 0 && w.AllocatedMemoryBytes != nil {
			p.nodes[at] = d
			d.heldCores += *w.AllocatedCores / of * seconds
			d.heldMemory += *w.AllocatedMemoryBytes / of * seconds
		}
	}
}

// fullMemoryShare is the share of the memory of a node above which a run needs the whole node.
const fullMemoryShare = 0.7

// countedSpan returns the part of a run's time that counts, or false if there is none.
func (h *holdings) countedSpan(w *store.Workload) (from, to time.Time, ok bool) {
	from, to = w.Start, cmp.Or(w.End, w.Seen)
	since, measured := time.Time{}, len(w.Nodes) > 0
	for _, n := range w.Nodes { // the day on which the last of its nodes was first measured
		d := h.nodes[nodeKey{w.Site, n}]
		if measured = measured && d != nil; measured {
			since = store.Later(since, d.first)
		}
	}
	switch {
	case measured && h.imported:
		to = store.Earlier(to, since)
	case measured:
		from = store.Later(from, since)
	}
	return from, to, w.Began() && (measured || h.imported)
}

// addRun adds a run to the periods.
func (h *holdings) addRun(w *store.Workload) {
	from, to, ok := h.countedSpan(w)
	if !ok {
		return
	}
	wall := cmp.Or(w.End, w.Seen).Sub(w.Start).Seconds()
	for i, p := range h.periods {
		from, to := store.Later(from, p.From), store.Earlier(to, p.To)
		seconds := to.Sub(from).Seconds()
		if seconds <= 0 || wall <= 0 {
			continue
		}
		one := misuse.AllocationSum{Site: w.Site, Owner: w.Owner, Name: w.Name, Partition: w.Partition, Runs: 1, First: from, Last: to}
		if w.End.IsZero() && h.periods[i].To.Sub(w.Seen) < 2*gap {
			one.Running = 1
		}
		if !h.measureRun(w, &one, seconds, seconds/wall) {
			continue
		}
		k := holdingKey{w.Site, w.Owner, w.Name, w.Partition}
		if have := h.sums[i][k]; have != nil {
			have.Add(&one)
		} else {
			h.sums[i][k] = &one
		}
	}
}

// measureRun sets the allocated and unused amounts of a run over seconds, a share of its time. It returns false if nothing is known.
func (h *holdings) measureRun(w *store.Workload, one *misuse.AllocationSum, seconds, share float64) (known bool) {
	if w.SuspendedSeconds != nil {
		seconds = max(seconds-*w.SuspendedSeconds*share, 0)
	}
	exact := func(key string, v *float64) bool { return v != nil && w.Exactness[key] == figure.Exact }
	cores, _ := w.GivenCores()
	memory, _ := w.GivenMemory()
	need := cmp.Or(w.NeededMost(), w.MemoryPeakBytes)
	in := h.pools[[2]string{w.Site, w.Partition}]
	if cores != nil && exact(exactCPU, w.CPUSeconds) {
		known = true
		one.Held[misuse.HeldCores] = *cores * seconds
		unused := max(*cores*seconds-*w.CPUSeconds*share, 0)
		if in != nil && in.whole.isWhole() {
			switch {
			case need != nil && memory != nil && *need >= fullMemoryShare**memory:
				one.Whole, unused = unused, 0
			case w.RequestCores != nil && *w.RequestCores < *cores:
				asked := max(*w.RequestCores*seconds-*w.CPUSeconds*share, 0)
				one.Whole, unused = unused-asked, asked
			}
		}
		one.Held[misuse.HeldCores] -= one.Whole
		one.Unused[misuse.HeldCores] = unused
	}
	if n, _ := w.GivenGPUs(); n != nil && *n > 0 && exact(exactGPU, w.GPUSeconds) {
		known = true
		one.Held[misuse.HeldGPUs], one.Unused[misuse.HeldGPUs] = *n*seconds, max(*n*seconds-*w.GPUSeconds*share, 0)
	}
	if memory != nil && need != nil && w.Exactness[exactNeeded] == figure.Exact && w.Exactness[exactPeak] == figure.Exact {
		one.Held[misuse.HeldMemory], one.Unused[misuse.HeldMemory] = *memory*seconds, max(*memory-*need, 0)*seconds
		if in != nil {
			one.PerCore = in.perCore
		}
	}
	for i := range one.Held {
		if h.spared[sparedRun{w.Site, w.Owner, w.Name, w.Start.UnixMilli(), i}] {
			one.Held[i], one.Unused[i] = 0, 0
		}
	}
	return known
}

// replacedParts are the findings about single runs that a finding over days replaces, by rule and part, and their resources.
var replacedParts = map[[2]string]int{
	{misuse.OverRequested, "cpu"}: misuse.HeldCores, {misuse.ManySmallJobs, "cpu"}: misuse.HeldCores,
	{misuse.IdleAllocation, "allocation"}: misuse.HeldCores, {misuse.OverRequested, "memory"}: misuse.HeldMemory,
	{misuse.GPUUnused, "gpu"}: misuse.HeldGPUs, {misuse.IdleAllocation, "gpu"}: misuse.HeldGPUs,
}

// maxSingles is the maximum number of findings about single runs that a finding over days lists.
const maxSingles = 10

// mergeSingles adds findings about single runs as evidence to findings over several days, and returns all remaining findings.
// Findings about running work come first, then by cost. Muted findings stay separate.
func (e *Evaluator) mergeSingles(single, over []misuse.Finding, list []misuse.Workload, now time.Time) []misuse.Finding {
	names := make(map[workloadKey]string, len(list))
	for i := range list {
		names[workloadKey{list[i].Site, list[i].ID}] = list[i].Name
	}
	e.mu.Lock()
	muted := e.muted
	e.mu.Unlock()
	sorted, gone := slices.Clone(single), map[string]bool{}
	slices.SortStableFunc(sorted, func(a, b misuse.Finding) int {
		if x, y := now.Sub(a.Last) < 2*gap, now.Sub(b.Last) < 2*gap; x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		x, _ := a.Wasted()
		y, _ := b.Wasted()
		return cmp.Compare(y, x)
	})
	taken := make([]int, len(over))
	for _, f := range sorted {
		v, unit := f.Wasted()
		i := slices.IndexFunc(over, func(o misuse.Finding) bool {
			return o.Site == f.Site && o.Owner == f.Owner && (o.Part == misuse.AllOfOwner || o.Part == names[workloadKey{f.Site,
				f.Workload}]) &&
				slices.ContainsFunc(o.Evidence, func(e misuse.Evidence) bool { return e.Wasted && e.Unit == unit })
		})
		_, ok := replacedParts[[2]string{f.Rule, f.Part}]
		if i < 0 || !ok || slices.ContainsFunc(muted, func(m store.Finding) bool { return m.ID == ID(&f) }) {
			continue
		}
		gone[ID(&f)] = true
		if misuse.MoreSevere(string(f.Severity), string(over[i].Severity)) {
			over[i].Severity = f.Severity
		}
		if taken[i]++; taken[i] <= maxSingles {
			over[i].Evidence = append(over[i].Evidence,
				misuse.Evidence{Text: strings.TrimSpace(f.Workload+" "+f.Rule) + ": " + f.Text, Value: v, Unit: unit})
		}
	}
	for i, n := range taken {
		if n > maxSingles {
			over[i].Evidence = append(over[i].Evidence,
				misuse.Evidence{Text: "more findings about single runs", Value: float64(n - maxSingles), Unit: "count"})
		}
	}
	return slices.Concat(over, slices.DeleteFunc(single, func(f misuse.Finding) bool { return gone[ID(&f)] }))
}
