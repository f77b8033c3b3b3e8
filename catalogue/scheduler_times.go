package catalogue

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"reckon/internal/hostlist"
)

// A batch system reports the runs of its jobs in series without a node and a part. Its submit,
// start and end times take precedence over observations of nodes, because they follow a single
// clock, and no other exists for pending jobs. The identity of a reported run is its submit time.
// Nodes observe only a start, by their own clocks, which is matched to the run.

// SchedulerTimes holds the submit, start and end time of a run as reported by the scheduler, in Unix milliseconds. A
// time that was not reported is 0. The exported fields are for gob.
type SchedulerTimes struct{ Submit, Start, End int64 }

// isReported reports whether the scheduler has reported the run.
func (a *account) isReported() bool { return a.Scheduler.Submit != 0 }

// maxClockSkew is the largest clock difference in milliseconds between a node and the controller. Slurm does not work
// beyond it, because a MUNGE credential is valid for five minutes.
const maxClockSkew = 5 * 60 * 1000

// schedulerSeries are the series of times of one workload.
type schedulerSeries struct{ submits, starts, ends []startSpan }

// schedulerRun is a run as reported, and the times of the first and last sample that did.
type schedulerRun struct {
	SchedulerTimes
	first, last int64
}

// joinRuns joins values reported at the same times.
func (r *schedulerSeries) joinRuns() []schedulerRun {
	var out []schedulerRun
	used := map[int]bool{}
	take := func(list []startSpan, from schedulerRun, mark bool) int64 {
		var v, last int64
		for i, x := range list {
			if x.first <= from.last && x.last >= from.first && x.last >= last {
				v, last = x.start, x.last
			}
			if mark && x.first <= from.last && x.last >= from.first {
				used[i] = true
			}
		}
		return v
	}
	for _, s := range r.submits {
		l := schedulerRun{SchedulerTimes: SchedulerTimes{Submit: s.start}, first: s.first, last: s.last}
		l.Start = take(r.starts, l, true)
		l.End = take(r.ends, l, false)
		out = append(out, l)
	}
	for i, s := range r.starts {
		if !used[i] { // history that has no submit time
			l := schedulerRun{SchedulerTimes: SchedulerTimes{Start: s.start}, first: s.first, last: s.last}
			l.End = take(r.ends, l, false)
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b schedulerRun) int {
		return cmp.Or(cmp.Compare(a.reportedFrom(), b.reportedFrom()), cmp.Compare(a.last, b.last))
	})
	return out
}

// reportedFrom returns the time when a run begins to be reported.
func (t *SchedulerTimes) reportedFrom() int64 {
	if t.Submit != 0 && (t.Start == 0 || t.Submit < t.Start) {
		return t.Submit
	}
	return t.Start
}

// hasSchedulerSamples reports whether the account has samples of the scheduler.
func (a *account) hasSchedulerSamples() bool {
	for _, t := range a.Tracks {
		if t.isBatch() && t.T != 0 {
			return true
		}
	}
	return false
}

// samplesFrom returns the time from which samples belong to the account. byBatch selects samples of the scheduler
// instead of samples of nodes.
func (a *account) samplesFrom(byBatch bool) int64 {
	switch {
	case !a.isReported():
		return a.Start
	case byBatch:
		return a.Scheduler.reportedFrom()
	case a.Scheduler.Start == 0 && a.Born == 0:
		return math.MaxInt64 // it waits
	case a.Born != 0 && a.Born < a.Start && a.Start-a.Born <= sameStart:
		return a.Born // by the clock of its samples
	}
	return a.Start
}

// startTime returns the start of a reported run. A run that never started is listed at its end or submit time. A run that
// was requeued within the second of its start begins a millisecond before the next submission, because otherwise both
// rows would have the same key.
func (a *account) startTime() int64 {
	for _, t := range []int64{a.Scheduler.Start, a.Born, a.Scheduler.End, a.Scheduler.Submit} {
		if t != 0 && a.Next != 0 {
			return min(t, a.Next-1)
		}
		if t != 0 {
			return t
		}
	}
	return a.Start
}

// recordRun records a reported run.
func (f *fold) recordRun(k workloadKey, l schedulerRun) {
	mine := f.findAccount(k, &l)
	if mine == nil {
		mine = f.addAccount(k, l.SchedulerTimes.reportedFrom())
		mine.Scheduler = l.SchedulerTimes
		mine.Start = mine.startTime()
		f.recordMove(k, 0)
	}
	before := mine.Scheduler
	if !mine.isReported() && mine.Known {
		mine.Born = mine.Start
	}
	for _, x := range []struct {
		to *int64
		v  int64
	}{{&mine.Scheduler.Submit, l.Submit}, {&mine.Scheduler.Start, l.Start}, {&mine.Scheduler.End, l.End}} {
		if x.v != 0 {
			*x.to = x.v
		}
	}
	mine.Known = true
	mine.Start = mine.startTime()
	if mine.Scheduler != before {
		mine.touched = true
		f.recordMove(k, 0)
	}
	f.mergeObserved(k, mine)
	f.sortAccounts(k)
}

