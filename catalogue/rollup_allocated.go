package catalogue

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/store"
	"reckon/workload"
)

// keepRequest records the request of a workload on a node.
func (p *pass) keepRequest(k workloadKey, node string, cores float64) {
	if p.held[k] == nil {
		p.held[k] = map[string]*holding{}
	}
	h := p.held[k][node]
	if h == nil {
		h = &holding{hours: make([]float64, len(p.sum))}
		p.held[k][node] = h
	}
	h.cores = max(h.cores, cores)
	for i, v := range p.sum { // parts of a node share its request
		h.hours[i] = max(h.hours[i], v)
	}
}

// The allocation of a run is computed from its facts: for each size, the allocation multiplied by
// its overlap with the hour, minus the suspended time. No samples are integrated, so imported and
// live data agree with the accounting to the second.

const (
	allocatedCores  = figure.AllocatedCores
	allocatedMemory = figure.AllocatedMemory
	allocatedGPUs   = figure.AllocatedGPUs
	allocationTime  = "reckon_workload_allocation_time_seconds"
	suspendedTotal  = "reckon_workload_suspended_seconds_total"
)

var (
	usedHeldCores     = figure.Index(figure.Hours, "held_core_seconds")
	usedHeldEstimated = figure.Index(figure.Hours, "held_estimated_core_seconds")
	usedHeldMemory    = figure.Index(figure.Hours, "held_memory_byte_seconds")
	usedHeldGPU       = figure.Index(figure.Hours, "held_gpu_seconds")
)

// point is a sample.
type point struct {
	t int64
	v float64
}

// runFacts holds the scheduler's samples about the runs of an id, by metric and in order of time.
type runFacts map[string][]point

// addAllocations adds the allocations of batch runs.
func (p *pass) addAllocations(ctx context.Context, q storage.Queryable, runs []*store.Workload) error {
	for group := range slices.Chunk(runs, rereadTogether) {
		facts, err := readSchedulerFacts(ctx, q, group)
		if err != nil {
			return err
		}
		for _, w := range group {
			k := workloadKey{w.Site, w.ID}
			p.learnRun(k, w)
			p.batch = p.batch || workload.Kind(w.Kind).Scheduled() || len(facts[k]) > 0
			p.addAllocation(k, w, facts[k])
		}
	}
	return nil
}

// readSchedulerFacts reads the facts that the scheduler reported about some runs. They have few samples, which may lie
// anywhere in the time of a run.
func readSchedulerFacts(ctx context.Context, q storage.Queryable, runs []*store.Workload) (map[workloadKey]runFacts, error) {
	out := map[workloadKey]runFacts{}
	if len(runs) == 0 {
		return out, nil
	}
	from, to := runBegin(runs[0]), runs[0].Seen
	ids := make([]string, len(runs))
	for i, w := range runs {
		ids[i] = w.ID
		from, to = store.Earlier(from, runBegin(w)), store.Later(to, store.Later(w.Seen, w.End))
	}
	var n series.Labels
	err := series.ForEach(ctx, q, from.Add(-time.Second), to.Add(time.Second), func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l)
		if n.Node != "" || n.Part != "" {
			return nil
		}
		k := workloadKey{n.Site, n.Workload}
		if out[k] == nil {
			out[k] = runFacts{}
		}
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			if vt != chunkenc.ValFloat {
				continue
			}
			if t, v := it.At(); !value.IsStaleNaN(v) && !math.IsNaN(v) {
				out[k][n.Metric] = append(out[k][n.Metric], point{t, v})
			}
		}
		return nil
	}, series.OneOf("workload", ids), series.OneOf("__name__", []string{
		allocatedCores, allocatedMemory, allocatedGPUs, allocationTime, suspendedTotal, figure.StartTime, figure.RequestCores,
	}))
	for _, f := range out {
		for _, list := range f { // of several sources
			slices.SortStableFunc(list, func(a, b point) int { return cmp.Compare(a.t, b.t) })
		}
	}
	return out, err
}

// runBegin returns the time when the scheduler begins to report a run.
func runBegin(w *store.Workload) time.Time {
	if !w.Submit.IsZero() {
		return store.Earlier(w.Submit, w.Start)
	}
	return w.Start
}

// allocationSpan is the allocation of a run over a time range.
type allocationSpan struct {
	from, to            int64
	cores, memory, gpus float64
	estimated           bool
}

