package catalogue

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/store"
	"reckon/workload"
)

// maxUnattributed is the largest share of unattributed GPU time in a run's allocated GPU time at which the run's own GPU
// use counts as known.
const maxUnattributed = 0.01

// setUnusedGPUs sets the GPU time of runs that were allocated GPUs but never opened one, because agents export no series
// for them. It sets 0 if all nodes of the run measured their GPUs throughout and nearly all use is attributed.
// Otherwise the GPU time stays unknown.
func setUnusedGPUs(ctx context.Context, q storage.Queryable, rows []store.Workload, gap time.Duration) error {
	nodes := map[[2]string]*gpuWatch{}
	var open []*store.Workload
	for i := range rows {
		w := &rows[i]
		if w.GPUSeconds != nil || !(heldGPUs(w) > 0) || len(w.Nodes) == 0 || w.Waits() {
			continue
		}
		open = append(open, w)
		for _, n := range w.Nodes {
			k := [2]string{w.Site, n}
			if nodes[k] == nil {
				nodes[k] = &gpuWatch{from: w.Start, to: w.Seen}
			}
			nodes[k].from, nodes[k].to = store.Earlier(nodes[k].from, w.Start), store.Later(nodes[k].to, w.Seen)
		}
	}
	if len(open) == 0 {
		return nil
	}
	if err := watchGPUs(ctx, q, nodes, gap); err != nil {
		return err
	}
	for _, w := range open {
		from, to := w.Start.UnixMilli(), w.Seen.UnixMilli()
		if !w.End.IsZero() {
			to = min(to, w.End.UnixMilli())
		}
		known, nobody := true, 0.0
		for _, n := range w.Nodes {
			watch := nodes[[2]string{w.Site, n}]
			known = known && watch.coversSpan(from, to, gap.Milliseconds())
			nobody += watch.unattributedSeconds(from, to)
		}
		if known && nobody <= maxUnattributed*heldGPUs(w)*float64(to-from)/1000 {
			w.GPUSeconds = new(float64)
		}
	}
	return nil
}

// heldGPUs returns the number of GPUs allocated to a run, or 0 if unknown.
func heldGPUs(w *store.Workload) float64 {
	for _, key := range gpuTimeRule.Zero.Held {
		if v := *w.At(figure.Index(figure.Runs, key)); v != nil {
			return *v
		}
	}
	return 0
}

// gpuTimeRule is the rule of the table of figures for when missing GPU time means zero.
var gpuTimeRule = figure.InScope(figure.Runs)[figure.Index(figure.Runs, "gpu_seconds")]

// gpuWatch holds the times when a node measured its GPUs, and the GPU time that belongs to no known workload.
type gpuWatch struct {
	from, to time.Time
	at       []int64 // milliseconds, sorted
	other    []counterStep
}

// counterStep is the growth of a counter up to the time of a sample.
type counterStep struct {
	t int64
	v float64
}

// watchGPUs reads when nodes measured their GPUs, and the unattributed GPU time.
func watchGPUs(ctx context.Context, q storage.Queryable, nodes map[[2]string]*gpuWatch, gap time.Duration) error {
	var names []string
	var from, to time.Time
	for k, g := range nodes {
		names = append(names, k[1])
		if from.IsZero() {
			from, to = g.from, g.to
		}
		from, to = store.Earlier(from, g.from), store.Later(to, g.to)
	}
	var n series.Labels
	read := func(take func(*gpuWatch, chunkenc.Iterator), ms ...*labels.Matcher) error {
		return series.ForEach(ctx, q, from.Add(-gap), to, func(l labels.Labels, it chunkenc.Iterator) error {
			n.Read(l)
			if g := nodes[[2]string{n.Site, n.Node}]; g != nil {
				take(g, it)
			}
			return nil
		}, append(ms, series.OneOf("node", names))...)
	}
	err := read((*gpuWatch).addTimes, series.Equal("__name__", gpuTimeRule.Zero.NodeSeries), series.Equal("state", "idle"))
	if err != nil {
		return err
	}
	for _, g := range nodes {
		slices.Sort(g.at)
		g.at = slices.Compact(g.at)
	}
	return read((*gpuWatch).recordUnattributed, series.Equal("__name__", figure.GPU), series.Equal("kind", string(workload.Other)))
}

func (g *gpuWatch) addTimes(it chunkenc.Iterator) {
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if t, v := it.At(); vt == chunkenc.ValFloat && !math.IsNaN(v) {
			g.at = append(g.at, t)
		}
	}
}

// recordUnattributed records GPU use that no known workload has.
func (g *gpuWatch) recordUnattributed(it chunkenc.Iterator) {
	last := math.NaN()
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		t, v := it.At()
		if vt != chunkenc.ValFloat || math.IsNaN(v) {
			continue
		}
		if v < last {
			last = 0
		}
		if v > last {
			g.other = append(g.other, counterStep{t, v - last})
		}
		last = v
	}
}

// coversSpan reports whether the node measured from one time to another, except for gaps.
func (g *gpuWatch) coversSpan(from, to, gap int64) bool {
	last := from
	for _, t := range g.at {
		if t < from-gap || t > to {
			continue
		}
		if t-last > gap {
			return false
		}
		last = max(last, t)
	}
	return len(g.at) > 0 && to-last <= gap && slices.ContainsFunc(g.at, func(t int64) bool { return t >= from-gap && t <= to })
}

// unattributedSeconds returns the unattributed GPU seconds between two times.
func (g *gpuWatch) unattributedSeconds(from, to int64) (sum float64) {
	for _, s := range g.other {
		if s.t > from && s.t <= to {
			sum += s.v
		}
	}
	return sum
}
