package catalogue

import (
	"cmp"
	"math"
	"slices"

	"reckon/internal/series"
)

// The run that a sample belongs to depends on its time and on the times of all runs of the id. The
// catalogue thus follows from the content of the series, not from the order in which they arrived.

// onlyAccount returns the account that all samples of a workload's series belong to. It returns nil if the account
// depends on the time of the sample.
func (f *fold) onlyAccount(k workloadKey, byBatch bool) *account {
	list := f.accounts[k]
	if len(list) != 1 || list[0].Run != "" {
		return nil
	}
	if _, numbered := f.numbers[k]; numbered && !byBatch {
		return nil
	}
	return list[0]
}

// runAt returns the run that a sample of a series at time t belongs to.
func (f *fold) runAt(k workloadKey, t int64, byBatch bool, n *series.Labels) *account {
	if !byBatch {
		k = f.resolveJob(k, t)
	}
	a := f.accountAt(k, t, byBatch)
	if a.Run != "" {
		if of := f.placed[k][seriesPlace(n)]; of != nil && t >= of.samplesFrom(byBatch)-1 {
			return of
		}
	}
	return a
}

// accountAt returns the run of a sample at time t.
func (f *fold) accountAt(k workloadKey, t int64, byBatch bool) *account {
	list := f.accounts[k]
	switch len(list) {
	case 0:
		return f.addAccount(k, t)
	case 1:
		return list[0]
	}
	return list[max(runIndexAt(list, t, byBatch), 0)]
}

// runIndexAt returns the index of the run that began last before the time t, or -1. A run includes the millisecond
// before its start, because the zero of its counters is rounded differently. Series of a batch system (byBatch) belong
// to runs that it reported.
func runIndexAt(list []*account, t int64, byBatch bool) int {
	best, reported := -1, byBatch && slices.ContainsFunc(list, (*account).isReported)
	for i, a := range list {
		if reported && !a.isReported() {
			continue
		}
		if from := a.samplesFrom(byBatch); t >= from-1 && (best < 0 || from >= list[best].samplesFrom(byBatch)) {
			best = i
		}
	}
	return best
}

// findMisplaced reports whether a run of an id may hold samples of another run, and returns the start of the earliest such
// run. It compares the samples with the reported times known so far. Samples are misplaced if the report or the start
// of a run arrives late. The run is then read again, because only its samples show how a counter divides between the
// runs. early is a start that is already known to be affected, or 0.
func (f *fold) findMisplaced(k workloadKey, early int64) (since int64, some bool) {
	list := f.accounts[k]
	if since, some = cmp.Or(early, math.MaxInt64), early != 0; !slices.ContainsFunc(list, (*account).isReported) {
		return since, some
	}
	of := func(a, owner *account) {
		if owner != nil && owner != a {
			since, some = min(since, a.samplesFrom(true), owner.samplesFrom(true)), true
		}
	}
	at := func(a *account, t int64, byBatch bool) {
		if t != 0 {
			of(a, f.accountAt(k, t, byBatch))
		}
	}
	for _, a := range list {
		for _, t := range a.Tracks {
			if t.T == 0 {
				continue
			}
			at(a, t.First, t.isBatch())
			at(a, t.T, t.isBatch())
			if t.holdsStarts() {
				for _, v := range [...]float64{t.FirstV, t.V} {
					if owner := f.findReported(k, int64(v*1000), t.Node, nil); owner != a && (owner != nil || a.isReported()) {
						since, some = min(since, a.samplesFrom(true), int64(v*1000)), true
						of(a, owner)
					}
				}
			}
		}
		for p, e := range a.Ends {
			at(a, max(e.T, e.End), p == partPlace{})
		}
		for _, x := range a.Steps {
			for _, t := range []int64{x.T, x.Start.T, x.End.T, x.Exit.T, x.CPU.T, x.Memory.T, x.NCores.T} {
				at(a, t, true)
			}
		}
	}
	return since, some
}
