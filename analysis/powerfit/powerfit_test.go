package powerfit

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"reckon/account/attribution/powermodel"
)

// recording returns n rows for each of some workloads on a machine with a known law.
// The workloads differ in utilisation.
func recording(workloads, n int, seed uint64, law func(u, cycles, misses float64) float64) Data {
	r := rand.New(rand.NewPCG(seed, 7))
	var u, cyc, miss, junk []float64
	d := Data{}
	for w := range workloads {
		centre, ghz, rate := r.Float64(), 1+2*r.Float64(), r.Float64()
		for i := range n {
			x := min(max(centre+0.2*r.NormFloat64(), 0), 1)
			u, cyc, miss = append(u, x), append(cyc, x*ghz*1e10), append(miss, x*rate*1e8)
			junk = append(junk, float64(w*1000)+100*r.Float64())
			d.Watts = append(d.Watts, law(x, x*ghz, x*rate)*(1+0.002*r.NormFloat64()))
			d.Workload = append(d.Workload, fmt.Sprintf("w%d", w))
			d.Time = append(d.Time, float64(w*100000+i))
		}
	}
	d.Features = []Column{{Name: "cpu_utilization", Unit: "ratio", Values: u}, {Name: "cpu_cycles", Unit: "1/s", Values: cyc},
		{Name: "llc_misses", Unit: "1/s", Values: miss}, {Name: "context_switches", Unit: "1/s", Values: junk}}
	return d
}

func fit(t *testing.T, d Data, o Options) *Result {
	t.Helper()
	r, err := Fit(d, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Model.Check(); err != nil {
		t.Fatal(err)
	}
	if s, b := r.Score, r.Baseline; s.MAPE > b.MAPE || s.RMSE > b.RMSE || s.DRE > b.DRE || s.R2 < b.R2 {
		t.Errorf("%s is worse than the baseline it prints: %+v, baseline %+v", r.Chosen, s, b)
	}
	return r
}

func TestRecoversLaws(t *testing.T) {
	for name, law := range map[string]func(u, cycles, misses float64) float64{
		"linear": func(u, _, _ float64) float64 { return 60 + 90*u },
		"fan":    func(u, _, _ float64) float64 { return 60 + 90*(2*u-math.Pow(u, 1.4)) },
		Additive: func(_, c, m float64) float64 { return 60 + 25*c + 30*math.Sqrt(m) },
	} {
		t.Run(name, func(t *testing.T) {
			r := fit(t, recording(8, 60, 3, law), Options{Families: []string{Root, CurveFam, Additive}})
			if r.Score.MAPE > 0.012 {
				t.Errorf("error %.4f by %s", r.Score.MAPE, r.Chosen)
			}
			if name == Additive && r.Chosen != Additive {
				t.Errorf("%s was chosen for a law of several features", r.Chosen)
			}
		})
	}
}

// TestMonotoneAndPositive: one-dimensional families rise with utilisation and never go below zero, whatever
// the data; trees and sums stay within bounds.
func TestMonotoneAndPositive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 60).Draw(t, "n")
		u, y := make([]float64, n), make([]float64, n)
		for i := range u {
			u[i] = rapid.Float64Range(0, 1).Draw(t, "u")
			y[i] = rapid.Float64Range(0.1, 500).Draw(t, "watts")
		}
		for _, f := range []string{Root, Additive, CurveFam} {
			r, err := Fit(Data{Features: []Column{{Name: "cpu_utilization", Unit: "ratio", Values: u}}, Watts: y}, Options{Families: []string{f}})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Model.Features) == 0 {
				continue
			}
			last := math.Inf(-1)
			for k := range 101 {
				p := r.Model.Predict([]float64{float64(k) / 100})
				if p.Watts < 0 || p.Low < 0 || p.Low > p.Watts || p.High < p.Watts {
					t.Fatalf("%s: %+v", f, p)
				}
				// A prior curve follows measured points down if they clearly fall.
				if f != CurveFam && p.Watts < last-1e-6*last {
					t.Fatalf("%s falls from %g to %g", f, last, p.Watts)
				}
				last = p.Watts
			}
		}
	})
}

