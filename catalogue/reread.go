package catalogue

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"reckon/internal/series"
	"reckon/store"
	"reckon/workload"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// rereadTogether is the number of workloads per query.
const rereadTogether = 200

// wantedRuns is an id and the earliest start of its runs to be read.
type wantedRuns struct {
	workloadKey
	since  int64
	begin  int64 // earliest possible time of their samples
	number string
	before []*account // the reported runs before
}

// listWanted returns the ids of accounts in order of time.
func listWanted(list []*account) []*wantedRuns {
	at := map[workloadKey]*wantedRuns{}
	var out []*wantedRuns
	for _, a := range list {
		k := workloadKey{a.Site, a.ID}
		w := at[k]
		if w == nil {
			w = &wantedRuns{workloadKey: k, since: math.MaxInt64, begin: math.MaxInt64}
			at[k], out = w, append(out, w)
		}
		w.addStart(a.samplesFrom(true), a.isReported())
		w.number = cmp.Or(w.number, a.Number)
	}
	slices.SortFunc(out, func(a, b *wantedRuns) int {
		return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Site, b.Site))
	})
	return out
}

// addStart requests the runs that began at a time or later. It allows for a node's clock behind the scheduler's.
func (w *wantedRuns) addStart(t int64, reported bool) {
	w.since = min(w.since, t)
	if reported {
		t -= maxClockSkew
	}
	w.begin = min(w.begin, t-1)
}

// isFirst reports whether a run is one of the wanted runs or follows them.
func (w *wantedRuns) isFirst(a *account) bool {
	if a.isReported() {
		return a.samplesFrom(true) >= w.since
	}
	return a.samplesFrom(true) >= w.since-sameStart
}

// addPrevious records a reported run before the wanted runs. Its measurements may arrive after the first wanted run was
// submitted, and they must not count for that one. Its own samples may not be read.
func (w *wantedRuns) addPrevious(t SchedulerTimes, born int64) {
	if t.Submit == 0 || t.reportedFrom() >= w.since ||
		slices.ContainsFunc(w.before, func(a *account) bool { return sameSubmit(a.Scheduler.Submit, t.Submit) }) {
		return
	}
	w.before = append(w.before, newReportedRun(w.workloadKey, t, born))
}

// newReportedRun returns a reported run without samples.
func newReportedRun(k workloadKey, t SchedulerTimes, born int64) *account {
	a := &account{Site: k.Site, ID: k.ID, Known: true, Scheduler: t, Born: born, Tracks: map[uint64]*track{},
		Ends: map[partPlace]partEnding{}}
	a.Start = a.startTime()
	return a
}

// afterRow requests the runs after a row of the catalogue. If the row extends to the start of the wanted runs, it may be the
// first of them as nodes observed it. That run is then requested as well.
func (w *wantedRuns) afterRow(r *store.Workload) {
	if r.Site != w.Site || r.Submit.IsZero() {
		return
	}
	t := SchedulerTimes{Submit: r.Submit.UnixMilli()}
	if !r.Start.Equal(r.Submit) || !r.End.IsZero() {
		t.Start = r.Start.UnixMilli()
	}
	if !r.End.IsZero() {
		t.End = r.End.UnixMilli()
	}
	if last := cmp.Or(t.End, r.Seen.UnixMilli()); t.reportedFrom() < w.since && last+sameStart >= w.since {
		w.addStart(t.reportedFrom(), true)
		w.before = slices.DeleteFunc(w.before, func(a *account) bool { return a.samplesFrom(true) >= w.since })
		return
	}
	w.addPrevious(t, 0)
}

