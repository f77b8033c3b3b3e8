package catalogue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"reckon/internal/series"
	"reckon/workload"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// rereadTogether is how many workloads are asked for in one query.
const rereadTogether = 200

// reread replaces accounts by what their whole history says: it begins at their start,
// or at oldest if that is later.
func (f *fold) reread(ctx context.Context, list []*account, oldest, to time.Time) error {
	slices.SortFunc(list, func(a, b *account) int { return int(min(max(a.Start-b.Start, -1), 1)) })
	for group := range slices.Chunk(list, rereadTogether) {
		whole, err := history(ctx, f.q, group, oldest, to)
		if err != nil {
			return err
		}
		for _, a := range group {
			// An earlier run of the id may be cut by the beginning of what was read.
			k := key{a.Site, a.ID}
			runs := slices.DeleteFunc(whole.accounts[k], func(b *account) bool { return b.from(true) < a.from(true)-sameStart })
			f.accounts[k] = merge(f.accounts[k], runs)
			delete(whole.accounts, k)
		}
	}
	return nil
}

// merge takes the newly read runs of a workload in the place of the same ones before.
func merge(old, read []*account) []*account {
	for _, a := range old {
		same := slices.IndexFunc(read, func(b *account) bool {
			if a.Scheduler.Submit != 0 && b.Scheduler.Submit != 0 {
				return a.Scheduler.Submit == b.Scheduler.Submit
			}
			return abs(a.Start-b.Start) <= sameStart
		})
		if same >= 0 {
			b := read[same]
			b.Fixed, b.touched, b.Rows = a.Fixed, true, append(b.Rows, a.Rows...)
			if a.Fixed && !b.reported() {
				b.Start = a.Start
			}
			continue
		}
		read = append(read, a)
	}
	slices.SortStableFunc(read, func(x, y *account) int { return cmp.Compare(x.from(true), y.from(true)) })
	return read
}

// rereadSlice bounds the memory of reading long histories.
const rereadSlice = 24 * time.Hour

// history folds all of the given workloads from the start of the first on.
func history(ctx context.Context, q storage.Queryable, list []*account, oldest, to time.Time) (*fold, error) {
	f := newFold(q)
	from := to.UnixMilli()
	ids := make([]string, 0, len(list))
	for _, a := range list {
		from, ids = min(from, a.from(true)-1), append(ids, a.ID)
		if a.Number != "" {
			ids = append(ids, string(workload.MakeID(workload.Slurm, a.Number)))
		}
	}
	begin := time.UnixMilli(from)
	if begin.Before(oldest) {
		begin = oldest
	}
	m := []*labels.Matcher{series.OneOf("workload", ids)}
	for at := begin; !at.After(to); at = at.Add(rereadSlice) {
		if err := f.take(ctx, at, earlier(at.Add(rereadSlice), to), m...); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
