// Package fairshare finds owners who take more than a fair share of a machine while others want it.
//
//	score(owner, R) = integral of max(0, use - fair share) / capacity
//
// over the time in which the resource R is contended and at least two owners want it. The score is in seconds of the
// whole machine. A score of 600 is equivalent to keeping others from all of it for ten minutes. It is 0 on an idle
// machine by construction. It does not depend on the number of jobs that an owner splits the work into, because owners
// are summed first.
//
// The fair share is the max-min share. An owner who wants less than an even part gets all of it, and the rest is
// divided evenly among those who want more. Owners are therefore not blamed for using resources that others do not
// want. If an owner's demand is unknown, it counts as unlimited, and the share is the even part.
//
// An allocation of a batch system belongs to the owner, so using it takes nothing from others. In each step, the
// capacity that jobs do not hold is shared among those who want more than their allocation. An allocation that its
// owner does not want may be used by others. A step without allocations is treated as on a machine without a batch
// system. A queued job is kept waiting by the scheduler, not by the owners of running jobs.
//
// The package is pure and safe for concurrent use. Use and capacity have the same unit (cores, bytes, GPUs). Gaps are
// NaN and count as zero.
package fairshare

import (
	"math"
	"slices"
	"strings"
)

// Limits define when a resource is contended. The zero value is not useful.
type Limits struct {
	// Full is the share of the capacity in use from which it is contended.
	Full float64 `yaml:"full"`
	// Pressure is the share of time with some task waiting (PSI some) from which it is contended.
	Pressure float64 `yaml:"pressure"`
	// Available is the share of memory below which it is contended.
	Available float64 `yaml:"available"`
	// Wants is the share of the capacity that an owner must use to count as wanting it.
	Wants float64 `yaml:"wants"`
}

// Trace is one resource of one node over time, on an even grid.
type Trace struct {
	Step     float64 // seconds
	Capacity float64
	Owners   []Owner
	// Pressure is the share of time in which some task waited, Runnable the number of running or
	// runnable tasks, Available the share of memory available to new work. They are nil if unknown
	// or not applicable.
	Pressure, Runnable, Available []float64
	// Machine is the total use of the node, nil for the sum of the owners.
	Machine []float64
	// Scheduled is true if a batch system schedules the node: a waiting request then does not make it contended.
	Scheduled bool
}

// Owner holds the use of a resource by one owner over all jobs, one value per step. Want is the use plus the unmet
// demand; for CPU, that is the cores that runnable threads did not get. Waits marks the steps with a request waiting
// for the node. Allocated is the batch system's allocation. Where Inexact is true, Use is a lower bound, an estimate or
// modelled; the owner then has no score, but still counts as wanting the resource. All fields but Use may be nil.
type Owner struct {
	Name      string
	Use       []float64
	Want      []float64
	Waits     []bool
	Allocated []float64
	Inexact   []bool
}

// Score is the excess of one owner.
type Score struct {
	Owner string
	// Seconds is the score: seconds of the whole machine.
	Seconds float64
	// Contended is the time that the resource was contended while this owner used more than a fair
	// share. First and Last are the first and last step of that.
	Contended   float64
	First, Last int
	// Share is the mean share of the capacity that the owner used in that time, Others the mean number of other owners
	// who wanted it. Fair is the mean fair share, Held the mean allocation to jobs.
	Share, Others, Fair, Held float64
	// Why counts steps by the cause of contention.
	Why map[string]int
}

// Step is the contribution of one time step to the score of an owner.
type Step struct {
	I int // index
	// Use is the owner's use, Fair the fair share, Held the total allocation of jobs, in the unit of the capacity.
	Use, Fair, Held float64
	// Owners is the number of owners who wanted the resource, including this one.
	Owners int
	// Why is the cause of contention.
	Why string
	// Seconds is the contribution of the step: (Use - Fair) / Capacity * Step of the trace.
	Seconds float64
}

// Steps returns the steps that contribute to the score of an owner; the score is their sum.
func Steps(t Trace, l Limits, owner string) (out []Step) {
	eachUseAboveShare(t, l, func(k int, s Step) {
		if t.Owners[k].Name == owner {
			out = append(out, s)
		}
	})
	return out
}

