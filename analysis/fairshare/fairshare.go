// Package fairshare finds who takes more than a fair share of a machine while others want it.
//
//	score(owner, R) = integral of max(0, use - fair share) / capacity
//
// over the time in which the resource R is contended and at least two owners want it.
// The score is in seconds of the whole machine: 600 is as if the owner had kept others
// from all of it for ten minutes. It is 0 on an idle machine by construction, and the
// same however an owner splits the work into jobs, since owners are summed first.
//
// The fair share is the max-min one: who wants less than an even part gets what they
// want, and the rest is divided evenly over those who want more. So nobody is blamed for
// what others do not want. Where it is not known how much an owner wants, it is as much
// as can be had, and the share is the even part.
//
// On a node that a batch system gives out the share is what it allocated to the owner: who
// uses that takes nothing from anybody, and a job that waits in the queue is kept waiting by
// the scheduler, not by those whose jobs it started.
//
// The package is pure: no file, no network, no clock; safe for concurrent use. Use and
// capacity have one unit (cores, bytes, GPUs); gaps are NaN and count as nothing.
package fairshare

import (
	"math"
	"slices"
	"strings"
)

// Limits say when a resource is contended. The zero value is not useful; see [Default].
type Limits struct {
	// Full is the share of the capacity in use from which it is contended.
	Full float64 `yaml:"full"`
	// Pressure is the share of time in which some task waited (PSI some).
	Pressure float64 `yaml:"pressure"`
	// Available is the share of memory below which it is contended.
	Available float64 `yaml:"available"`
	// Wants is the share of the capacity that an owner must use to be one that wants it.
	Wants float64 `yaml:"wants"`
}

// Default are the limits of the definition.
func Default() Limits { return Limits{Full: 0.9, Pressure: 0.1, Available: 0.1, Wants: 0.02} }

// Trace is one resource of one node over time, on an even grid.
type Trace struct {
	Step     float64 // seconds
	Capacity float64
	Owners   []Owner
	// Pressure is the share of time in which some task waited, Runnable the number of tasks
	// that run or could, Available the share of memory that new work could have; nil where
	// they are not known or do not apply.
	Pressure, Runnable, Available []float64
	// Machine is what all of the node uses, nil for the sum of the owners.
	Machine []float64
	// Scheduled says that a batch system gives the node out.
	Scheduled bool
}

// Owner is what one owner uses, all jobs together, what this owner wants (the use, and
// what was waited for: for CPU the cores that threads were ready for and did not get),
// whether a request of this owner waits for the node, and what a batch system allocated to
// the owner on it. Where Inexact holds, Use is a lower bound, an estimate or a model: the owner
// has no score there, but is one of those who want the resource. All but Use may be nil.
type Owner struct {
	Name      string
	Use       []float64
	Want      []float64
	Waits     []bool
	Allocated []float64
	Inexact   []bool
}

// Score is what one owner took.
type Score struct {
	Owner string
	// Seconds is the score: seconds of the whole machine.
	Seconds float64
	// Contended is how long the resource was contended while this owner used more than a
	// fair share, First and Last the steps of it.
	Contended   float64
	First, Last int
	// Share is the mean share of the capacity that the owner used in that time, Others how
	// many other owners wanted it at the same time, on average.
	Share, Others float64
	// Why counts steps by what made the resource contended.
	Why map[string]int
}

// Step is how a step of time adds to the score of an owner.
type Step struct {
	I int // which one
	// Use is what the owner used, Fair the fair share, in the unit of the capacity.
	Use, Fair float64
	// Owners is how many owners wanted the resource, this one included.
	Owners int
	// Why is what made it contended.
	Why string
	// Seconds is what the step adds: (Use - Fair) / Capacity * Step of the trace.
	Seconds float64
}

// Steps are the steps that make the score of one owner, for somebody who wants to add
// them up again; their sum is the score.
func Steps(t Trace, l Limits, owner string) (out []Step) {
	walk(t, l, func(k int, s Step) {
		if t.Owners[k].Name == owner {
			out = append(out, s)
		}
	})
	return out
}