// sameSubmit reports whether two submit times in milliseconds belong to one run. Batch systems report whole seconds,
// and a job may be requeued in the second after its submission.
func sameSubmit(a, b int64) bool { return abs(a-b) < 500 }

// findAccount returns the account of a reported run. It is the account with the same submit time, or one that only nodes
// have observed so far. It returns nil if there is none.
func (f *fold) findAccount(k workloadKey, l *schedulerRun) *account {
	for _, a := range f.accounts[k] {
		switch {
		case a.Scheduler.Submit != 0 && l.Submit != 0:
			if sameSubmit(a.Scheduler.Submit, l.Submit) {
				return a
			}
		case a.Scheduler.Start != 0 && l.Start != 0 && abs(a.Scheduler.Start-l.Start) <= sameStart:
			return a
		}
	}
	var mine *account
	for _, a := range f.accounts[k] {
		if !a.isReported() && a.mayBeRun(l) && (mine == nil ||
			l.SchedulerTimes.distanceTo(a.Start) < l.SchedulerTimes.distanceTo(mine.Start)) {
			mine = a
		}
	}
	return mine
}

// mayBeRun reports whether an unreported account may be the run l. If the start of the account was not observed, its first
// sample must lie between the first and the last sample of the run.
func (a *account) mayBeRun(l *schedulerRun) bool {
	if a.Known {
		return l.SchedulerTimes.includesStart(a.Start, maxClockSkew)
	}
	return a.Start >= l.first-1 && a.Start <= l.last
}

// includesStart reports whether a start observed by a node lies in the run, or within milliseconds of it. A run without
// a reported start may have begun since its submission.
func (t *SchedulerTimes) includesStart(start, within int64) bool {
	low, high := t.Start, t.End
	if low == 0 {
		low, within = t.Submit, min(within, sameStart)
	}
	high = cmp.Or(high, math.MaxInt64-within)
	return start >= low-within && start <= high+within
}

func (t *SchedulerTimes) distanceTo(start int64) int64 {
	if t.Start == 0 {
		return abs(start - t.Submit)
	}
	return abs(start - t.Start)
}

// mergeObserved merges accounts that nodes observed before the scheduler reported the start of the run. It first merges
// starts inside the run. Clock skew thus never matches a node that has a start inside the run.
func (f *fold) mergeObserved(k workloadKey, mine *account) {
	if mine.Scheduler.Start != 0 {
		f.adoptMatching(k, mine, true)
		f.adoptMatching(k, mine, false)
	}
}

// adoptMatching merges the accounts with a start inside the run if within is set, and otherwise the other ones.
func (f *fold) adoptMatching(k workloadKey, mine *account, within bool) {
	f.accounts[k] = slices.DeleteFunc(f.accounts[k], func(a *account) bool {
		if a == mine || a.isReported() || !a.Known || mine.includesStart(a.Start) != within || !mine.Scheduler.includesStart(a.Start,
			maxClockSkew) {
			return false
		}
		for _, b := range f.accounts[k] { // is another reported run nearer?
			if b != nil && b != mine && b.Scheduler.Start != 0 && b.Scheduler.distanceTo(a.Start) < mine.Scheduler.distanceTo(a.Start) {
				return false
			}
		}
		for id, t := range a.Tracks {
			have := mine.Tracks[id] // which may have been read again since, under the job's own id
			if have != nil && (t.First < have.First || t.T > have.T) || t.holdsStarts() && !mine.includesStart(a.Start) && f.startedOn(mine,
				t.Node, nil) {
				return false // the same part, started again
			}
		}
		for id, t := range a.Tracks {
			if mine.Tracks[id] == nil {
				mine.Tracks[id] = t
			}
		}
		for p, e := range a.Ends {
			if _, known := mine.Ends[p]; !known {
				mine.Ends[p] = e
			}
		}
		if mine.Born == 0 || a.Start < mine.Born {
			mine.Born = a.Start
		}
		for _, x := range []struct{ to, from *string }{{&mine.Name, &a.Name}, {&mine.Account, &a.Account}, {&mine.Partition, &a.Partition},
			{&mine.Command, &a.Command}, {&mine.Kind, &a.Kind}} {
			if *x.to == "" || *x.from != "" && a.FactsAt > mine.FactsAt {
				*x.to = *x.from
			}
		}
		mine.FactsAt = max(mine.FactsAt, a.FactsAt)
		if a.OwnerRank > mine.OwnerRank {
			mine.Owner, mine.OwnerRank = a.Owner, a.OwnerRank
		}
		for p, x := range a.Programs {
			if mine.Programs == nil {
				mine.Programs = map[partPlace]partProgram{}
			}
			if x.T >= mine.Programs[p].T {
				mine.Programs[p] = x
			}
		}
		for name, e := range a.Inexact {
			mine.Inexact.Add(name, e)
		}
		mine.Rows = append(mine.Rows, a.Rows...)
		mine.touched = true
		return true
	})
}