// Scores returns the owners with a score above 0, in descending order.
func Scores(t Trace, l Limits) []Score {
	found := make([]*Score, len(t.Owners))
	eachUseAboveShare(t, l, func(k int, step Step) {
		s := found[k]
		if s == nil {
			s = &Score{Owner: t.Owners[k].Name, First: step.I, Why: map[string]int{}}
			found[k] = s
		}
		s.Seconds += step.Seconds
		s.Contended += t.Step
		s.Share += step.Use / t.Capacity
		s.Fair += step.Fair / t.Capacity
		s.Held += min(step.Held/t.Capacity, 1)
		s.Others += float64(step.Owners - 1)
		s.Why[step.Why]++
		s.Last = step.I
	})
	var out []Score
	for _, s := range found {
		if s != nil {
			if steps := s.Contended / t.Step; steps > 0 {
				s.Share, s.Others, s.Fair, s.Held = s.Share/steps, s.Others/steps, s.Fair/steps, s.Held/steps
			}
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(a, b Score) int {
		switch {
		case a.Seconds > b.Seconds:
			return -1
		case a.Seconds < b.Seconds:
			return 1
		}
		return strings.Compare(a.Owner, b.Owner)
	})
	return out
}

// eachUseAboveShare calls take for each step and each owner that uses more than its fair share of a contended resource. Steps are in
// order of time.
func eachUseAboveShare(t Trace, l Limits, take func(owner int, s Step)) {
	if !(t.Capacity > 0) || !(t.Step > 0) {
		return
	}
	steps := 0
	for _, o := range t.Owners {
		steps = max(steps, len(o.Use), len(o.Waits))
	}
	wish := make([]float64, 0, len(t.Owners))
	for i := range steps {
		n, waiting, most := 0, -1, 0.0
		wish = wish[:0]
		free, held := t.Capacity, 0.0 // capacity that no job holds and uses
		for k := range t.Owners {
			o := &t.Owners[k]
			w := !t.Scheduled && i < len(o.Waits) && o.Waits[i]
			if use := valueAt(o.Use, i); use > most {
				most = use
			}
			want, mine := o.demand(i, w), o.allocated(i)
			if mine > 0 { // its threads wait within its allocation
				want = valueAt(o.Use, i)
				held += mine
				free -= min(mine, o.need(i))
			}
			if w || valueAt(o.Use, i) > l.Wants*t.Capacity || valueAt(o.Want, i) > l.Wants*t.Capacity {
				n++
				if wish = append(wish, 0); want > mine {
					wish[n-1] = want - mine
				}
			}
			if w {
				waiting = k
			}
		}
		if n < 2 || held == 0 && most <= t.Capacity/float64(n) { // no fair share is below the even part
			continue
		}
		above := maxMinShare(max(free, 0), wish)
		for k := range t.Owners {
			use, fair := valueAt(t.Owners[k].Use, i), t.Owners[k].allocated(i)+above
			if !(use > fair) || i < len(t.Owners[k].Inexact) && t.Owners[k].Inexact[i] {
				continue
			}
			if why := t.contentionCause(i, l, waiting >= 0 && (waiting != k || otherWaits(t.Owners, i, k))); why != "" {
				take(k, Step{I: i, Use: use, Fair: fair, Held: held, Owners: n, Why: why, Seconds: (use - fair) / t.Capacity * t.Step})
			}
		}
	}
}

// demand returns the amount that the owner would use without the other owners.
func (o *Owner) demand(i int, waits bool) float64 {
	want := valueAt(o.Want, i)
	if waits || math.IsNaN(want) {
		return math.Inf(1)
	}
	if use := valueAt(o.Use, i); use > want {
		return use
	}
	return want
}

// need returns the larger of the use of the owner and the demand that is known to wait.
func (o *Owner) need(i int) (most float64) {
	for _, l := range [...][]float64{o.Use, o.Want} {
		if v := valueAt(l, i); v > most {
			most = v
		}
	}
	return most
}

// allocated returns the highest allocation of the owner at step i and the steps beside it. Use is sampled, so the use
// of a job that starts or ends within a step extends into the next.
func (o *Owner) allocated(i int) (most float64) {
	for k := max(i-1, 0); k <= i+1; k++ {
		if v := valueAt(o.Allocated, k); v > most {
			most = v
		}
	}
	return most
}

// maxMinShare returns the largest share that every owner can have if owners who want less get all they want. It is
// infinite if capacity covers all wishes. It sorts wishes.
func maxMinShare(capacity float64, wishes []float64) float64 {
	slices.Sort(wishes)
	for i, w := range wishes {
		even := capacity / float64(len(wishes)-i)
		if w > even {
			return even
		}
		capacity -= w
	}
	return math.Inf(1)
}

// otherWaits reports whether an owner other than k waits.
func otherWaits(owners []Owner, i, k int) bool {
	for j := range owners {
		if j != k && i < len(owners[j].Waits) && owners[j].Waits[i] {
			return true
		}
	}
	return false
}

// contentionCause returns the cause of contention at a step; empty if there is none.
func (t *Trace) contentionCause(i int, l Limits, waits bool) string {
	used := valueAt(t.Machine, i)
	if t.Machine == nil || math.IsNaN(used) {
		used = 0
		for k := range t.Owners {
			if v := valueAt(t.Owners[k].Use, i); v > 0 {
				used += v
			}
		}
	}
	switch {
	case used >= l.Full*t.Capacity:
		return "full"
	case valueAt(t.Pressure, i) >= l.Pressure:
		return "pressure"
	case valueAt(t.Runnable, i) > t.Capacity:
		return "runnable"
	case valueAt(t.Available, i) < l.Available:
		return "available"
	case waits:
		return "waiting"
	}
	return ""
}

// valueAt returns the value at a step; NaN if there is none.
func valueAt(v []float64, i int) float64 {
	if i >= len(v) {
		return math.NaN()
	}
	return v[i]
}
