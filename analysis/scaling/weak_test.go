package scaling

import (
	"math"
	"strings"
	"testing"
	"testing/quick"
)

// TestWeak: work that grows with the cores is recognised, and fixed work is not, with
// any serial fraction and with idle or busy waiting that does not fill all the time.
func TestWeak(t *testing.T) {
	runs := func(seconds, cpu func(n float64) float64, sizes ...float64) (out []Run) {
		for _, n := range sizes {
			out = append(out, Run{Size: n, Seconds: seconds(n), Used: at(cpu(n))})
		}
		return out
	}
	steady := func(float64) float64 { return 100 }
	amdahl := func(serial float64) func(float64) float64 {
		return func(n float64) float64 { return 100 * (serial + (1-serial)/n) }
	}
	for name, c := range map[string]struct {
		runs []Run
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
		if w, ok := detectWeak(c.runs); ok != c.want {
			t.Errorf("%s: %v, %+v", name, ok, w)
		}
	}
	list := append(runs(steady, func(n float64) float64 { return 95 * n }, 2, 4), Run{Size: 16, Seconds: 125, Used: at(95 * 16)})
	r := Compare(Use{WallSeconds: 125, Given: at(16), CoresP95: at(16), CoresMean: at(15)}, list, Cores)
	const want = "good 16 cores take 8 times the CPU time of 2 cores, and 1.2 times as long (3 runs at 3 sizes, 2 to 16 cores): if the work grew with the cores (weak scaling), they work with 80 % of the efficiency of 2 cores"
	if !strings.Contains(text(r.Verdicts), want) || !strings.Contains(text(r.Verdicts), "it uses what it was given") || r.Law != nil || r.Weak == nil || r.Weak.To != 16 {
		t.Errorf("%s\nwant %s", text(r.Verdicts), want)
	}
}

// TestWeakEdges tests both sides of the thresholds of CPU time and wall time.
func TestWeakEdges(t *testing.T) {
	for _, c := range []struct {
		cpu, seconds float64 // decades per decade of cores
		want         bool
	}{{0.76, 0, true}, {0.74, 0, false}, {1, -0.24, true}, {1, -0.26, false}} {
		var runs []Run
		for _, n := range []float64{1, 2, 4, 8} {
			runs = append(runs, Run{Size: n, Seconds: 100 * math.Pow(n, c.seconds), Used: at(100 * math.Pow(n, c.cpu))})
		}
		if w, ok := detectWeak(runs); ok != c.want {
			t.Errorf("CPU time by %g, time by %g: %v, %+v", c.cpu, c.seconds, ok, w)
		}
	}
	for slower, want := range map[float64]string{124: "good", 126: "info"} {
		runs := []Run{{Size: 2, Seconds: 100, Used: at(190)}, {Size: 4, Seconds: 100, Used: at(380)}, {Size: 8, Seconds: slower, Used: at(760)}}
		if r := Compare(Use{}, runs, Cores); r.Weak == nil || !strings.Contains(text(r.Verdicts), want+" 8 cores take 4 times") {
			t.Errorf("%g s: %s", slower, text(r.Verdicts))
		}
	}
}

// TestWeakIsFinite: whatever the figures, no reported number is NaN or infinite.
func TestWeakIsFinite(t *testing.T) {
	f := func(list [][3]float64) bool {
		var runs []Run
		for _, r := range list {
			runs = append(runs, Run{Size: math.Abs(r[0]), Seconds: math.Abs(r[1]), Used: at(math.Abs(r[2]))})
		}
		w, ok := detectWeak(runs)
		return !ok || !math.IsNaN(w.Growth+w.Efficiency) && w.To > w.From && w.Sizes >= 2
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}