// findReported returns the reported account that a start observed by a node belongs to, or nil. It prefers the run that
// contains the start and began nearest to it. It prefers a started run to a waiting run, because a job requeued in its
// first seconds may already wait again. Clock skew may explain a start outside the run, but only if the node has no
// start inside it. Otherwise the start belongs to an unreported run. list holds the starts without an account.
func (f *fold) findReported(k workloadKey, start int64, node string, list []startSpan) (mine *account) {
	for _, a := range f.accounts[k] {
		if !a.isReported() || !a.Scheduler.includesStart(start, sameStart) {
			continue
		}
		waits := a.Scheduler.Start == 0
		if mine == nil || !waits && (mine.Scheduler.Start == 0 || a.Scheduler.distanceTo(start) <= mine.Scheduler.distanceTo(start)) {
			mine = a
		}
	}
	if mine != nil {
		return mine
	}
	for _, a := range f.accounts[k] {
		if a.isReported() && a.Scheduler.includesStart(start, maxClockSkew) && (mine == nil ||
			a.Scheduler.distanceTo(start) < mine.Scheduler.distanceTo(start)) {
			mine = a
		}
	}
	if mine != nil && f.startedOn(mine, node, list) {
		return nil
	}
	return mine
}

// startedOn reports whether a node observed a start within the run. That start may have been assigned
// to another run before this one's start was reported.
func (f *fold) startedOn(mine *account, node string, list []startSpan) bool {
	if mine.Scheduler.Start == 0 {
		return false
	}
	for _, l := range list {
		if l.Node == node && mine.includesStart(l.start) {
			return true
		}
	}
	for _, a := range f.accounts[workloadKey{mine.Site, mine.ID}] {
		for _, t := range a.Tracks {
			if t.Node == node && t.holdsStarts() && (mine.includesStart(int64(t.FirstV*1000)) || mine.includesStart(int64(t.V*1000))) {
				return true
			}
		}
	}
	return false
}

// includesStart reports whether a start that a node observed lies in the run, if the clocks agree.
func (a *account) includesStart(start int64) bool {
	return a.Scheduler.includesStart(start, sameStart) && (a.Next == 0 || start < a.Next)
}

// holdsStarts reports whether the values of a series are starts that a node observed.
func (k *track) holdsStarts() bool { return k.Slot == startSlot && k.T != 0 && !k.isBatch() }

func (f *fold) sortAccounts(k workloadKey) {
	list := f.accounts[k]
	slices.SortStableFunc(list, func(x, y *account) int { return cmp.Compare(x.samplesFrom(true), y.samplesFrom(true)) })
	var last *account
	for _, a := range list {
		if !a.isReported() {
			continue
		}
		if last != nil && last.Next != a.samplesFrom(true) {
			last.Next, last.touched = a.samplesFrom(true), true
			last.Start = last.startTime()
		}
		last = a
	}
}

// addAllocatedNodes adds the nodes that the scheduler allocated to nodes, the agents' names. Both names of a node may
// differ by a domain. If they differ entirely, a node may appear twice. The result is therefore limited to the number
// of allocated nodes, and keeps the agents' names.
func (a *account) addAllocatedNodes(nodes []string) []string {
	if a.NodeList == "" {
		return nodes
	}
	list, err := hostlist.Expand(a.NodeList)
	if err != nil {
		return nodes
	}
	known, short := make(map[string]bool, len(nodes)), make(map[string]bool, len(nodes))
	for _, n := range nodes {
		host, _, full := strings.Cut(n, ".")
		known[n] = true
		if full {
			short[host] = true
		}
	}
	for _, n := range list {
		host, _, full := strings.Cut(n, ".")
		if known[n] || full && known[host] || !full && short[n] {
			continue
		}
		if len(nodes) >= len(list) {
			break
		}
		known[n] = true
		nodes = append(nodes, n)
	}
	return nodes
}