// rereadRuns replaces the runs of workloads by those in their whole history. It reads from the first wanted run, or from
// oldest if that is later. It needs all runs to assign samples to runs.
func (f *fold) rereadRuns(ctx context.Context, list []*wantedRuns, oldest, to time.Time) error {
	for group := range slices.Chunk(list, rereadTogether) {
		for _, w := range group {
			for i, a := range w.before {
				w.before[i] = newReportedRun(w.workloadKey, a.Scheduler, a.Born)
			}
			for _, a := range f.accounts[w.workloadKey] {
				w.addPrevious(a.Scheduler, a.Born)
				w.number = cmp.Or(w.number, a.Number) // a life that only its node saw under the number has none
			}
		}
		whole, err := foldHistory(ctx, f.q, group, oldest, to)
		if err != nil {
			return err
		}
		for _, w := range group {
			// An earlier run of the id may be cut off by the start of the range.
			runs := slices.DeleteFunc(whole.accounts[w.workloadKey], func(a *account) bool {
				return slices.Contains(w.before, a) || !w.isFirst(a)
			})
			if len(runs) > 0 {
				f.accounts[w.workloadKey] = w.mergeRuns(f.accounts[w.workloadKey], runs, oldest.UnixMilli(), to.UnixMilli())
				f.sortAccounts(w.workloadKey)
			}
		}
	}
	return nil
}

// mergeRuns replaces the runs of a workload by newly read ones, and drops runs that hold samples of those.
func (w *wantedRuns) mergeRuns(old, read []*account, oldest, to int64) []*account {
	reported := slices.ContainsFunc(read, (*account).isReported)
	out := slices.Clone(read)
	for _, a := range old {
		same := slices.IndexFunc(read, func(b *account) bool {
			return a.isReported() && sameSubmit(a.Scheduler.Submit, b.Scheduler.Submit)
		})
		if same < 0 {
			same = slices.IndexFunc(read, func(b *account) bool {
				return !(a.isReported() && b.isReported()) &&
					(abs(a.Start-b.Start) <= sameStart || b.isReported() && abs(a.Start-b.Born) <= sameStart)
			})
		}
		if same < 0 && reported && w.isFirst(a) && a.samplesFrom(true) >= oldest && a.lastSample() <= to {
			same = max(runIndexAt(read, a.Start, false), 0) // a run that turned out to be none
		}
		if same < 0 {
			out = append(out, a)
			continue
		}
		b := read[same]
		b.touched, b.Rows = true, append(b.Rows, a.Rows...)
		b.replaces = b.replaces || len(a.Steps) > len(b.Steps) && a.samplesFrom(true) >= oldest
		b.Wrote = a.Wrote
		b.Fixed, b.Ended, b.Over = b.Fixed || a.Fixed, b.Ended || a.Ended, max(b.Over, a.Over)
		if a.Fixed && !b.isReported() {
			b.Start = a.Start
		}
	}
	slices.SortStableFunc(out, func(x, y *account) int { return cmp.Compare(x.samplesFrom(true), y.samplesFrom(true)) })
	return out
}

// rereadSlice bounds the memory of reading long histories.
const rereadSlice = 24 * time.Hour

// foldHistory folds all given workloads from their first wanted run on.
func foldHistory(ctx context.Context, q storage.Queryable, list []*wantedRuns, oldest, to time.Time) (*fold, error) {
	f := newFold(q)
	from := to.UnixMilli()
	ids := make([]string, 0, len(list))
	for _, w := range list {
		from, ids = min(from, w.begin), append(ids, w.ID)
		if w.number != "" {
			ids = append(ids, string(workload.JobID(w.number)))
		}
		if len(w.before) > 0 {
			f.accounts[w.workloadKey] = slices.Clone(w.before)
			f.sortAccounts(w.workloadKey)
		}
	}
	begin := store.Later(time.UnixMilli(from), oldest)
	m := []*labels.Matcher{series.OneOf("workload", ids)}
	for at := begin; !at.After(to); at = at.Add(rereadSlice) {
		if err := f.foldSamples(ctx, at, store.Earlier(at.Add(rereadSlice), to), m...); err != nil {
			return nil, err
		}
	}
	return f, nil
}
