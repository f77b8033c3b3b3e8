package catalogue

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"reckon/internal/hostlist"
)

// A batch system tells the lives of its jobs from one place: in series without a node and
// a part. What it says of submit, start and end counts before what nodes saw, for
// it is one clock, and the only one for what waits. The identity of a told life is its
// submit time; nodes see a start only, by their own clocks, and are joined to it.

// Told is what the batch system says of a life, in milliseconds; 0 is not said. It is exported to be encoded.
type Told struct{ Submit, ToldStart, ToldEnd int64 }

func (t *Told) isTold() bool { return t.Submit != 0 || t.ToldStart != 0 }

// skew is by how much the clock of a node may differ from the controller's. Slurm itself
// does not work beyond: a credential of MUNGE is good for five minutes.
const skew = 5 * 60 * 1000

// toldRuns are the series of times of one workload.
type toldRuns struct{ submits, starts, ends []life }

// toldLife is a life as told, and the times of the samples that said so.
type toldLife struct {
	Told
	first, last int64
}

// lives puts together what was said at the same times.
func (r *toldRuns) lives() []toldLife {
	var out []toldLife
	used := map[int]bool{}
	take := func(list []life, from toldLife, mark bool) int64 {
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
		l := toldLife{Told: Told{Submit: s.start}, first: s.first, last: s.last}
		l.ToldStart = take(r.starts, l, true)
		l.ToldEnd = take(r.ends, l, false)
		out = append(out, l)
	}
	for i, s := range r.starts {
		if !used[i] { // history that has no submit time
			l := toldLife{Told: Told{ToldStart: s.start}, first: s.first, last: s.last}
			l.ToldEnd = take(r.ends, l, false)
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b toldLife) int {
		return cmp.Or(cmp.Compare(a.from(), b.from()), cmp.Compare(a.last, b.last))
	})
	return out
}

// from is when a life begins to be told.
func (t *Told) from() int64 {
	if t.Submit != 0 && (t.ToldStart == 0 || t.Submit < t.ToldStart) {
		return t.Submit
	}
	return t.ToldStart
}

// hasTold reports whether samples of the batch system were taken in.
func (a *account) hasTold() bool {
	for _, t := range a.Tracks {
		if t.byBatch() && t.T != 0 {
			return true
		}
	}
	return false
}

// from is the time from which on samples belong to the account: those that the batch
// system wrote, or those of nodes.
func (a *account) from(byBatch bool) int64 {
	switch {
	case !a.isTold():
		return a.Start
	case byBatch:
		return a.Told.from()
	case a.ToldStart == 0 && a.Born == 0:
		return math.MaxInt64 // it waits
	}
	return a.Start
}

// begin is the start of an account of which something was told. What ended before it began
// began when it ended.
func (a *account) begin() int64 {
	for _, t := range []int64{a.ToldStart, a.Born, a.ToldEnd, a.Submit} {
		if t != 0 {
			return t
		}
	}
	return a.Start
}

// tell takes in a told life.
func (f *fold) tell(k key, l toldLife) {
	mine := f.toldAccount(k, &l)
	if mine == nil {
		mine = f.add(k, l.Told.from())
		mine.Told = l.Told
		mine.Start = mine.begin()
		f.split(k, mine)
	}
	before := mine.Told
	if !mine.isTold() && mine.Known {
		mine.Born = mine.Start
	}
	for _, x := range []struct {
		to *int64
		v  int64
	}{{&mine.Submit, l.Submit}, {&mine.ToldStart, l.ToldStart}, {&mine.ToldEnd, l.ToldEnd}} {
		if x.v != 0 {
			*x.to = x.v
		}
	}
	mine.Known = true
	mine.Start = mine.begin()
	if mine.Told != before {
		mine.touched = true
	}
	f.adopt(k, mine)
	f.sort(k)
}

// toldAccount finds the account of a told life: the one with its submit time, or one that
// nodes alone know of so far.
func (f *fold) toldAccount(k key, l *toldLife) *account {
	for _, a := range f.accounts[k] {
		switch {
		case a.Submit != 0 && l.Submit != 0:
			if abs(a.Submit-l.Submit) <= sameStart {
				return a
			}
		case a.ToldStart != 0 && l.ToldStart != 0 && abs(a.ToldStart-l.ToldStart) <= sameStart:
			return a
		}
	}
	var mine *account
	for _, a := range f.accounts[k] {
		if !a.isTold() && a.mayBe(l) && (mine == nil || l.Told.far(a.Start) < l.Told.far(mine.Start)) {
			mine = a
		}
	}
	return mine
}

