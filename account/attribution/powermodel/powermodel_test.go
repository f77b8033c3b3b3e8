package powermodel

import (
	"bytes"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sample has a part of every kind.
func sample() *Model {
	return &Model{Format: Format, Version: Version, Name: `sample [1, 2] "x"`, Domain: "node", StepSeconds: 5,
		Machine:  Machine{Arch: "amd64", CPU: "Intel(R) Xeon(R) CPU E5-2640 0 @ 2.50GHz", Threads: 24},
		Features: []Feature{{Name: "cpu_utilization", Max: 1}, {Name: "network_bytes", Max: 1e9}, {Name: "cpu_utilization", Max: 1, Lag: 2}},
		Parts: []Part{
			{Kind: KindTerms, Weight: 0.5, Base: 100, Terms: []Term{
				{Feature: 0, Shape: ShapeLinear, Scale: 1, Watts: 80},
				{Feature: 0, Shape: ShapePower, Scale: 1, Exponent: 0.5, Watts: 20},
				{Feature: 1, Shape: ShapeRamp, Scale: 1e9, From: 0, To: 1, Watts: 10}}},
			{Kind: KindCurve, Weight: 0.25, Curve: NewCurve(0, []float64{0, 0.5, 1}, []float64{100, 160, 200})},
			{Kind: KindTrees, Weight: 0.25, Base: 100, Trees: &Trees{Roots: []int{0}, Feature: []int{2, 0, 0},
				Split: []float64{0.3, 0, 0}, Left: []int{1, 0, 0}, Right: []int{2, 0, 0}, Value: []float64{5, -10, 40}}}},
		Band: Band{Coverage: 0.9, Low: 0.9, High: 1.2, Points: 100}}
}

func TestPredict(t *testing.T) {
	m := sample()
	p := m.Predict([]float64{0.25, 2e9, 0.9})
	// terms 100+20+10+10, curve at 0.25, tree 140
	want := 0.5*140 + 0.25*m.Parts[1].Curve.At(0.25) + 0.25*140
	if math.Abs(p.Watts-want) > 1e-9 || p.Low != 0.9*p.Watts || p.High != 1.2*p.Watts {
		t.Errorf("%+v, want %g", p, want)
	}
	if p.Outside != 1 || p.Furthest != 1 {
		t.Errorf("outside %d, furthest %d, want 1 and 1", p.Outside, p.Furthest)
	}
	for _, x := range [][]float64{{math.NaN(), 0, 0}, {0}, nil} {
		if p := m.Predict(x); p.Missing == 0 || !math.IsNaN(p.Watts) {
			t.Errorf("%v: %+v, want missing and no figure", x, p)
		}
	}
}

func TestExplainSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := sample()
		x := []float64{rapid.Float64Range(0, 1).Draw(t, "u"), rapid.Float64Range(0, 2e9).Draw(t, "net"), rapid.Float64Range(0, 1).Draw(t, "lag")}
		w := make([]float64, 3)
		sum := m.Explain(x, w)
		for _, v := range w {
			sum += v
		}
		if p := m.Predict(x); math.Abs(sum-p.Watts) > 1e-9 {
			t.Fatalf("parts sum to %g, prediction is %g", sum, p.Watts)
		}
	})
}

// A curve through rising points rises everywhere, between them too, and passes through them.
func TestCurveMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "n")
		x, y := []float64{0}, []float64{rapid.Float64Range(0, 100).Draw(t, "y0")}
		for i := 1; i < n; i++ {
			x = append(x, x[i-1]+rapid.Float64Range(0.01, 1).Draw(t, "dx"))
			y = append(y, y[i-1]+rapid.Float64Range(0, 50).Draw(t, "dy"))
		}
		c := NewCurve(0, x, y)
		for i := range x {
			if math.Abs(c.At(x[i])-y[i]) > 1e-9 {
				t.Fatalf("at %g: %g, want %g", x[i], c.At(x[i]), y[i])
			}
		}
		last := math.Inf(-1)
		for k := range 400 {
			v := c.At(x[n-1] * float64(k) / 399)
			if v < last-1e-9 {
				t.Fatalf("falls from %g to %g", last, v)
			}
			last = v
		}
	})
}

