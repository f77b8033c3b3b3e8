package fairshare_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"reckon/analysis/fairshare"
)

func flat(v float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func score(s []fairshare.Score, owner string) float64 {
	for _, x := range s {
		if x.Owner == owner {
			return x.Seconds
		}
	}
	return 0
}

// TestIdleAndFull compares the same use on an idle and on a full node: using ten of sixteen
// cores matters only when others cannot get theirs.
func TestIdleAndFull(t *testing.T) {
	const n = 60
	alice := fairshare.Owner{Name: "alice", Use: flat(10, n)}
	for name, c := range map[string]struct {
		trace fairshare.Trace
		want  float64
	}{
		"alone":              {fairshare.Trace{Owners: []fairshare.Owner{alice}}, 0},
		"others want little": {fairshare.Trace{Owners: []fairshare.Owner{alice, {Name: "bob", Use: flat(1, n)}}}, 0}, // 11 of 16: enough for all
		"full":               {fairshare.Trace{Owners: []fairshare.Owner{alice, {Name: "bob", Use: flat(5, n)}}}, (10 - 8) / 16.0 * 60 * n},
		"full by one alone":  {fairshare.Trace{Owners: []fairshare.Owner{{Name: "alice", Use: flat(16, n)}}}, 0},
		"pressure":           {fairshare.Trace{Owners: []fairshare.Owner{alice, {Name: "bob", Use: flat(1, n)}}, Pressure: flat(0.3, n)}, (10 - 8) / 16.0 * 60 * n},
		"runnable":           {fairshare.Trace{Owners: []fairshare.Owner{alice, {Name: "bob", Use: flat(1, n)}}, Runnable: flat(20, n)}, (10 - 8) / 16.0 * 60 * n},
		"memory is short":    {fairshare.Trace{Owners: []fairshare.Owner{alice, {Name: "bob", Use: flat(1, n)}}, Available: flat(0.05, n)}, (10 - 8) / 16.0 * 60 * n},
		"bob waits":          {fairshare.Trace{Owners: []fairshare.Owner{alice, {Name: "bob", Use: flat(0, n), Waits: yes(n)}}}, (10 - 8) / 16.0 * 60 * n},
		"her own job waits":  {fairshare.Trace{Owners: []fairshare.Owner{{Name: "alice", Use: flat(10, n), Waits: yes(n)}, {Name: "bob", Use: flat(1, n)}}}, 0},
		"nothing is known":   {fairshare.Trace{Owners: []fairshare.Owner{alice, {Name: "bob", Use: flat(math.NaN(), n)}}, Pressure: flat(0.9, n)}, 0},
		"fair shares":        {fairshare.Trace{Owners: []fairshare.Owner{{Name: "alice", Use: flat(8, n)}, {Name: "bob", Use: flat(8, n)}}}, 0},
	} {
		c.trace.Step, c.trace.Capacity = 60, 16
		got := fairshare.Scores(c.trace, fairshare.Default())
		if s := score(got, "alice"); math.Abs(s-c.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, s, c.want)
		}
		if s := score(got, "bob"); s != 0 {
			t.Errorf("%s: bob, who wants little, has %g", name, s)
		}
	}
	if s := fairshare.Scores(fairshare.Trace{Step: 60, Owners: []fairshare.Owner{alice}}, fairshare.Default()); s != nil {
		t.Errorf("a node without a capacity: %v", s)
	}
}

func yes(n int) []bool {
	out := make([]bool, n)
	for i := range out {
		out[i] = true
	}
	return out
}

// trace draws a node with a few owners.
func trace(t *rapid.T) fairshare.Trace {
	n := rapid.IntRange(1, 40).Draw(t, "steps")
	series := func(name string, most float64) []float64 {
		return rapid.SliceOfN(rapid.Float64Range(0, most), n, n).Draw(t, name)
	}
	tr := fairshare.Trace{Step: 60, Capacity: rapid.Float64Range(1, 128).Draw(t, "capacity")}
	for _, name := range []string{"alice", "bob", "carol"}[:rapid.IntRange(1, 3).Draw(t, "owners")] {
		tr.Owners = append(tr.Owners, fairshare.Owner{Name: name, Use: series(name, tr.Capacity)})
	}
	if rapid.Bool().Draw(t, "with pressure") {
		tr.Pressure = series("pressure", 1)
	}
	return tr
}

// TestIdleIsNothing: below nine tenths, without pressure and without work waiting for the node,
// nobody has more than a fair share, whatever the owners do.
func TestIdleIsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := trace(t)
		tr.Pressure = nil
		for i := range tr.Owners {
			for k := range tr.Owners[i].Use {
				tr.Owners[i].Use[k] *= 0.29 // three owners: 87 % at most
			}
		}
		if s := fairshare.Scores(tr, fairshare.Default()); len(s) != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

// TestSplitChangesNothing: owners are summed, so k jobs of an owner count as one. And the
// sum of all scores never exceeds the duration.
func TestSplitChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := trace(t)
		whole := fairshare.Scores(tr, fairshare.Default())
		k := rapid.IntRange(2, 9).Draw(t, "parts")
		split := tr
		split.Owners = nil
		for _, o := range tr.Owners {
			sum := make([]float64, len(o.Use))
			for range k {
				for i, v := range o.Use {
					sum[i] += v / float64(k)
				}
			}
			split.Owners = append(split.Owners, fairshare.Owner{Name: o.Name, Use: sum})
		}
		again := fairshare.Scores(split, fairshare.Default())
		total := 0.0
		for _, s := range whole {
			if math.Abs(score(again, s.Owner)-s.Seconds) > 1e-6*(1+s.Seconds) {
				t.Fatalf("%s: %g whole, %g split", s.Owner, s.Seconds, score(again, s.Owner))
			}
			total += s.Seconds
			if s.Contended <= 0 || s.Share <= 0 || s.Others < 1 || s.First > s.Last || len(s.Why) == 0 {
				t.Fatalf("%+v", s)
			}
		}
		steps := float64(len(tr.Owners[0].Use))
		over := 0.0 // use may exceed the capacity in a generated trace
		for i := range tr.Owners[0].Use {
			sum := 0.0
			for _, o := range tr.Owners {
				sum += o.Use[i]
			}
			over += math.Max(1, sum/tr.Capacity)
		}
		if total > math.Max(steps, over)*tr.Step+1e-6 {
			t.Fatalf("%g seconds of a machine in %g", total, steps*tr.Step)
		}
	})
}
