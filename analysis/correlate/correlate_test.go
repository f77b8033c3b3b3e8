package correlate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.Abs(got-want) > tol || math.IsNaN(got) != math.IsNaN(want) {
		t.Errorf("%s = %g, want %g +- %g", what, got, want, tol)
	}
}

// TestPearsonKnown: the first of Anscombe's quartet (1973) has r = 0.816.
func TestPearsonKnown(t *testing.T) {
	x := []float64{10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5}
	y := []float64{8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68}
	near(t, "anscombe I", Pearson(x, y), 0.81642, 1e-5)
	near(t, "constant", Pearson(x, make([]float64, len(x))), math.NaN(), 0)
	// A constant that is not exactly representable must not correlate by rounding.
	c := make([]float64, len(x))
	for i := range c {
		c[i] = 0.1
	}
	if r := Pearson(x, c); !math.IsNaN(r) {
		t.Errorf("constant 0.1: got %g", r)
	}
}

func TestRanksTies(t *testing.T) {
	got := fmt.Sprint(Ranks([]float64{3, 1, 3, 2}))
	if want := "[3.5 1 3.5 2]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// walk is a smooth random series.
func walk(n int, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float64, n)
	for i := 1; i < n; i++ {
		v[i] = 0.8*v[i-1] + r.NormFloat64()
	}
	return v
}

func TestLagAndGaps(t *testing.T) {
	a := walk(400, 1)
	b := make([]float64, len(a))
	for i := range b {
		b[i] = math.NaN()
		if i >= 7 && i%5 != 0 {
			b[i] = 3 * a[i-7]
		}
	}
	m, err := Pairs([]Column{{"a", a}, {"b", b}, {"flat", make([]float64, 400)}}, Options{MaxLag: 20, StepSeconds: 15})
	if err != nil {
		t.Fatal(err)
	}
	p := m.At(1, 0)
	if p.Lag != 7 || p.LagSeconds != 105 {
		t.Errorf("b follows a by %d rows (%g s), want 7 (105 s)", p.Lag, p.LagSeconds)
	}
	near(t, "coefficient at the lag", p.LagPearson, 1, 1e-9)
	// 393 rows from the seventh on, less the 78 of them that are multiples of five.
	if p.Points != 315 {
		t.Errorf("%d common points, want 315", p.Points)
	}
	if f := m.At(0, 2); !math.IsNaN(f.Pearson) || f.Lag != 0 {
		t.Errorf("constant column: %+v", f)
	}
	if len(m.Warnings) != 1 {
		t.Errorf("warnings %q, want one on the constant column", m.Warnings)
	}
	if m.Strongest()[0].B != "b" {
		t.Errorf("strongest is %+v", m.Strongest()[0])
	}
}

// TestBreaks: a lag must not reach from one recording into the next.
func TestBreaks(t *testing.T) {
	a, b := walk(200, 3), make([]float64, 200)
	for i := range b {
		b[i] = a[(i+200-5)%200]
	}
	m, err := Pairs([]Column{{"a", a}, {"b", b}}, Options{MaxLag: 10, Breaks: []int{100}})
	if err != nil {
		t.Fatal(err)
	}
	if p := m.Pairs[0]; p.Lag != 5 || p.LagPoints != 190 {
		t.Errorf("lag %d on %d points, want 5 on 190", p.Lag, p.LagPoints)
	}
}

func TestSpearmanMonotone(t *testing.T) {
	a := walk(100, 5)
	b := make([]float64, len(a))
	for i := range a {
		b[i] = -math.Exp(a[i])
	}
	m, _ := Pairs([]Column{{"a", a}, {"b", b}}, Options{MaxLag: -1})
	near(t, "spearman", m.Pairs[0].Spearman, -1, 1e-12)
	if p := m.Pairs[0]; p.Pearson <= -0.999 || p.Low > p.Pearson || p.High < p.Pearson {
		t.Errorf("pearson %g in %g..%g", p.Pearson, p.Low, p.High)
	}
}

// TestEffectivePoints: for two unrelated autocorrelated series, the interval from effective points must contain
// zero far more often than the naive one.
func TestEffectivePoints(t *testing.T) {
	hold, naive := 0, 0
	for s := range uint64(100) {
		x, y := walk(300, 2*s+100), walk(300, 2*s+101)
		r := Pearson(x, y)
		n := effectivePoints(x, y)
		if lo, hi := confidenceInterval(r, n); lo <= 0 && hi >= 0 {
			hold++
		}
		if lo, hi := confidenceInterval(r, 300); lo <= 0 && hi >= 0 {
			naive++
		}
	}
	if hold < 85 || naive > hold-10 {
		t.Errorf("interval holds zero in %d of 100, naive in %d", hold, naive)
	}
}

func TestBadInput(t *testing.T) {
	if _, err := Pairs([]Column{{"a", make([]float64, 3)}, {"b", make([]float64, 2)}}, Options{}); err == nil {
		t.Error("different lengths were taken")
	}
	if _, err := Pairs([]Column{{"a", nil}, {"a", nil}}, Options{}); err == nil {
		t.Error("one name twice was taken")
	}
	m, err := Pairs([]Column{{"a", []float64{1, 2}}, {"b", []float64{1, math.Inf(1)}}}, Options{})
	if err != nil || m.Pairs[0].Points != 1 || !math.IsNaN(m.Pairs[0].Pearson) {
		t.Errorf("%+v, %v", m, err)
	}
}

func BenchmarkPairs(b *testing.B) {
	var cs []Column
	for i := range 10 {
		cs = append(cs, Column{fmt.Sprint(i), walk(3600, uint64(i))})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Pairs(cs, Options{MaxLag: 10}); err != nil {
			b.Fatal(err)
		}
	}
}