// TestNoiseGivesMean: power that does not depend on the features gets the mean, with a warning.
func TestNoiseGivesMean(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	d := recording(6, 60, 9, func(_, _, _ float64) float64 { return 100 })
	for i := range d.Watts {
		d.Watts[i] = 100 + 5*r.NormFloat64()
	}
	res := fit(t, d, Options{})
	if s := res.Score.MAPE / res.Baseline.MAPE; s < 0.95 {
		t.Errorf("%s claims %.3f of the baseline's error on noise", res.Chosen, s)
	}
	if res.Chosen == Mean && !slices.ContainsFunc(res.Warnings, func(w string) bool { return strings.Contains(w, "constant") }) {
		t.Errorf("no word on it: %q", res.Warnings)
	}
}

func TestDeterministic(t *testing.T) {
	d := recording(5, 60, 2, func(u, c, _ float64) float64 { return 60 + 50*u*c })
	var files [3]bytes.Buffer
	for i := range files {
		o := Options{Seed: 4, Families: []string{TreesFam}}
		if i == 2 {
			o.Seed = 5
		}
		if err := fit(t, d, o).Model.Write(&files[i]); err != nil {
			t.Fatal(err)
		}
	}
	if files[0].String() != files[1].String() {
		t.Error("two fits with one seed differ")
	}
	if files[0].String() == files[2].String() {
		t.Error("the seed changes nothing")
	}
}

// TestTreesInteraction: trees find a product of features, which no sum of them can express.
func TestTreesInteraction(t *testing.T) {
	d := recording(10, 80, 6, func(u, _, m float64) float64 {
		if u > 0.5 {
			return 100 + 80*m
		}
		return 100
	})
	trees := fit(t, d, Options{Families: []string{TreesFam}})
	sum := fit(t, d, Options{Families: []string{Additive}})
	if trees.Score.MAPE > 0.8*sum.Score.MAPE {
		t.Errorf("trees %.4f, sums %.4f", trees.Score.MAPE, sum.Score.MAPE)
	}
}

func TestBadData(t *testing.T) {
	nan := math.NaN()
	x := []float64{0, 0.5, 1, 0.2}
	for name, c := range map[string]struct {
		d    Data
		want string
	}{
		"lengths": {Data{Features: []Column{{Name: "a", Values: x[:2]}}, Watts: x}, "feature a has 2 rows"},
		"twice":   {Data{Features: []Column{{Name: "a", Values: x}, {Name: "a", Values: x}}, Watts: x}, "feature a occurs twice"},
		"gaps":    {Data{Features: []Column{{Name: "a", Values: []float64{nan, nan, 1, 2}}}, Watts: x}, "2 rows have a gap"},
		"zero":    {Data{Features: []Column{{Name: "a", Values: x}}, Watts: []float64{0, 0, -1, 5}}, "3 rows have a power of zero or less"},
		"empty":   {Data{}, "0 of 0 rows"},
	} {
		if _, err := Fit(c.d, Options{}); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	d := recording(1, 100, 1, func(u, _, _ float64) float64 { return 60 + 90*u })
	d.Features = append(d.Features, Column{Name: "flat", Values: make([]float64, 100)})
	d.Watts[3], d.Watts[4] = math.NaN(), 0
	d.Time[50], d.Time[51] = d.Time[51], d.Time[50]
	r := fit(t, d, Options{Families: []string{Root}})
	all := strings.Join(r.Warnings, "\n")
	for _, want := range []string{"1 workload(s) only", "feature flat is constant", "1 row has a gap", "power of zero", "steps back 1 times"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning %q in\n%s", want, all)
		}
	}
	if r.Protocol != ByBlock || r.Chosen != Root {
		t.Errorf("%s by %s", r.Chosen, r.Protocol)
	}
}

