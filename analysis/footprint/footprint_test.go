package footprint

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestConstant(t *testing.T) {
	for text, want := range map[string]struct {
		value float64
		unit  string
	}{"385": {385, "g"}, "385 g/kWh": {385, "g"}, "0.28EUR": {0.28, "EUR"}, " 0.28 EUR/kWh ": {0.28, "EUR"}, "0": {0, "g"}} {
		r, err := ParseConstant(text, "g")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if v, ok := r.At(noon); !ok || v != want.value || r.Unit != want.unit || !r.Constant() {
			t.Errorf("%q: %v %s", text, v, r.Unit)
		}
	}
	for _, text := range []string{"", "EUR", "-3", "NaN", "1e999", "0.28"} {
		if _, err := ParseConstant(text, ""); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if g, _ := Constant(400, "g").Of(7.2e6, noon, noon.Add(time.Hour)); g != 800 {
		t.Errorf("2 kWh at 400 g/kWh: %v g", g)
	}
}

func TestSteps(t *testing.T) {
	for name, text := range map[string]string{
		"plain":     "2026-11-21T12:00:00Z,100\n2026-11-21T13:00:00Z,300\n",
		"unsorted":  "time,value\n2026-11-21 13:00,300\n2026-11-21 12:00,100\n2026-11-21 13:00,300\n",
		"grid data": "Datetime (UTC),Country,Zone id,Carbon intensity gCO2eq/kWh (direct),Carbon-free %\n2026-11-21 12:00:00,X,Y,100,3\n2026-11-21 13:00:00,X,Y,300,4\n",
		"unix, gap": "# comment\nat,g_per_kWh\n1795262400,100\n1795264200,\n1795266000,300\n",
	} {
		r, err := ReadSteps(strings.NewReader(text), "g")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for from, want := range map[int]float64{0: 100, 30: 200, 60: 300, 90: 300} { // minutes after noon, for an hour
			at := noon.Add(time.Duration(from) * time.Minute)
			if v, ok := r.Mean(at, at.Add(time.Hour)); !ok || math.Abs(v-want) > 1e-9 {
				t.Errorf("%s: from %d min: %v, want %v", name, from, v, want)
			}
		}
		if _, ok := r.Mean(noon.Add(-time.Hour), noon); ok {
			t.Errorf("%s: a value before the first", name)
		}
	}
	r, err := ReadSteps(strings.NewReader("time,price (EUR/kWh)\n2026-11-21,-0.02\n"), "")
	if v, ok := r.At(noon); err != nil || !ok || v != -0.02 || r.Unit != "EUR" {
		t.Errorf("a negative price: %v %v", v, err)
	}
	for name, c := range map[string][2]string{
		"empty":      {"", "empty"},
		"one column": {"time\n", "one column"},
		"no rows":    {"time,value\n", "no line"},
		"text":       {"time,value\n2026-11-21,cheap\n", `line 2: "cheap"`},
		"not finite": {"time,value\n2026-11-21,NaN\n", "line 2"},
		"bad time":   {"time,value\nyesterday,3\n", `line 2: "yesterday" is not a time`},
		"two values": {"2026-11-21,1\n2026-11-21,2\n", "two values"},
		"short row":  {"time,zone,value\n2026-11-21,x\n", "line 2 has 2 columns"},
	} {
		if _, err := ReadSteps(strings.NewReader(c[0]), "g"); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", name, err, c[1])
		}
	}
	if _, err := ReadSteps(strings.NewReader("time,value\n2026-11-21,1\n"), ""); err == nil || !strings.Contains(err.Error(), "currency") {
		t.Errorf("no currency: %v", err)
	}
}

// TestMeanAddsUp: the amounts of two halves add up to the amount of the whole interval.
func TestMeanAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Rate{Unit: "g"}
		at := noon
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			r.steps = append(r.steps, rateStep{at, rapid.Float64Range(0, 900).Draw(t, "v")})
			at = at.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "d")) * time.Second)
		}
		a := noon.Add(time.Duration(rapid.IntRange(0, 50000).Draw(t, "a")) * time.Second)
		b := a.Add(time.Duration(rapid.IntRange(1, 50000).Draw(t, "b")) * time.Second)
		c := b.Add(time.Duration(rapid.IntRange(1, 50000).Draw(t, "c")) * time.Second)
		of := func(x, y time.Time) float64 {
			v, _ := r.Of(100*y.Sub(x).Seconds(), x, y)
			return v
		}
		if d := of(a, b) + of(b, c) - of(a, c); math.Abs(d) > 1e-6 {
			t.Fatalf("halves differ from the whole by %g", d)
		}
	})
}

func FuzzReadSteps(f *testing.F) {
	f.Add("time,value\n2026-11-21,1\n")
	f.Add("1795262400,100\n")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ReadSteps(strings.NewReader(s), "g")
		if err != nil {
			return
		}
		if v, _ := r.Mean(noon, noon.Add(time.Hour)); math.IsNaN(v) {
			t.Fatalf("%q: not a number", s)
		}
	})
}
