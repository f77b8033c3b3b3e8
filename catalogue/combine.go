package catalogue

import (
	"maps"
	"math"
	"slices"

	"reckon/figure"
	"reckon/metric"
	"reckon/workload"
)

// amount is the value of a figure from one series, part or node.
type amount struct {
	partPlace
	v float64
	t int64 // of the sample
}

// setFigures sets the figures of a row from the tracks, as the table of figures defines. Gauges of the present count only
// if their last sample is not older than fresh, in milliseconds.
func (a *account) setFigures(row *figure.Row, fresh int64, lane map[partPlace]int) {
	var apart [figure.RowLen][]amount
	tracks := a.sortedTracks()
	var peaks map[partPlace]bool // that have the highest GPU memory
	for _, k := range tracks {
		if k.Slot == gpuPeakSlot {
			if peaks == nil {
				peaks = map[partPlace]bool{}
			}
			peaks[k.place()] = true
		}
	}
	for _, k := range tracks {
		if k.Slot == gpuMemorySlot && peaks[k.place()] {
			continue // it is in the peak
		}
		for _, i := range runSlots.list[k.Slot].figures {
			f := &runFigures[i]
			v, ok := k.currentValue(f.How.Value, fresh)
			switch {
			case !ok:
			case f.Sums():
				figure.Plus(row.At(i), &v)
			default:
				apart[i] = append(apart[i], amount{k.place(), v, k.T})
			}
		}
	}
	for i, list := range apart {
		if len(list) > 0 {
			v, bound := a.combineAmounts(&runFigures[i].How, list, lane)
			*row.At(i) = &v
			if bound {
				row.Exactness.Add(runFigures[i].Key, figure.AtMost)
			}
		}
	}
	a.setQuantiles(row, tracks, lane)
}