// TestOutlier: one invalid reading of a meter does not spoil a fit, and is reported. A machine that draws much more
// in some rows is not an outlier.
func TestOutlier(t *testing.T) {
	law := func(u, _, _ float64) float64 { return 60 + 90*u }
	for name, c := range map[string]struct {
		change func(d *Data)
		want   int
	}{
		"none":      {func(*Data) {}, 0},
		"one blank": {func(d *Data) { d.Watts[17] = 65535 }, 1},
		"a fiftieth": {func(d *Data) {
			for i := range 6 {
				d.Watts[50*i] = 65535
			}
		}, 6},
		"more than that": {func(d *Data) {
			for i := range 7 {
				d.Watts[40*i] = 65535
			}
		}, 0},
		"just within": {func(d *Data) { d.Watts[17] = 4.9 * slices.Max(d.Watts) }, 0},
		"just beyond": {func(d *Data) { d.Watts[17] = 5.1 * slices.Max(d.Watts) }, 1},
	} {
		d := recording(6, 50, 9, law)
		c.change(&d)
		rows, warn := cleanRows(d)
		if got := len(d.Watts) - len(rows); got != c.want || (c.want > 0) != strings.Contains(strings.Join(warn, " "), "beyond all others") {
			t.Errorf("%s: %d rows dropped, want %d (%v)", name, got, c.want, warn)
		}
	}
	d := recording(6, 50, 9, law)
	d.Watts[17] = 65535
	if r := fit(t, d, Options{}); r.Score.MAPE > 0.012 {
		t.Errorf("with one blank the error is %.3f", r.Score.MAPE)
	}
}

// TestLoadStepsOnce: a log with a load that steps once has both levels in few blocks: the worst block alone rejects no
// family that is better than the mean everywhere else.
func TestLoadStepsOnce(t *testing.T) {
	d := Data{Time: make([]float64, 100), Watts: make([]float64, 100)}
	gpu, cpu := make([]float64, 100), make([]float64, 100)
	r := rand.New(rand.NewPCG(4, 2))
	for i := range 100 {
		d.Time[i], cpu[i] = float64(i), 0.1+0.02*r.Float64()
		if i >= 62 {
			gpu[i] = 0.9 + 0.05*r.Float64()
		}
		d.Watts[i] = 8 + 20*gpu[i] + 5*cpu[i] + 0.1*r.NormFloat64()
	}
	d.Features = []Column{{Name: "cpu_utilization", Unit: "ratio", Values: cpu}, {Name: "gpu_utilization", Unit: "ratio", Values: gpu}}
	if r := fit(t, d, Options{}); r.Chosen == Mean {
		t.Errorf("the mean was chosen: %+v", r.Candidates)
	}
}

// TestExtrapolates: every family that may be chosen keeps rising beyond the observed range: a machine at full load draws
// more than one at half.
func TestExtrapolates(t *testing.T) {
	d := recording(8, 60, 11, func(u, _, m float64) float64 { return 60 + 90*u + 40*u*m })
	keep := func(u float64) bool { return u <= 0.5 }
	var part Data
	part.Features = make([]Column, len(d.Features))
	for k, f := range d.Features {
		part.Features[k] = Column{Name: f.Name, Unit: f.Unit}
	}
	for i, u := range d.Features[0].Values {
		if !keep(u) {
			continue
		}
		part.Watts, part.Workload, part.Time = append(part.Watts, d.Watts[i]), append(part.Workload, d.Workload[i]), append(part.Time, d.Time[i])
		for k := range d.Features {
			part.Features[k].Values = append(part.Features[k].Values, d.Features[k].Values[i])
		}
	}
	for _, f := range []string{Root, Additive, TreesFam} {
		r, err := Fit(part, Options{Families: []string{f}, Lags: -1})
		if err != nil {
			t.Fatal(err)
		}
		if r.Chosen != f {
			t.Logf("%s was not chosen but %s", f, r.Chosen)
			continue
		}
		at := func(u float64) float64 {
			x := make([]float64, len(r.Model.Features))
			for k, feature := range r.Model.Features {
				switch feature.Name {
				case "cpu_utilization":
					x[k] = u
				case "cpu_cycles":
					x[k] = u * 2e10
				case "llc_misses":
					x[k] = u * 0.5e8
				}
			}
			return r.Model.Predict(x).Watts
		}
		if half, full := at(0.5), at(1); full < half+25 {
			t.Errorf("%s: %.0f W at half load, %.0f W at full, where the law has 50 W more", f, half, full)
		}
	}
}