// listAllocations returns the allocations of a run in order of time. Samples with the same timestamp belong together. With an
// allocation time, they describe the allocation since then; without one, they describe the first allocation. The latest
// samples of an allocation are used, because accounting may report it after the end of the run.
func (f runFacts) listAllocations(w *store.Workload) []allocationSpan {
	begin, end, start := runBegin(w).UnixMilli()-1, store.Later(w.Seen, w.End).UnixMilli()+1, w.Start.UnixMilli()
	until := w.End
	if until.IsZero() {
		until = w.Seen
	}
	each := func(name string, take func(x point)) {
		for _, x := range f[name] {
			if x.t >= begin && x.t < end {
				take(x)
			}
		}
	}
	began := false
	each(figure.StartTime, func(point) { began = true })
	if !began {
		return nil // it waits, or only nodes know it
	}
	changed := map[int64]int64{} // by time of the samples
	each(allocationTime, func(x point) { changed[x.t] = max(int64(x.v*1000), start) })
	bySince := map[int64]*allocationSpan{}
	of := func(t int64) *allocationSpan {
		since, ok := changed[t]
		if !ok {
			since = start
		}
		if bySince[since] == nil {
			bySince[since] = &allocationSpan{from: since}
		}
		return bySince[since]
	}
	each(allocatedCores, func(x point) { of(x.t).cores = x.v })
	each(allocatedMemory, func(x point) { of(x.t).memory = x.v })
	each(allocatedGPUs, func(x point) { of(x.t).gpus = x.v })
	if len(bySince) == 0 { // until 2026 the series of requests held the allocation
		each(figure.RequestCores, func(x point) { bySince[start] = &allocationSpan{from: start, cores: x.v, estimated: true} })
	}
	var out []allocationSpan
	for _, since := range slices.Backward(slices.Sorted(maps.Keys(bySince))) {
		s := bySince[since]
		s.to = until.UnixMilli()
		if len(out) > 0 {
			s.to = min(s.to, out[len(out)-1].from)
		}
		out = append(out, *s)
	}
	return slices.DeleteFunc(out, func(s allocationSpan) bool { return s.cores == 0 || s.to <= s.from })
}

// addAllocation adds the allocation of one run.
func (p *pass) addAllocation(k workloadKey, w *store.Workload, f runFacts) {
	sizes := f.listAllocations(w)
	p.byFacts[k] = p.byFacts[k] || len(sizes) > 0
	unmeasured := w.CPUSeconds == nil && store.Later(w.Seen, w.End).Sub(w.Start) > maxReadingDelay
	for _, s := range sizes {
		p.addShare(k, s.from, s.to, &s, 1)
		if unmeasured {
			p.markLowerBound(k, s.from, s.to)
		}
	}
	begin, end := runBegin(w).UnixMilli()-1, store.Later(w.Seen, w.End).UnixMilli()+1
	last, suspended := point{w.Start.UnixMilli(), 0}, slices.DeleteFunc(slices.Clone(f[suspendedTotal]),
		func(x point) bool { return x.t < begin || x.t >= end })
	for _, x := range suspended {
		// Less than was reported while it lasted was within its time if it was cancelled meanwhile: its end is when that suspension began.
		x.v = min(x.v, suspended[len(suspended)-1].v)
		if until := w.End.UnixMilli(); !w.End.IsZero() && x.t > until {
			x.t = until
		}
		if d := x.v - last.v; d > 0 && x.t > last.t {
			share := min(d*1000/float64(x.t-last.t), 1)
			for _, s := range sizes {
				p.addShare(k, max(last.t, s.from), min(x.t, s.to), &s, -share)
			}
		}
		last = x
	}
}

// maxReadingDelay is the time for which a run may lack a reading of its CPU time, because nodes read and send at intervals.
const maxReadingDelay = 2 * time.Minute

// markLowerBound marks the CPU time of hours as a lower bound if a run had cores and no measurement.
func (p *pass) markLowerBound(k workloadKey, from, to int64) {
	for at := max(from, p.from); at < min(to, p.to); at = p.edges[p.stretchIndex(at)+1] {
		if f := p.cells[useCell{workloadKey: k, hour: p.edges[p.stretchIndex(at)]}]; f != nil {
			f.exactness.Add("cpu_seconds", figure.AtLeast)
		}
	}
}

// addShare adds a share of an allocation for the time from from to to.
func (p *pass) addShare(k workloadKey, from, to int64, s *allocationSpan, share float64) {
	for at := max(from, p.from); at < min(to, p.to); {
		i := p.stretchIndex(at)
		end := min(p.edges[i+1], to)
		seconds := share * float64(end-at) / 1000
		c := useCell{workloadKey: k, hour: p.edges[i]}
		f := p.cells[c]
		if f == nil {
			f = &figureSums{}
			p.cells[c] = f
		}
		for _, x := range []struct {
			figure int
			v      float64
			said   bool
		}{
			{usedHeldCores, s.cores, true}, {usedHeldEstimated, s.cores, s.estimated}, {usedHeldMemory, s.memory, s.memory > 0},
			{usedHeldGPU, s.gpus, s.gpus > 0},
		} {
			if x.said {
				f.addValue(x.figure, x.v*seconds)
			}
		}
		at = end
	}
}