// shareByUser divides the totals of a process group among its users; nil for one user, and for other kinds.
func (a *account) shareByUser(spans []partSpan) map[string]figure.Share {
	if !workload.Kind(a.Kind).Group() || !slices.ContainsFunc(spans, func(s partSpan) bool { return s.Owner != spans[0].Owner }) {
		return nil
	}
	by := map[string]*account{}
	for id, k := range a.Tracks {
		of := by[k.Owner]
		if of == nil {
			of = &account{Programs: a.Programs, Tracks: map[uint64]*track{}}
			by[k.Owner] = of
		}
		of.Tracks[id] = k
	}
	delete(by, "")
	out := make(map[string]figure.Share, len(by))
	for owner, of := range by {
		var row figure.Row
		of.setFigures(&row, 0, nil)
		s := figure.Share{Command: of.busiestProgram(), Amounts: map[string]float64{}}
		for i := range runFigures {
			if v := *row.At(i); v != nil && runFigures[i].How.Value == figure.Total {
				s.Amounts[runFigures[i].Key] = *v
			}
		}
		if len(s.Amounts) > 0 {
			out[owner] = s
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// currentValue returns the current number of a series, or false if there is none.
func (k *track) currentValue(of figure.Value, fresh int64) (float64, bool) {
	switch of {
	case figure.Total:
		return k.totalCount(), true
	case figure.Highest:
		return k.Max, true
	case figure.Newest:
		return k.V, true
	case figure.Current:
		return k.V, k.T >= fresh
	}
	return 0, false
}

// combineAmounts combines the series of each part, then the parts of each node, then the nodes. bound reports that the result
// is an upper bound, because it sums peaks of simultaneous parts.
func (a *account) combineAmounts(how *figure.Aggregation, list []amount, lane map[partPlace]int) (v float64, bound bool) {
	parts := joinByKey(list, func(n amount) partPlace { return n.partPlace }, how.Series)
	op := how.Parts
	if op == figure.Sequential {
		parts, op = a.largestByLane(parts, lane), figure.Sum
	}
	nodes := joinByKey(parts, func(n amount) partPlace { return partPlace{Node: n.Node} }, op)
	if how.Whole {
		if i := slices.IndexFunc(nodes, func(n amount) bool { return n.Node == "" }); i >= 0 {
			return nodes[i].v, false
		}
	}
	bound = how.Parts == figure.Sequential && len(parts) > len(nodes)
	return joinByKey(nodes, func(amount) partPlace { return partPlace{} }, how.Nodes)[0].v, bound
}

// joinByKey joins numbers with the same key, in the order of the first of each key.
func joinByKey(list []amount, key func(amount) partPlace, op figure.Combine) []amount {
	var out []amount
	for _, n := range list {
		n.partPlace = key(n)
		at := slices.IndexFunc(out, func(o amount) bool { return o.partPlace == n.partPlace })
		if at < 0 {
			out = append(out, n)
			continue
		}
		o := &out[at]
		switch op {
		case figure.Max:
			o.v = max(o.v, n.v)
		case figure.Latest:
			if n.t > o.t || n.t == o.t && n.v > o.v {
				*o = n
			}
		default:
			o.v += n.v
		}
	}
	return out
}

// largestByLane returns the largest amount in each lane, because the parts of a lane follow each other. If a node has an
// amount for all its parts, such as the amount of their common control group, it replaces the amounts of the parts.
func (a *account) largestByLane(parts []amount, lane map[partPlace]int) []amount {
	whole := a.wholeNodes(parts)
	most := map[int]amount{}
	for _, n := range parts {
		if whole[n.Node] && n.Part != "" {
			continue
		}
		at := partLane(lane, n.partPlace)
		if have, ok := most[at]; !ok || n.v > have.v {
			most[at] = n
		}
	}
	order := slices.Sorted(maps.Keys(most))
	out := make([]amount, len(order))
	for i, at := range order {
		out[i] = most[at]
	}
	return out
}

// wholeNodes returns the nodes that have an amount for all parts together, from the control group that contains them.
// Such an amount has no part name. Processes outside of any part have none either, but they use CPU time and less
// memory than the largest part.
func (a *account) wholeNodes(parts []amount) map[string]bool {
	whole, largest := map[string]bool{}, map[string]float64{}
	for _, n := range parts {
		if n.Part != "" {
			largest[n.Node] = max(largest[n.Node], n.v)
		}
	}
	for _, n := range parts {
		if n.Part == "" && !(n.v < largest[n.Node] && a.hasCPU(n.partPlace)) {
			whole[n.Node] = true
		}
	}
	return whole
}

// hasCPU reports whether the CPU time of a part has a series.
func (a *account) hasCPU(p partPlace) bool {
	for _, k := range a.Tracks {
		if k.T != 0 && k.place() == p && k.Slot.isUsedBy(cpuFigure) {
			return true
		}
	}
	return false
}

// setQuantiles sets the figures that are computed from distributions. It merges the distributions within a lane. Lanes run
// at the same time with unknown correlation, so the sum over lanes is an estimate or an upper bound.
func (a *account) setQuantiles(row *figure.Row, tracks []*track, lane map[partPlace]int) {
	for i := range runFigures {
		f := &runFigures[i]
		if f.How.Value != figure.Quantile {
			continue
		}
		hists := a.laneDistributions(tracks, lane, i)
		q := f.Quantile
		if n := float64(len(hists)); n > 1 {
			degree := figure.Estimated
			if f.How.Nodes == figure.UpperBound {
				q, degree = 1-(1-q)/n, figure.AtMost
			}
			row.Exactness.Add(f.Key, degree)
		}
		for _, h := range hists {
			if v := h.Quantile(q); !math.IsNaN(v) {
				figure.Plus(row.At(i), &v)
			}
		}
	}
}

// laneDistributions returns the distributions of a figure in the order of lanes.
func (a *account) laneDistributions(tracks []*track, lane map[partPlace]int, i int) (out []*metric.Histogram) {
	by := map[int]*metric.Histogram{}
	for _, k := range tracks {
		if !k.Slot.isUsedBy(i) {
			continue
		}
		at := partLane(lane, k.place())
		if by[at] == nil {
			by[at] = &metric.Histogram{}
		}
		by[at].Merge(k.wholeHistogram())
	}
	for _, at := range slices.Sorted(maps.Keys(by)) {
		if by[at].Count > 0 {
			out = append(out, by[at])
		}
	}
	return out
}