func TestRoundTrip(t *testing.T) {
	var a, b bytes.Buffer
	if err := sample().Write(&a); err != nil {
		t.Fatal(err)
	}
	m, err := Read(bytes.NewReader(a.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m, sample()) {
		t.Errorf("read back %+v", m)
	}
	if err := m.Write(&b); err != nil || a.String() != b.String() {
		t.Errorf("second writing differs (%v)", err)
	}
	if !strings.Contains(a.String(), `"value": [5,-10,40]`) || !strings.Contains(a.String(), `[1, 2]`) {
		t.Error(a.String())
	}
}

func TestReadRefuses(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		t.Fatal(err)
	}
	good := b.String()
	for _, c := range []struct {
		old, new, want string
		is             error
	}{
		{`"version": 2`, `"version": 3`, "version 3, this program reads up to 2", ErrNewer},
		{`"version": 2`, `"version": 3, "novelty": {}`, "update reckon", ErrNewer},
		{Format, "prometheus", `format is "prometheus"`, ErrNotModel},
		{`"base_watts": 100`, `"base_watts": NaN`, "NaN is not a number", ErrNotModel},
		{`"domain"`, `"domian"`, "domian", ErrNotModel},
		{`"shape": "ramp"`, `"shape": "spline"`, `unknown shape "spline"`, nil},
		{`"left": [1,0,0]`, `"left": [0,1,0]`, "tree node 1", nil},
		{`"left": [1,0,0]`, `"left": [9,0,0]`, "children 9 and 2", nil},
		{`"x": [0,0.5,1]`, `"x": [0,0.5,0.5]`, "does not lie right", nil},
		{`"kind": "curve"`, `"kind": "forest"`, `kind "forest"`, nil},
		{`"step_seconds": 5`, `"step_seconds": 0`, "no step_seconds", nil},
	} {
		in := strings.Replace(good, c.old, c.new, 1)
		if in == good {
			t.Fatalf("%q does not occur in the file", c.old)
		}
		_, err := Read(strings.NewReader(in))
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s -> %s: %v, want %q", c.old, c.new, err, c.want)
		}
	}
}

func TestFits(t *testing.T) {
	m := sample()
	if err := m.Fits(Machine{Arch: "amd64", CPU: "Intel Xeon E5-2640 0"}); err != nil {
		t.Error(err)
	}
	err := m.Fits(Machine{Arch: "arm64", CPU: "Intel Xeon E5-2640 0", Threads: 12})
	if !errors.Is(err, ErrMachine) || !strings.Contains(err.Error(), `arch "amd64", here "arm64"`) || !strings.Contains(err.Error(), "threads 24, here 12") {
		t.Error(err)
	}
}

