package catalogue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/store"
)

// historyPass computes the hours of imported time in one pass in order of time. It carries the last sample of each
// series, so that it can add an increase over a gap to earlier hours without reading them again. It writes an hour once
// no further addition is likely, and again at the end if there was one.
type historyPass struct {
	r            *roller
	progress     func(step string, to time.Time)
	last, before map[uint64]point  // the last samples of series in this day of the pass, and in the day before
	turned       time.Time         // when that day began
	runs         []*store.Workload // of batch systems that may have cores after the hours that were read
	runsTo       int64             // all runs that began before this time

	written time.Time // hours of the range before are written or ready
	from    time.Time // the first hour that is not written
	open    hourRows
	ready   hourRows // complete, and not written
	late    hourRows // to be added to written hours
}

// hourRows are rows of hours, of workloads and of nodes.
type hourRows struct {
	use   []store.Use
	nodes []store.NodeUse
}

const (
	// historyBack is the time that an hour accepts additions before it is written, and the time for which the last
	// sample of a series is carried. Accounting has one sample a day.
	historyBack = historyStep
	// historySlice is the time range read at once, aligned to the Unix epoch: a block of imported samples.
	historySlice = 18 * time.Hour
	// historyRows is the number of rows that are written together.
	historyRows = 50_000
)

// sliceEnd returns the end of the slice of history that contains a time.
func sliceEnd(t time.Time) time.Time {
	const length = int64(historySlice / time.Millisecond)
	return time.UnixMilli((t.UnixMilli()/length + 1) * length).UTC()
}

// computeRange computes the hours of a time range. An import changes only these; earlier and later hours are correct.
func (h *historyPass) computeRange(ctx context.Context, from, to, oldest time.Time) error {
	h.written, h.from, h.runs, h.runsTo = from, from, nil, 0
	for at := from; at.Before(to); {
		end := store.Earlier(sliceEnd(at), to)
		ahead := time.Duration(0)
		if end.Equal(to) { // the following hours are already computed
			ahead = historyStep
		}
		if err := h.readSlice(ctx, from, at, end, oldest, ahead); err != nil {
			return err
		}
		at = end
		h.progress(HoursSummed, at)
		if err := h.closeHours(ctx, at.Add(-historyBack), historyRows); err != nil {
			return err
		}
	}
	if err := h.closeHours(ctx, to, 1); err != nil {
		return err
	}
	if len(h.late.use)+len(h.late.nodes) == 0 {
		return nil
	}
	late := h.late
	h.late = hourRows{}
	return h.r.out.AddHours(ctx, from, to, late.use, late.nodes)
}

// readSlice reads some hours of a range.
func (h *historyPass) readSlice(ctx context.Context, begin, from, to, oldest time.Time, ahead time.Duration) error {
	if from.Sub(h.turned) >= historyBack {
		h.last, h.before, h.turned = map[uint64]point{}, h.last, from
	}
	h.runs = slices.DeleteFunc(h.runs, func(w *store.Workload) bool { return !w.End.IsZero() && w.End.Before(from) })
	edges := appendHours(nil, store.Later(begin, from.Add(-lookBack)).UnixMilli(), to.UnixMilli())
	p := newPassAt(edges, len(edges)-1-int(to.Sub(from)/time.Hour))
	p.known, p.history = p.from, h
	step, err := h.r.partLength(ctx, p.from, p.to)
	if err == nil {
		p, err = h.r.readInParts(ctx, p, step, oldest, ahead)
	}
	if err != nil {
		return fmt.Errorf("roll up %s: %w", from.UTC().Format(time.RFC3339), err)
	}
	use, nodes := p.toRows()
	h.r.rolled = h.r.rolled || len(use) > 0
	made := hourRows{use, nodes}
	h.late.moveFrom(&made, func(t time.Time) bool { return t.Before(h.written) })
	h.open.moveFrom(&made, func(time.Time) bool { return true })
	h.late, h.open = h.late.mergeRows(), h.open.mergeRows()
	return nil
}

// closeHours closes the hours before the time to. It writes the closed hours once they have at least the given number of rows.
func (h *historyPass) closeHours(ctx context.Context, to time.Time, rows int) error {
	to = to.Truncate(time.Hour)
	if !to.After(h.written) {
		return nil
	}
	h.written = to
	h.ready.moveFrom(&h.open, func(t time.Time) bool { return t.Before(to) })
	if len(h.ready.use)+len(h.ready.nodes) < rows && rows > 1 {
		return nil
	}
	h.ready.moveFrom(&h.late, func(t time.Time) bool { return !t.Before(h.from) })
	h.r.dropKept(h.from)
	made := h.ready.mergeRows()
	err := h.r.out.ReplaceHours(ctx, h.from, to, made.use, made.nodes)
	h.from, h.ready = to, hourRows{}
	return err
}

func (r hourRows) mergeRows() hourRows { return hourRows{mergeUse(r.use), sumNodeRows(r.nodes)} }

// moveFrom moves the rows with times selected by of from another set of rows.
func (r *hourRows) moveFrom(from *hourRows, of func(time.Time) bool) {
	from.use = slices.DeleteFunc(from.use, func(u store.Use) bool {
		if of(u.At) {
			r.use = append(r.use, u)
		}
		return of(u.At)
	})
	from.nodes = slices.DeleteFunc(from.nodes, func(u store.NodeUse) bool {
		if of(u.At) {
			r.nodes = append(r.nodes, u)
		}
		return of(u.At)
	})
}

// carriedSample returns the last sample of a series before a time, as far as it is carried on.
func (h *historyPass) carriedSample(l labels.Labels, t int64) *point {
	if h == nil {
		return nil
	}
	hash := labels.StableHash(l)
	for _, seen := range []map[uint64]point{h.last, h.before} {
		if x, ok := seen[hash]; ok && x.t < t {
			return &x
		}
	}
	return nil
}

// hasRuns reports whether the pass has the batch runs that exist at a time.
func (h *historyPass) hasRuns(at int64) bool { return h != nil && h.runsTo >= at }

// addRuns records the runs that began in the time that was just read. That time ends at to.
func (h *historyPass) addRuns(runs []*store.Workload, to int64) {
	if h == nil {
		return
	}
	for _, w := range runs {
		if w.Start.UnixMilli() >= h.runsTo {
			h.runs = append(h.runs, w)
		}
	}
	h.runsTo = max(h.runsTo, to)
}
