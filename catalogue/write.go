package catalogue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// maxKeptRows is the number of rows for which a round keeps its memory for the next, at a kilobyte each.
const maxKeptRows = 2048

// writeRows updates the rows of workloads that changed, or that became silent for too long, since the last round.
func (b *Builder) writeRows(ctx context.Context, now time.Time) (int, error) {
	rows := b.rows[:0]
	var done []*account
	var ended []time.Time
	defer func() {
		if clear(rows); cap(rows) <= maxKeptRows {
			b.rows = rows
		}
	}()
	moved := 0 // rows that others make way for, or that make way
	for _, a := range b.fold.changedRuns() {
		if len(a.Tracks) == 0 || (!a.touched && a.endTime(a.partTimes(), now.UnixMilli(), b.o.Gone.Milliseconds()) == 0) {
			continue
		}
		w := a.catalogueRow(now, b.o.Gone)
		if len(w.PreviousStarts) > 0 {
			moved = len(rows) + 1
		}
		rows, done, ended = append(rows, w), append(done, a), append(ended, w.End)
	}
	if err := errors.Join(setUnusedGPUs(ctx, b.q, rows, b.o.Gone), setJointQuantiles(ctx, b.q, rows)); err != nil {
		return 0, err
	}
	for i, a := range done {
		b.roll.markChanged(a, &rows[i])
	}
	if err := b.roll.saveProgress(ctx); err != nil {
		return 0, err
	}
	const batch = 5000
	for i, n := 0, 0; i < len(rows); i = n {
		n = min(max(i+batch, moved), len(rows))
		if err := b.cat.Upsert(ctx, rows[i:n]); err != nil {
			return i, err
		}
	}
	if err := deleteRuns(ctx, b.cat, b.fold.gone); err != nil {
		return 0, err
	}
	b.fold.gone = nil
	for i, a := range done {
		a.Wrote = writtenState{a.Owner, a.isReported()}
		a.touched, a.replaces, a.Fixed, a.Ended, a.Over, a.Rows, a.ended = false, false, true, !ended[i].IsZero(), 0, []int64{a.Start},
			a.lastSample()
		if a.Ended {
			a.Over = ended[i].UnixMilli()
		}
	}
	return len(rows), nil
}

// changedRuns returns the runs with rows to write. Rows that had, or will have, the start of another row come first.
func (f *fold) changedRuns() []*account {
	list := f.openRuns()
	more := false
	for _, a := range list {
		for _, was := range a.Rows {
			if was == a.Start {
				continue
			}
			for _, o := range f.accounts[workloadKey{a.Site, a.ID}] {
				if o != a && o.Start == was {
					more = more || o.Ended && !o.touched
					o.touched, o.replaces = true, true
					if !slices.Contains(o.Rows, was) {
						o.Rows = append(o.Rows, was)
					}
				}
			}
		}
	}
	if more {
		list = f.openRuns()
	}
	slices.SortStableFunc(list, func(a, b *account) int {
		return cmp.Compare(a.rowRank(), b.rowRank())
	})
	return list
}

// rowRank returns 0 if an existing row is deleted, and 1 otherwise.
func (a *account) rowRank() int {
	if a.replaces || slices.ContainsFunc(a.Rows, func(was int64) bool { return was != a.Start }) {
		return 0
	}
	return 1
}