func TestTracker(t *testing.T) {
	m := sample()
	if _, err := NewTracker(m, []string{"cpu_utilization", "gpu"}); !errors.Is(err, ErrFeature) || !strings.Contains(err.Error(), "network_bytes") {
		t.Errorf("%v, want the missing feature named", err)
	}
	tr, err := NewTracker(m, []string{"network_bytes", "other", "cpu_utilization"})
	if err != nil {
		t.Fatal(err)
	}
	in := [][]float64{{0, 9, 0.1}, {0, 9, 0.5}, {0, 9, 0.9}, {0, 9, 0.2}}
	lagged := []float64{0.1, 0.1, 0.1, 0.5}
	for i, v := range in {
		if got, want := tr.Observe(v), m.Predict([]float64{v[2], v[0], lagged[i]}); got != want {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
	}
	tr.Reset()
	if got, want := tr.Observe(in[2]), m.Predict([]float64{0.9, 0, 0.9}); got != want {
		t.Errorf("after reset: %+v, want %+v", got, want)
	}
	w := make([]float64, 3)
	if n := testing.AllocsPerRun(100, func() { tr.Observe(in[0]); tr.Explain(w) }); n != 0 {
		t.Errorf("%g allocations per prediction, want 0", n)
	}
}

func TestFamilyOf(t *testing.T) {
	for cpu, want := range map[string]string{
		"Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz":  "Intel Xeon Scalable 1",
		"Intel Xeon Platinum 8280":                  "Intel Xeon Scalable 2",
		"Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz": "Intel Xeon v3",
		"Intel Xeon E5-2660":                        "Intel Xeon E3/E5/E7",
		"Intel Xeon X5670":                          "Intel Xeon 3400/5500/5600",
		"AMD EPYC 7742":                             "AMD EPYC 7002",
		"AMD EPYC 7742 64-Core Processor":           "AMD EPYC 7002",
		"AMD EPYC 7F53":                             "AMD EPYC 7003",
		"Something else":                            AnyFamily,
	} {
		if got := FamilyOf(cpu); got != want {
			t.Errorf("%s: %s, want %s", cpu, got, want)
		}
	}
}

// A dual-socket server of 2017 with 56 cores draws some 450 W under full load: an
// order-of-magnitude check of the embedded table, and of the curve being increasing and
// stating its error.
func TestBuiltin(t *testing.T) {
	m, err := Builtin(Machine{Arch: "amd64", CPU: "Intel Xeon Platinum 8176", Cores: 56, Sockets: 2, Memory: 192 << 30})
	if err != nil {
		t.Fatal(err)
	}
	idle, full := m.Predict([]float64{0}), m.Predict([]float64{1})
	if full.Watts < 300 || full.Watts > 600 || idle.Watts < 30 || idle.Watts > 150 {
		t.Errorf("idle %g W, full %g W", idle.Watts, full.Watts)
	}
	if e := m.Training.Score.MAPE; e < 0.05 || e > 0.5 || full.Low >= full.Watts || full.High <= full.Watts {
		t.Errorf("error %g, band %g..%g", e, full.Low, full.High)
	}
	for _, bad := range []Machine{{}, {Cores: 4, Sockets: 1, Memory: 1 << 30, Arch: "arm64"}} {
		if _, err := Builtin(bad); !errors.Is(err, ErrNoFamily) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	f, err := BuiltinFamilies()
	if err != nil {
		t.Fatal(err)
	}
	for _, fam := range f.Families {
		if fam.Systems < 6 || fam.Error <= 0 {
			t.Errorf("%s rests on %d systems with an error of %g", fam.Name, fam.Systems, fam.Error)
		}
		for i := 1; i < len(fam.Shape); i++ {
			if fam.Shape[i] <= fam.Shape[i-1] {
				t.Errorf("%s falls at load %g", fam.Name, f.Load[i])
			}
		}
	}
}

// No watts are invented: a virtual machine would get the idle power of a whole server, and
// a processor of no family, such as a mini PC's, is off by 70 % on average.
func TestBuiltinRefuses(t *testing.T) {
	scalable := Machine{Arch: "amd64", CPU: "Intel Xeon Platinum 8176", Cores: 56, Sockets: 2, Memory: 192 << 30}
	f, err := BuiltinFamilies()
	if err != nil {
		t.Fatal(err)
	}
	fam := f.find("Intel Xeon Scalable 1")
	with := func(change func(*Machine)) Machine { m := scalable; change(&m); return m }
	most := fam.MostMemory * memoryFactor * (1 << 30)
	for name, c := range map[string]struct {
		machine Machine
		want    error
	}{
		"server":            {scalable, nil},
		"virtual":           {with(func(m *Machine) { m.Virtual = "KVM" }), ErrVirtual},
		"mini PC":           {Machine{Arch: "amd64", CPU: "Intel(R) N100", Cores: 4, Sockets: 1, Memory: 8 << 30}, ErrNoFamily},
		"family too small":  {with(func(m *Machine) { m.CPU = "AMD EPYC 7551" }), ErrNoFamily},
		"half the cores":    {with(func(m *Machine) { m.Cores = (fam.Cores[0] + 1) / 2 }), nil},
		"fewer":             {with(func(m *Machine) { m.Cores = (fam.Cores[0]+1)/2 - 1 }), ErrNoFamily},
		"twice the cores":   {with(func(m *Machine) { m.Cores = 2 * fam.Cores[1] }), nil},
		"more":              {with(func(m *Machine) { m.Cores = 2*fam.Cores[1] + 1 }), ErrNoFamily},
		"memory at the end": {with(func(m *Machine) { m.Memory = most }), nil},
		"memory beyond":     {with(func(m *Machine) { m.Memory = most + 1<<30 }), ErrNoFamily},
	} {
		if _, err := Builtin(c.machine); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	m, err := BuiltinOf(AnyFamily, Machine{CPU: "Something else", Cores: 32, Sockets: 2, Memory: 64 << 30})
	if err != nil || m.Training.Score.MAPE < 0.5 {
		t.Errorf("any server by its name: %v, error %v; that of systems of no family is about 0.7", err, m.Training.Score.MAPE)
	}
	if _, err := BuiltinOf("no such", scalable); !errors.Is(err, ErrNoFamily) || !strings.Contains(err.Error(), "AMD EPYC 7003") {
		t.Errorf("%v, want the families named", err)
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := Read(bytes.NewReader(p))
		if err != nil {
			return
		}
		x := make([]float64, len(m.Features))
		m.Predict(x)
		m.Explain(x, make([]float64, len(x)))
		if err := m.Write(&bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkPredict(b *testing.B) {
	m := sample()
	x := []float64{0.5, 1e6, 0.4}
	b.ReportAllocs()
	for b.Loop() {
		m.Predict(x)
	}
}

// TestEarlierFamilies: models of families that are fitted no more are read and predict as before. The files are of the program before
// version 1. It fitted 400 rows of 60 + 80 u + 20 sqrt u + 15 m watts, with noise of 1 W; nnls has m.
func TestEarlierFamilies(t *testing.T) {
	for family, worst := range map[string]float64{"fan": 0.05, "linear": 0.05, "piecewise": 0.05, "power": 0.05, "nnls": 0.02, "root": 0.05, "curve": 0.05} {
		f, err := os.Open("testdata/earlier-" + family + ".json")
		if err != nil {
			t.Fatal(err)
		}
		m, err := Read(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Errorf("%s: %v", family, err)
			continue
		}
		if m.Training.Family != family {
			t.Errorf("the model of %s has the family %s", family, m.Training.Family)
		}
		for _, u := range []float64{0.1, 0.5, 0.9} {
			x := make([]float64, len(m.Features))
			for i, feature := range m.Features {
				x[i] = map[string]float64{"cpu_utilization": u, "memory_controller_load": u / 2}[feature.Name]
			}
			if want, got := 60+80*u+20*math.Sqrt(u)+7.5*u, m.Predict(x).Watts; math.Abs(got/want-1) > worst {
				t.Errorf("%s at %g: %g W, want %g", family, u, got, want)
			}
		}
	}
}