// mayBe reports whether the account, of which nothing was told, is of the life. One of which
// no start was seen was met between two queries, the first of which came too early for
// what was told: its samples are then among those of the life.
func (a *account) mayBe(l *toldLife) bool {
	if a.Known {
		return l.Told.covers(a.Start, skew)
	}
	return a.Start >= l.first-1 && a.Start <= l.last
}

// covers reports whether a start that a node saw lies in the life, or misses it by no more
// than within. Of one that waits as far as is known, the end of waiting was not told yet.
func (t *Told) covers(start, within int64) bool {
	low, high := t.ToldStart, t.ToldEnd
	if low == 0 {
		low, within = t.Submit, min(within, sameStart)
	}
	if high == 0 {
		high = math.MaxInt64 - within
	}
	return start >= low-within && start <= high+within
}

func (t *Told) far(start int64) int64 {
	if t.ToldStart == 0 {
		return abs(start - t.Submit)
	}
	return abs(start - t.ToldStart)
}

// adopt takes over what nodes said of the same life before it was told, under an account
// of its own: the start came later than the first samples of the node.
func (f *fold) adopt(k key, mine *account) {
	if mine.ToldStart == 0 {
		return
	}
	f.accounts[k] = slices.DeleteFunc(f.accounts[k], func(a *account) bool {
		if a == mine || a.isTold() || !a.Known || !mine.Told.covers(a.Start, skew) {
			return false
		}
		for _, b := range f.accounts[k] { // is another told life nearer?
			if b != nil && b != mine && b.ToldStart != 0 && b.Told.far(a.Start) < mine.Told.far(a.Start) {
				return false
			}
		}
		for id := range a.Tracks {
			if mine.Tracks[id] != nil {
				return false // the same part, begun anew
			}
		}
		for id, t := range a.Tracks {
			mine.Tracks[id] = t
		}
		for p, e := range a.Ends {
			if _, known := mine.Ends[p]; !known {
				mine.Ends[p] = e
			}
		}
		if mine.Born == 0 || a.Start < mine.Born {
			mine.Born = a.Start
		}
		for _, x := range []struct{ to, from *string }{{&mine.Name, &a.Name}, {&mine.Account, &a.Account}, {&mine.Partition, &a.Partition}, {&mine.Command, &a.Command}, {&mine.Owner, &a.Owner}, {&mine.Kind, &a.Kind}} {
			if *x.to == "" {
				*x.to = *x.from
			}
		}
		for p, x := range a.Programs {
			if mine.Programs == nil {
				mine.Programs = map[place]program{}
			}
			if x.T >= mine.Programs[p].T {
				mine.Programs[p] = x
			}
		}
		mine.Rows = append(mine.Rows, a.Rows...)
		mine.touched = true
		return true
	})
}

// ofTold is the told account that a start seen by a node belongs to, or nil: one whose
// life it lies in, the latest of them, else the nearest whose life it misses by little.
func (f *fold) ofTold(k key, start int64) (mine *account) {
	for _, a := range f.accounts[k] {
		if a.isTold() && a.covers(start, sameStart) {
			mine = a
		}
	}
	if mine != nil {
		return mine
	}
	for _, a := range f.accounts[k] {
		if a.isTold() && a.covers(start, skew) && (mine == nil || a.far(start) < mine.far(start)) {
			mine = a
		}
	}
	return mine
}

func (f *fold) sort(k key) {
	list := f.accounts[k]
	slices.SortStableFunc(list, func(x, y *account) int { return cmp.Compare(x.from(true), y.from(true)) })
	for i, a := range list[:max(len(list)-1, 0)] {
		if next := list[i+1]; a.isTold() && next.isTold() && a.Next != next.from(true) {
			a.Next, a.touched = next.from(true), true
		}
	}
}

// withTold adds the nodes that the batch system gave to the workload. Its names may be
// without the domain that those of agents have, or with one that those have not.
func (a *account) withTold(nodes []string) []string {
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
		known[n] = true
		nodes = append(nodes, n)
	}
	return nodes
}
