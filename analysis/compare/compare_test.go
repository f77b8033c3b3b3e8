package compare

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(a, b, by float64) bool { return math.Abs(a-b) <= by }

// TestStudent compares with the published table of two-sided quantiles.
func TestStudent(t *testing.T) {
	for _, c := range []struct{ p, df, want float64 }{
		{0.05, 1, 12.706}, {0.05, 2, 4.303}, {0.05, 5, 2.571}, {0.05, 30, 2.042}, {0.01, 10, 3.169}, {0.001, 4, 8.610}, {0.2, 3, 1.638}, {0.05, 1e6, 1.95997},
	} {
		if got := studentQuantile(c.p, c.df); !near(got, c.want, 0.001) {
			t.Errorf("quantile %v with %v degrees: %v, want %v", c.p, c.df, got, c.want)
		}
		if got := studentTail(c.want, c.df); !near(got, c.p, 0.0002) {
			t.Errorf("tail beyond %v with %v degrees: %v, want %v", c.want, c.df, got, c.p)
		}
	}
	if got := studentTail(0, 7); got != 1 {
		t.Errorf("tail beyond 0: %v", got)
	}
}

// TestKnown compares with R: t.test(a, b) and t.test(a, b, paired = TRUE) of Student's own data (sleep).
func TestKnown(t *testing.T) {
	a := []float64{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0, 2}
	b := []float64{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4}
	r := Runs(a, b, 0.05, 1)
	if !near(r.P, 0.07939, 1e-5) || !near(r.Low, -0.2054832, 1e-5) || !near(r.High, 3.3654832, 1e-5) || r.Verdict != Noise || r.Test != WelchRun {
		t.Errorf("Welch: %+v", r)
	}
	r = Pairs(a, b, 0.05, 1)
	if !near(r.P, 0.002833, 1e-6) || !near(r.Low, 0.7001142, 1e-5) || !near(r.High, 2.4598858, 1e-5) || r.Verdict != Differs {
		t.Errorf("paired: %+v", r)
	}
	if r = Pairs(a, b, 0.05, 20); r.Verdict != Noise || !near(r.P, 0.05666, 1e-4) || r.Low > 0 {
		t.Errorf("of twenty figures: %+v", r)
	}
}

// walk is a series with the given mean and the correlation r of neighbours.
func walk(rnd *rand.Rand, n int, r, mean float64) []float64 {
	x := make([]float64, n)
	v := rnd.NormFloat64()
	for i := range x {
		v = r*v + math.Sqrt(1-r*r)*rnd.NormFloat64()
		x[i] = mean + v
	}
	return x
}

// TestNoise: of pairs of equal runs about one in twenty is reported to differ, however strong the autocorrelation
// within a run; and a true difference is found.
func TestNoise(t *testing.T) {
	rnd := rand.New(rand.NewPCG(17, 42))
	const rounds = 600
	for _, c := range []struct {
		n          int
		r          float64
		most, find float64 // share reported to differ: of equal runs, of runs one deviation apart
	}{
		{30, 0, 0.07, 0.75}, {30, 0.5, 0.09, 0.2}, {100, 0, 0.07, 0.99}, {100, 0.5, 0.08, 0.85}, {100, 0.8, 0.09, 0.3}, {300, 0.9, 0.09, 0.3},
	} {
		wrong, found := 0, 0
		for range rounds {
			a := [][]float64{walk(rnd, c.n, c.r, 10)}
			if Series(a, [][]float64{walk(rnd, c.n, c.r, 10)}, 0.05, 1).Verdict == Differs {
				wrong++
			}
			if Series(a, [][]float64{walk(rnd, c.n, c.r, 11)}, 0.05, 1).Verdict == Differs {
				found++
			}
		}
		w, f := float64(wrong)/rounds, float64(found)/rounds
		t.Logf("%d values, correlation %.1f: %.3f of equal runs differ, %.3f of unequal ones", c.n, c.r, w, f)
		if w > c.most || f < c.find {
			t.Errorf("%d values, correlation %.1f: %.3f of equal runs are said to differ (at most %.2f), %.3f of unequal ones (at least %.2f)", c.n, c.r, w, c.most, f, c.find)
		}
	}
}

func TestFewValues(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Result
		want string
	}{
		{"one value each", Runs([]float64{1}, []float64{2}, 0.05, 1), Untested},
		{"two runs each", Runs([]float64{1, 1.1}, []float64{2, 2.1}, 0.05, 1), Untested},
		{"three runs each", Runs([]float64{1, 1.1, 1.05}, []float64{2, 2.1, 2.05}, 0.05, 1), Differs},
		{"one against two", Runs([]float64{1}, []float64{2, 2.1}, 0.05, 1), Untested},
		{"one against three", Runs([]float64{1}, []float64{2, 2.01, 1.99}, 0.05, 1), Differs},
		{"one of the same", Runs([]float64{2, 2.4, 1.9}, []float64{2.3}, 0.05, 1), Noise},
		{"two pairs", Pairs([]float64{1, 2}, []float64{2, 3.1}, 0.05, 1), Untested},
		{"no value varies", Series([][]float64{{4, 4, 4}}, [][]float64{{8, 8, 8}}, 0.05, 1), Differs},
		{"nothing differs", Series([][]float64{{4, 4, 4}}, [][]float64{{4, 4, 4}}, 0.05, 1), Noise},
		{"a slope is one value", Series([][]float64{{1, 2, 3, 4, 5, 6, 7, 8}}, [][]float64{{2, 3, 4, 5, 6, 7, 8, 9}}, 0.05, 1), Untested},
	} {
		if c.r.Verdict != c.want {
			t.Errorf("%s: %+v, want %s", c.name, c.r, c.want)
		}
		if (c.r.Verdict == Untested) != (c.r.Why != "") {
			t.Errorf("%s: why %q", c.name, c.r.Why)
		}
	}
}

// TestOneRun: a further run of the same work is reported to differ about once in twenty.
func TestOneRun(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	wrong := 0
	const rounds = 2000
	for range rounds {
		a := make([]float64, 5)
		for i := range a {
			a[i] = rnd.NormFloat64()
		}
		if Runs(a, []float64{rnd.NormFloat64()}, 0.05, 1).Verdict == Differs {
			wrong++
		}
	}
	if share := float64(wrong) / rounds; share < 0.03 || share > 0.07 {
		t.Errorf("%.3f of equal runs are said to differ", share)
	}
}
