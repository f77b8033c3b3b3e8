package scaling

import (
	"math"
	"strings"
	"testing"
	"testing/quick"
)

// TestWeak holds when work is said to grow with the cores, and that the same work, at
// whatever serial share and with idle or busy waiting short of all of it, is not.
func TestWeak(t *testing.T) {
	runs := func(seconds, cpu func(n float64) float64, sizes ...float64) (out []Work) {
		for _, n := range sizes {
			out = append(out, Work{n, seconds(n), cpu(n)})
		}
		return out
	}
	steady := func(float64) float64 { return 100 }
	amdahl := func(serial float64) func(float64) float64 {
		return func(n float64) float64 { return 100 * (serial + (1-serial)/n) }
	}
	for name, c := range map[string]struct {
		runs []Work
		want bool
	}{
		"weak":                {runs(steady, func(n float64) float64 { return 95 * n }, 2, 4, 8, 16), true},
		"weak, less and less": {runs(func(n float64) float64 { return 100 + 2*n }, func(n float64) float64 { return (95 + 2*n) * n }, 2, 4, 8, 16), true},
		"two sizes":           {runs(steady, func(n float64) float64 { return 95 * n }, 4, 8), true},
		"the same work":       {runs(amdahl(0), steady, 2, 4, 8, 16), false},
		"half of it serial":   {runs(amdahl(0.5), steady, 2, 4, 8, 16), false},
		"all of it serial":    {runs(steady, steady, 2, 4, 8, 16), false},
		"busy waiting":        {runs(amdahl(0.3), func(n float64) float64 { return n * amdahl(0.3)(n) }, 2, 4, 8, 16), false},
		"one size":            {runs(steady, steady, 8, 8), false},
		"no CPU time":         {runs(steady, func(float64) float64 { return 0 }, 2, 8), false},
		"nothing":             {nil, false},
	} {
		if w, ok := SeeWeak(c.runs); ok != c.want {
			t.Errorf("%s: %v, %+v", name, ok, w)
		}
	}
	w, _ := SeeWeak(append(runs(steady, func(n float64) float64 { return 95 * n }, 2, 4), Work{16, 125, 95 * 16}))
	got := JudgeWeak(Use{WallSeconds: 125, Held: at(16), CoresP95: at(16), CoresMean: at(15)}, w)
	const want = "good 16 cores take 8 times the CPU time of 2 cores, in 125% of the time (3 runs at 3 sizes): if the work grew with the cores (weak scaling), they work with 80% of the efficiency of 2 cores"
	if !strings.Contains(text(got), want) || !strings.Contains(text(got), "it uses what it held") {
		t.Errorf("%s\nwant %s", text(got), want)
	}
}

// Whatever the figures, nothing is told that is no number.
func TestWeakIsFinite(t *testing.T) {
	f := func(list [][3]float64) bool {
		var runs []Work
		for _, r := range list {
			runs = append(runs, Work{math.Abs(r[0]), math.Abs(r[1]), math.Abs(r[2])})
		}
		w, ok := SeeWeak(runs)
		return !ok || !math.IsNaN(w.Growth+w.Efficiency) && w.To > w.From && w.Sizes >= 2
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}
