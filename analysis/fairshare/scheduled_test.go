package fairshare_test

import (
	"math"
	"testing"

	"reckon/analysis/fairshare"
)

// TestScheduled: on a node scheduled by a batch system only use above the allocation and above a share of what jobs leave free
// counts, whatever waits in the queue; while no job holds anything it is as any node.
func TestScheduled(t *testing.T) {
	const n = 10
	owner := func(name string, use, allocated float64) fairshare.Owner {
		o := fairshare.Owner{Name: name, Use: flat(use, n), Want: flat(use, n)}
		if allocated > 0 {
			o.Allocated = flat(allocated, n)
		}
		return o
	}
	wants := func(name string, use, want, allocated float64) fairshare.Owner {
		o := owner(name, use, allocated)
		o.Want = flat(want, n)
		return o
	}
	waits := owner("carol", 0, 0)
	waits.Waits = yes(n)
	moved := owner("alice", 12, 0) // the job ends and another starts: use is sampled a step later
	moved.Allocated = append(flat(12, n-1), 0)
	for name, c := range map[string]struct {
		owners []fairshare.Owner
		want   float64 // score of alice, in shares of the machine
	}{
		"uses what was allocated":           {[]fairshare.Owner{owner("alice", 12, 12), owner("bob", 4, 4)}, 0},
		"the same, and somebody waits":      {[]fairshare.Owner{owner("alice", 12, 12), owner("bob", 2, 2), waits}, 0},
		"more, of what another job leaves":  {[]fairshare.Owner{owner("alice", 12, 8), owner("bob", 4, 8)}, 0},
		"more, and the other job wants its": {[]fairshare.Owner{owner("alice", 12, 8), wants("bob", 4, 8, 8)}, 4.0 / 16},
		"more, but a hair":                  {[]fairshare.Owner{owner("alice", 12, 11.99), wants("bob", 4, 9, 4.01)}, 0.01 / 16},
		"what no job holds":                 {[]fairshare.Owner{owner("alice", 2, 0), owner("bob", 14, 14)}, 0},
		"more than no job holds":            {[]fairshare.Owner{owner("alice", 4, 0), wants("bob", 12, 20, 14)}, 2.0 / 16},
		"a share of it with a third":        {[]fairshare.Owner{owner("alice", 5, 0), wants("carol", 3, 5, 0), wants("bob", 8, 20, 8)}, 1.0 / 16},
		"no job at all: an even share":      {[]fairshare.Owner{owner("alice", 9, 0), wants("carol", 7, 9, 0)}, 1.0 / 16},
		"no job, and little wanted":         {[]fairshare.Owner{owner("alice", 2, 0), owner("carol", 14, 0)}, 0},
		"more, and nobody else wants it":    {[]fairshare.Owner{owner("alice", 16, 8)}, 0},
		"more, and the node is not full":    {[]fairshare.Owner{owner("alice", 10, 8), owner("bob", 4, 4)}, 0},
		"a job border is no use above it":   {[]fairshare.Owner{moved, owner("bob", 4, 4)}, 0},
		"above allocation, what is free":    {[]fairshare.Owner{owner("alice", 6, 4), owner("bob", 10, 10)}, 0},
		"more, waiting alone is no contest": {[]fairshare.Owner{owner("alice", 6, 4), owner("bob", 4, 4), waits}, 0},
	} {
		got := fairshare.Scores(fairshare.Trace{Step: 60, Capacity: 16, Owners: c.owners, Scheduled: true}, fairshare.Default())
		if s := score(got, "alice"); math.Abs(s-c.want*60*n) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, s, c.want*60*n)
		}
		for _, s := range got {
			if s.Owner != "alice" {
				t.Errorf("%s: %s has %g", name, s.Owner, s.Seconds)
			}
		}
	}
}

// TestInexact: where the use of an owner is a bound, the owner has no score, and the fair share of the others
// does not change.
func TestInexact(t *testing.T) {
	const n = 10
	for name, c := range map[string]struct {
		inexact    []bool
		alice, bob float64 // in steps of 1/16 of the machine
	}{
		"exact":          {nil, 4 * n, 0},
		"never exact":    {yes(n), 0, 0},
		"three of ten":   {yes(3), 4 * (n - 3), 0},
		"longer than it": {append(yes(n), true), 0, 0},
	} {
		alice := fairshare.Owner{Name: "alice", Use: flat(12, n), Inexact: c.inexact}
		bob := fairshare.Owner{Name: "bob", Use: flat(4, n)}
		got := fairshare.Scores(fairshare.Trace{Step: 60, Capacity: 16, Owners: []fairshare.Owner{alice, bob}}, fairshare.Default())
		if a, b := score(got, "alice"), score(got, "bob"); math.Abs(a-c.alice*60/16) > 1e-9 || b != c.bob {
			t.Errorf("%s: alice %g, bob %g, want %g and %g", name, a, b, c.alice*60/16, c.bob)
		}
	}
}

// TestEdges tests both sides of each limit of contention and demand.
func TestEdges(t *testing.T) {
	const n = 10
	bob := fairshare.Owner{Name: "bob", Use: flat(1, n)}
	for name, c := range map[string]struct {
		trace fairshare.Trace
		want  bool
	}{
		"90 % full":           {fairshare.Trace{Machine: flat(14.4, n)}, true},
		"below 90 %":          {fairshare.Trace{Machine: flat(14.3, n)}, false},
		"pressure of 10 %":    {fairshare.Trace{Pressure: flat(0.1, n)}, true},
		"pressure below":      {fairshare.Trace{Pressure: flat(0.099, n)}, false},
		"17 tasks, 16 cores":  {fairshare.Trace{Runnable: flat(17, n)}, true},
		"16 tasks, 16 cores":  {fairshare.Trace{Runnable: flat(16, n)}, false},
		"9.9 % is available":  {fairshare.Trace{Available: flat(0.099, n)}, true},
		"a tenth is":          {fairshare.Trace{Available: flat(0.1, n)}, false},
		"bob wants above 2 %": {fairshare.Trace{Pressure: flat(1, n), Owners: []fairshare.Owner{{Name: "bob", Use: flat(0.33, n)}}}, true},
		"bob wants 2 %":       {fairshare.Trace{Pressure: flat(1, n), Owners: []fairshare.Owner{{Name: "bob", Use: flat(0.32, n)}}}, false},
	} {
		tr := c.trace
		tr.Step, tr.Capacity = 60, 16
		if tr.Owners == nil {
			tr.Owners = []fairshare.Owner{bob}
		}
		if tr.Machine == nil {
			tr.Machine = flat(12, n)
		}
		tr.Owners = append(tr.Owners, fairshare.Owner{Name: "alice", Use: flat(11, n)})
		if got := score(fairshare.Scores(tr, fairshare.Default()), "alice") > 0; got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