// TestFourPoints: four readings of a server outside the prior's data yield its whole curve.
func TestFourPoints(t *testing.T) {
	u := []float64{0, 0.1, 0.5, 1}
	y := []float64{49.4, 113, 198, 454} // a published shape: steep, flat, steep
	r := fit(t, Data{Features: []Column{{Name: "cpu_utilization", Unit: "ratio", Values: u}}, Watts: y}, Options{})
	p, err := DefaultPrior()
	if err != nil {
		t.Fatal(err)
	}
	c, err := FitCurve(p, Curve{Load: u, Watts: y})
	if err != nil {
		t.Fatal(err)
	}
	for i := range u {
		if math.Abs(c.At(u[i])/y[i]-1) > 0.02 {
			t.Errorf("at %g: %.1f W, measured %.1f", u[i], c.At(u[i]), y[i])
		}
	}
	if v := c.At(0.75); v < 230 || v > 340 {
		t.Errorf("at 0.75: %.1f W", v)
	}
	if r.Protocol != ByLevel || r.Chosen != CurveFam {
		t.Errorf("%s by %s", r.Chosen, r.Protocol)
	}
	for _, bad := range []Curve{{}, {Load: []float64{2}, Watts: []float64{1}}, {Load: []float64{0}, Watts: []float64{0}}, {Load: []float64{0}}} {
		if _, err := FitCurve(p, bad); !errors.Is(err, ErrData) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestNNLSOptimal compares NNLS with brute force over all sets of active columns.
func TestNNLSOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		g := newNormalEquations(n)
		for range 12 {
			x := make([]float64, n)
			for j := range x {
				x[j] = rapid.Float64Range(-1, 1).Draw(t, "x")
			}
			g.addRow(x, rapid.Float64Range(-5, 5).Draw(t, "y"), 1)
		}
		g.fillLower()
		got := g.loss(g.nnls())
		best := g.loss(make([]float64, n))
		for mask := 1; mask < 1<<n; mask++ {
			var set []int
			for j := range n {
				if mask>>j&1 == 1 {
					set = append(set, j)
				}
			}
			s, err := g.solve(set, ridge)
			if err != nil || slices.Min(s) < 0 {
				continue
			}
			v := make([]float64, n)
			for k, j := range set {
				v[j] = s[k]
			}
			best = min(best, g.loss(v))
		}
		if got > best+1e-3*max(1, best) {
			t.Fatalf("loss %g, best %g", got, best)
		}
	})
}

func readServer(t testing.TB) Data {
	f, err := os.Open("testdata/server.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	col := func(factor float64, names ...string) []float64 {
		out := make([]float64, len(rows)-1)
		for _, n := range names {
			c := slices.Index(rows[0], n)
			for i, r := range rows[1:] {
				v, err := strconv.ParseFloat(r[c], 64)
				if err != nil {
					t.Fatal(err)
				}
				out[i] += v * factor
			}
		}
		return out
	}
	d := Data{Watts: col(1, "powerWatts"), Features: []Column{
		{Name: "cpu_utilization", Unit: "ratio", Values: col(0.01, "cpu_user", "cpu_nice", "cpu_system", "cpu_intr", "cpu_sintr")},
		{Name: "cpu_cycles", Unit: "1/s", Values: col(1, "cpu-cycles")}, {Name: "cpu_instructions", Unit: "1/s", Values: col(1, "instructions")},
		{Name: "llc_misses", Unit: "1/s", Values: col(1, "LLC-load-misses")},
		{Name: "disk_bytes", Unit: "B/s", Values: col(1, "bytes_read", "bytes_written")}, {Name: "network_bytes", Unit: "B/s", Values: col(1, "bytes_in", "bytes_out")}}}
	for _, r := range rows[1:] {
		d.Workload = append(d.Workload, r[0])
	}
	return d
}

