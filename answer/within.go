package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/internal/series"
	"reckon/store"
)

// listRuns returns the workloads that a filter selects. If the filter sorts by use within its time range, list also returns
// that use. The catalogue gives the use of workloads that lie entirely in the range; the use of the others is measured.
func (b *Jobs) listRuns(ctx context.Context, f wire.Filter) (rows []store.Workload, used []figure.Used, total int, err error) {
	g, to, ends := store.Filter(f), f.Until, []time.Time{f.Since, f.Until}
	if f.Within && (to.IsZero() || !to.Before(b.Clock())) {
		g.Until, to, ends = time.UnixMilli(1<<53), b.Clock(), ends[:1]
	}
	key, down := strings.CutPrefix(f.Sort, "-")
	n := slices.IndexFunc(spreading, func(n [2]int) bool { return figure.InScope(figure.Hours)[n[0]].Key == key })
	g.Within = f.Within && n >= 0 // otherwise the order has nothing to do with the time
	for i, at := range ends {
		if x := g; g.Within && err == nil { // those that were there at an end of the time
			var there []store.Workload
			x.Within, x.Sort, x.Limit, x.Offset, x.Since, x.Until = false, "", 0, 0, at, at
			there, _, err = b.Catalogue.Workloads(ctx, x)
			rows = append(rows, slices.DeleteFunc(there, func(w store.Workload) bool { return i > 0 && w.Start.Before(f.Since) })...)
		}
	}
	edge := len(rows)
	if g.Offset = max(f.Offset-edge, 0); g.Limit > 0 {
		g.Limit += f.Offset - g.Offset
	}
	inner, total, also := b.Catalogue.Workloads(ctx, g)
	if rows, err = append(rows, inner...), errors.Join(err, also); err != nil || !f.Within {
		return rows, nil, total, err
	}
	if edge > 0 {
		rank, order, all, sign := make([]float64, len(rows)), make([]int, len(rows)), slices.Clone(rows), 1.0
		if down {
			sign = -1
		}
		for i, u := range b.useWithin(ctx, rows, f.Since, to, spreading[n:n+1]) {
			v := *u.At(spreading[n][0])
			if order[i], rank[i] = i, sign*orZero(v); v == nil {
				rank[i] = math.Inf(1) // unknown values come last
			}
		}
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(rank[i], rank[j]) })
		rows = rows[:0]
		for _, i := range order[min(f.Offset-g.Offset, len(order)):] {
			rows = append(rows, all[i])
		}
		rows = rows[:min(len(rows), cmp.Or(f.Limit, len(rows)))]
	}
	return rows, b.useWithin(ctx, rows, f.Since, to, spreading), total + edge, ctx.Err()
}

// useWithin returns the use and the allocation of workloads within a time range. For a workload that extends beyond
// the range, it reads the figures in of from its series. It assumes that other figures are spread evenly over the run.
func (b *Jobs) useWithin(ctx context.Context, rows []store.Workload, from, to time.Time, of [][2]int) []figure.Used {
	out, across, ids := make([]figure.Used, len(rows)), []int(nil), []string(nil)
	b.Bounds.Runs(ctx, rows)
	for i := range rows {
		w, r := &rows[i], runSums{from: from, to: to, slots: make([]uint64, 4)}
		if r.addRun(w); len(r.sums) == 0 {
			continue
		}
		for k := range r.sums[0].v {
			if r.sums[0].has>>k&1 != 0 && !countsStarts(k) {
				*out[i].At(k) = &r.sums[0].v[k]
			}
		}
		if out[i].Exactness = maps.Clone(w.Exactness); w.Start.Before(from) || store.Later(w.Seen, w.End).After(to) {
			across, ids = append(across, i), append(ids, w.ID)
		}
	}
	for _, n := range of {
		if len(ids) == 0 {
			break
		}
		f := figure.InScope(figure.Runs)[n[1]]
		grown := b.readIncreases(ctx, f.From[0], ids, from, to)
		for _, i := range across {
			w, whole := &rows[i], *rows[i].Row.At(n[1])
			if v, ok := grown[[2]string{w.Site, w.ID}]; ok && whole != nil && !w.Partial {
				*out[i].At(n[0]) = new(min(v, *whole))
			} else if whole != nil && *whole > 0 {
				out[i].Exactness.Add(f.Key, figure.Estimated)
			}
		}
	}
	return out
}

// readIncreases returns the increase of a counter of each workload, by site and id. A workload without an answer of the store is absent.
func (b *Jobs) readIncreases(ctx context.Context, of figure.Source, ids []string, from, to time.Time) map[[2]string]float64 {
	out, match := map[[2]string]float64{}, series.OneOf("workload", ids).String()
	if of.Label != "" {
		match += fmt.Sprintf(", %s=%q", of.Label, of.Value)
	}
	expr := fmt.Sprintf("sum by (site, workload) (increase(%s{%s}[%dms] anchored))", of.Metric, match, to.Sub(from).Milliseconds())
	if q, err := b.Engine.NewInstantQuery(ctx, b.Series, nil, expr, to); err == nil {
		defer q.Close()
		grown, _ := q.Exec(ctx).Vector()
		for _, s := range grown {
			out[[2]string{s.Metric.Get("site"), s.Metric.Get("workload")}] = s.F
		}
	}
	return out
}