// Scores are the owners with a score above 0, the highest first.
func Scores(t Trace, l Limits) []Score {
	found := make([]*Score, len(t.Owners))
	walk(t, l, func(k int, step Step) {
		s := found[k]
		if s == nil {
			s = &Score{Owner: t.Owners[k].Name, First: step.I, Why: map[string]int{}}
			found[k] = s
		}
		s.Seconds += step.Seconds
		s.Contended += t.Step
		s.Share += step.Use / t.Capacity
		s.Others += float64(step.Owners - 1)
		s.Why[step.Why]++
		s.Last = step.I
	})
	var out []Score
	for _, s := range found {
		if s != nil {
			if steps := s.Contended / t.Step; steps > 0 {
				s.Share /= steps
				s.Others /= steps
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

// walk gives each step in which an owner had more than a fair share of a contended
// resource, in the order of time.
func walk(t Trace, l Limits, take func(owner int, s Step)) {
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
		for k := range t.Owners {
			o := &t.Owners[k]
			w := i < len(o.Waits) && o.Waits[i]
			if use := at(o.Use, i); use > most {
				most = use
			}
			if w || at(o.Use, i) > l.Wants*t.Capacity || at(o.Want, i) > l.Wants*t.Capacity {
				n++
				wish = append(wish, o.wants(i, w))
			}
			if w {
				waiting = k
			}
		}
		if n < 2 || !t.Scheduled && most <= t.Capacity/float64(n) { // no share is smaller than the even part
			continue
		}
		fair := level(t.Capacity, wish)
		for k := range t.Owners {
			use := at(t.Owners[k].Use, i)
			if t.Scheduled {
				fair = t.Owners[k].allocated(i)
			}
			if !(use > fair) || i < len(t.Owners[k].Inexact) && t.Owners[k].Inexact[i] {
				continue
			}
			if why := t.contended(i, l, !t.Scheduled && waiting >= 0 && (waiting != k || others(t.Owners, i, k))); why != "" {
				take(k, Step{I: i, Use: use, Fair: fair, Owners: n, Why: why, Seconds: (use - fair) / t.Capacity * t.Step})
			}
		}
	}
}

// wants is how much the owner would use if nobody else were there.
func (o *Owner) wants(i int, waits bool) float64 {
	want := at(o.Want, i)
	if waits || math.IsNaN(want) {
		return math.Inf(1)
	}
	if use := at(o.Use, i); use > want {
		return use
	}
	return want
}

// allocated is what a batch system allocated to the owner at a step or beside it: use is
// sampled, so that of a job that ends or begins within a step reaches into the next.
func (o *Owner) allocated(i int) (most float64) {
	for k := max(i-1, 0); k <= i+1; k++ {
		if v := at(o.Allocated, k); v > most {
			most = v
		}
	}
	return most
}

// level is the most that anybody can have so that those who want less have what they
// want; infinite when there is enough for all. It sorts the wishes.
func level(capacity float64, wishes []float64) float64 {
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

// others reports whether another owner than k waits.
func others(owners []Owner, i, k int) bool {
	for j := range owners {
		if j != k && i < len(owners[j].Waits) && owners[j].Waits[i] {
			return true
		}
	}
	return false
}

// contended says what makes the resource contended at a step; empty when nothing does.
func (t *Trace) contended(i int, l Limits, waits bool) string {
	used := at(t.Machine, i)
	if t.Machine == nil || math.IsNaN(used) {
		used = 0
		for k := range t.Owners {
			if v := at(t.Owners[k].Use, i); v > 0 {
				used += v
			}
		}
	}
	switch {
	case used >= l.Full*t.Capacity:
		return "full"
	case at(t.Pressure, i) >= l.Pressure:
		return "pressure"
	case at(t.Runnable, i) > t.Capacity:
		return "runnable"
	case at(t.Available, i) < l.Available:
		return "available"
	case waits:
		return "waiting"
	}
	return ""
}

// at is the value at a step; NaN where there is none.
func at(v []float64, i int) float64 {
	if i >= len(v) {
		return math.NaN()
	}
	return v[i]
}