// TestRealServer uses a real server; each workload is left out in turn, with nested selection. The choice
// is never behind a line and a root of utilisation.
func TestRealServer(t *testing.T) {
	r, err := Validate(readServer(t), Options{Families: []string{Root, CurveFam, Additive}})
	if err != nil {
		t.Fatal(err)
	}
	root, err := Validate(readServer(t), Options{Families: []string{Root}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("mean %.4f, worst %.4f, baseline %.4f, chosen %v", r.Score.MAPE, r.Score.Worst, r.Baseline.MAPE, r.Chosen)
	if r.Protocol != ByWorkload || len(r.Folds) != 10 {
		t.Fatalf("%s over %d folds", r.Protocol, len(r.Folds))
	}
	if r.Score.MAPE > 0.055 || r.Score.Worst > root.Score.Worst+0.003 || r.Score.MAPE > root.Score.MAPE-0.01 || r.Baseline.MAPE < 0.1 {
		t.Errorf("error %.4f, worst %.4f, of a root %.4f and %.4f, baseline %.4f", r.Score.MAPE, r.Score.Worst, root.Score.MAPE,
			root.Score.Worst, r.Baseline.MAPE)
	}
}

func TestEvaluateReplay(t *testing.T) {
	d := recording(4, 50, 8, func(u, c, _ float64) float64 { return 60 + 30*u + 10*c })
	r := fit(t, d, Options{Families: []string{Additive}})
	s, err := Evaluate(r.Model, d)
	if err != nil || s.Points != 200 || s.MAPE > 0.01 {
		t.Errorf("%+v, %v", s, err)
	}
	d.Features = d.Features[:1]
	if _, err := Evaluate(r.Model, d); !errors.Is(err, powermodel.ErrFeature) {
		t.Errorf("%v, want the missing feature", err)
	}
}

func ExampleFit() {
	// Four readings of a wall meter at known loads.
	r, err := Fit(Data{
		Features: []Column{{Name: "cpu_utilization", Unit: "ratio", Values: []float64{0, 0.1, 0.5, 1}}},
		Watts:    []float64{60, 100, 150, 240},
	}, Options{Name: "my server"})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := r.Model.Predict([]float64{0.75})
	fmt.Printf("%s: %.0f W at 75 %%\n", r.Chosen, p.Watts)
	// Output: curve: 189 W at 75 %
}

func BenchmarkFitServer(b *testing.B) {
	d := readServer(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Fit(d, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTrendBeyondTrees: within the observed range the trend under trees adds nothing; beyond its edges it follows the
// trend.
func TestTrendBeyondTrees(t *testing.T) {
	tab := &table{x: [][]float64{{0.2, 0.6}}, y: []float64{1, 1}, base: 1,
		feats: []powermodel.Feature{{Name: "cpu_utilization", Min: 0.2, Max: 0.6}}}
	trend := powermodel.Part{Kind: powermodel.KindTerms, Weight: 1, Base: 40, Terms: []powermodel.Term{
		{Feature: 0, Shape: powermodel.ShapeLinear, Scale: 0.6, Watts: 30},
		{Feature: 0, Shape: powermodel.ShapePower, Exponent: 0.5, Scale: 0.6, Watts: 20},
	}}
	law := func(u float64) float64 { return 30*u/0.6 + 20*math.Sqrt(u/0.6) }
	part := extrapolate(tab, &trend)
	part.Base += 100 // a model is never below zero
	m := modelOfParts(tab, part)
	for _, c := range []struct{ u, want, within float64 }{
		{0.2, 0, 1e-9}, {0.35, 0, 1e-9}, {0.6, 0, 1e-9},
		{0, law(0) - law(0.2), 1e-9}, {0.1, law(0.1) - law(0.2), 1.5}, {0.19, law(0.19) - law(0.2), 0.2},
		{0.61, law(0.61) - law(0.6), 0.1}, {0.8, law(0.8) - law(0.6), 0.5}, {1.0, law(1) - law(0.6), 0.5},
	} {
		if got := m.Predict([]float64{c.u}).Watts - 100; math.Abs(got-c.want) > c.within {
			t.Errorf("at %g: %.3f W, want %.3f within %g", c.u, got, c.want, c.within)
		}
	}
}

// loss returns the weighted sum of squares for coefficients v.
func (g *normalEquations) loss(v []float64) float64 {
	s := g.c
	for i, vi := range v {
		s -= 2 * vi * g.b[i]
		for j, vj := range v {
			s += vi * vj * g.a[i*g.n+j]
		}
	}
	return max(s, 0)
}
