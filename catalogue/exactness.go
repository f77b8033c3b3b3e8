package catalogue

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/internal/series"
)

// Agents export the exactness of figures by kind of workload on their node, and of single workloads
// that differ. A run has the worst exactness during its time on its nodes.

// inexactSpan is a time range in which a figure of a kind of workload was not exact on a node.
type inexactSpan struct {
	kind, workload, figure string // workload is empty for all of the kind
	degree                 figure.Exactness
	from, to               int64
}

// nodesAtOnce is the maximum number of nodes named in one query; for more, all nodes are read.
const nodesAtOnce = 200

// readExactness records the exactness of the figures of accounts with samples in an interval.
func (f *fold) readExactness(ctx context.Context, from, to time.Time) error {
	var live []*account
	nodes := map[string]bool{}
	for _, runs := range f.accounts {
		for _, a := range runs {
			if a.lastKnownSample() < from.UnixMilli() {
				continue
			}
			some, last := false, ""
			for _, k := range a.Tracks {
				if k.Node != "" && k.T >= from.UnixMilli() && k.First <= to.UnixMilli() {
					if some = true; k.Node != last {
						last, nodes[k.Node] = k.Node, true
					}
				}
			}
			if some {
				live = append(live, a)
			}
		}
	}
	if len(live) == 0 {
		return nil
	}
	ms := []*labels.Matcher{series.Equal("__name__", figure.ExactnessOf)}
	if len(nodes) <= nodesAtOnce {
		names := slices.Sorted(maps.Keys(nodes))
		ms = append(ms, series.OneOf("node", names))
	}
	found := map[nodeKey][]inexactSpan{}
	err := series.ForEach(ctx, f.sampleSource(), from, to, func(l labels.Labels, it chunkenc.Iterator) error {
		f.names.Read(l, "figure")
		n := &f.names
		of := inexactSpan{kind: n.Kind, workload: n.Workload, figure: n.Rest["figure"]}
		k := nodeKey{n.Site, n.Node}
		found[k] = append(found[k], of.inexactTimes(it)...)
		return nil
	}, ms...)
	if err != nil {
		return err
	}
	for _, a := range live {
		a.applyExactness(found, from.UnixMilli(), to.UnixMilli())
	}
	return nil
}

// inexactTimes returns the stretches of samples with the same inexact degree.
func (i inexactSpan) inexactTimes(it chunkenc.Iterator) (out []inexactSpan) {
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		t, v := it.At()
		if vt != chunkenc.ValFloat || math.IsNaN(v) || v < 1 {
			i.degree = figure.Exact
			continue
		}
		if d := figure.Exactness(v); d != i.degree {
			i.degree, i.from = d, t
			out = append(out, i)
		}
		out[len(out)-1].to = t
	}
	return out
}

// kindFigure is a figure of the workloads of a kind on a node, or of one workload.
type kindFigure struct {
	nodeKey
	kind, workload, figure string
}

// readInexact reads when a figure was not exact.
func (p *pass) readInexact(it chunkenc.Iterator) {
	n := &p.names
	k := kindFigure{nodeKey{n.Site, n.Node}, n.Kind, n.Workload, n.Rest["figure"]}
	p.doubts[k] = append(p.doubts[k], inexactSpan{}.inexactTimes(it)...)
}

// worstExactness returns the exactness of a figure in an hour on its node for the workload read last.
func (p *pass) worstExactness(f *figure.Figure, hour int64) (worst figure.Exactness) {
	n := &p.names
	if len(p.doubts) == 0 || !figure.IsPacked(f.Key) {
		return figure.Exact
	}
	for _, of := range [...]string{"", n.Workload} {
		for _, x := range p.doubts[kindFigure{nodeKey{n.Site, n.Node}, n.Kind, of, f.ExactnessKey()}] {
			if x.from < p.edges[p.stretchIndex(hour)+1] && x.to >= hour {
				worst = worst.Worse(x.degree)
			}
		}
	}
	return worst
}

// applyExactness applies the exactness found for an interval to the account.
func (a *account) applyExactness(found map[nodeKey][]inexactSpan, from, to int64) {
	if len(found) == 0 {
		return
	}
	from, to = max(from, a.Start), min(to, a.lastSample())
	looked, last := map[string]bool{}, ""
	for _, k := range a.Tracks {
		if k.Node == last || k.Node == "" || looked[k.Node] {
			continue
		}
		last, looked[k.Node] = k.Node, true
		for _, x := range found[nodeKey{a.Site, k.Node}] {
			if x.kind == a.Kind && (x.workload == "" || x.workload == a.ID) && x.from <= to && x.to >= from &&
				a.Inexact.With(x.figure, x.degree) != a.Inexact[x.figure] {
				a.Inexact.Add(x.figure, x.degree)
				a.touched = true
			}
		}
	}
}

// setExactness sets the exactness of a row's figures, from each figure or from the one it is based on.
func (a *account) setExactness(row *figure.Row) {
	for i := range runFigures {
		f := &runFigures[i]
		if *row.At(i) == nil {
			continue
		}
		row.Exactness.Add(f.Key, a.Inexact[f.ExactnessKey()])
		if f.Key != "cores_mean" || !a.isReported() { // its scheduler reports the end
			row.Exactness.Add(f.Key, a.Inexact[f.Also])
		}
	}
	if !a.isReported() && a.Inexact["cores_mean"] != figure.Exact { // too low, since it may have ended before it was found to have
		row.Exactness.Add(figure.WallSeconds, figure.AtMost)
	}
	if row.MemoryPeakBytes != nil && a.isPeakAccounted() {
		row.Exactness.Add(peakKey, figure.Estimated)
	}
}

const peakKey = "memory_peak_bytes"

var peakFigure = figure.Index(figure.Runs, peakKey)

// isPeakAccounted reports whether the memory peak comes from a batch system. By default, a batch system samples every 30
// s and sums the peaks of steps and tasks.
func (a *account) isPeakAccounted() bool {
	for _, k := range a.Tracks {
		if k.T != 0 && k.isBatch() && k.Slot.isUsedBy(peakFigure) {
			return true
		}
	}
	return false
}
