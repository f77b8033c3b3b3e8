package dataset

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"reckon/metric"
)

func lab(nv ...string) (out []Label) {
	for i := 0; i < len(nv); i += 2 {
		out = append(out, Label{nv[i], nv[i+1]})
	}
	return out
}

func same(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.IsNaN(a[i]) != math.IsNaN(b[i]) || !math.IsNaN(a[i]) && math.Abs(a[i]-b[i]) > 1e-9*max(1, math.Abs(a[i])) {
			return false
		}
	}
	return true
}

func TestJoin(t *testing.T) {
	nan := math.NaN()
	series := []Series{
		{Name: "cpu_seconds_total", Kind: metric.Counter, Unit: metric.Seconds, Labels: lab("workload", "a", "mode", "user"),
			Points: []Point{{0, 10}, {1000, 12}, {2000, 14}, {3000, 1}, {4000, 2}}}, // reset at 3 s
		{Name: "power_watts", Kind: metric.Gauge, Labels: lab("workload", "a"),
			Points: []Point{{1000, 100}, {1500, 102}, {2000, 104}, {4000, 90}}},
		{Name: "power_watts", Kind: metric.Gauge, Labels: lab("workload", "b"), Points: []Point{{3000, 7}}},
		{Name: "nothing", Kind: metric.Gauge},
	}
	f, warn, err := Join(series, Grid{Start: 1000, End: 4000, Step: 1000, By: []string{"workload"}, Gap: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if f.Rows() != 8 || len(warn) != 1 || !strings.Contains(warn[0], "nothing has no samples") {
		t.Fatalf("%d rows, warnings %q", f.Rows(), warn)
	}
	rate := f.Column(`cpu_seconds_per_second{mode="user"}`)
	if rate == nil || rate.Unit != "seconds/second" || !rate.Rate {
		t.Fatalf("columns %+v", f.Columns)
	}
	if want := []float64{2, 2, 1, 1, nan, nan, nan, nan}; !same(rate.Values, want) {
		t.Errorf("rate %v, want %v", rate.Values, want)
	}
	if want := []float64{100, 103, 104, 90, nan, nan, 7, 7}; !same(f.Column("power_watts").Values, want) {
		t.Errorf("power %v, want %v", f.Column("power_watts").Values, want)
	}
}

func TestRateGap(t *testing.T) {
	s := []Series{{Name: "c_total", Kind: metric.Counter, Points: []Point{{0, 0}, {1000, 1}, {9000, 9}, {10000, 10}}}}
	f, _, err := Join(s, Grid{Start: 1000, End: 10000, Step: 1000, Gap: 2000})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range f.Columns[0].Values {
		if known := i == 0 || i == 9; known != !math.IsNaN(v) {
			t.Errorf("step %d: %g", i+1, v)
		}
	}
}

// The rates of a counter, times the steps, sum to its increase, wherever it was reset
// and whatever the alignment of samples and grid.
func TestRateConserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "n")
		var ps []Point
		var at int64
		value, rise := 0.0, 0.0
		for i := range n {
			ps = append(ps, Point{at, value})
			if i == n-1 {
				break
			}
			at += int64(rapid.IntRange(1, 5000).Draw(t, "dt"))
			d := float64(rapid.IntRange(0, 100).Draw(t, "dv"))
			if value > d && rapid.Bool().Draw(t, "reset") {
				value = 0
			}
			value += d
			rise += d
		}
		// The grid covers the samples exactly when the span is a multiple of the step.
		last := ps[len(ps)-1].T
		f, _, err := Join([]Series{{Name: "c", Kind: metric.Counter, Points: ps}}, Grid{Start: last, End: last, Step: last, Gap: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Columns[0].Values[0] * float64(last) / 1000; math.Abs(got-rise) > 1e-6*max(1, rise) {
			t.Fatalf("sum of rates %g, rise %g", got, rise)
		}
	})
}

func sample() *Frame {
	return &Frame{Time: []int64{1000, 2500, 1000}, StepSeconds: 1.5,
		Labels: []LabelColumn{{"workload", []string{"a", "a", "b,\"x\"\nö"}}},
		Columns: []Column{
			{Name: "watts", Unit: "watts", Help: "power | of the node", Values: []float64{100.25, math.NaN(), 1e-9}},
			{Name: "cpu", Unit: "ratio", Source: "cpu_total", Rate: true, Values: []float64{0, 0.5, math.NaN()}}}}
}

func TestRoundTrip(t *testing.T) {
	for _, format := range []string{"csv", "parquet"} {
		var b bytes.Buffer
		var got *Frame
		var err error
		if format == "csv" {
			if err = sample().WriteCSV(&b); err == nil {
				got, _, err = ReadCSV(&b)
			}
		} else if err = sample().WriteParquet(&b); err == nil {
			got, err = ReadParquet(bytes.NewReader(b.Bytes()), int64(b.Len()))
		}
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		want := sample()
		if !reflect.DeepEqual(got.Time, want.Time) || !reflect.DeepEqual(got.Labels, want.Labels) {
			t.Errorf("%s: %+v", format, got)
		}
		for i, c := range want.Columns {
			if got.Columns[i].Name != c.Name || !same(got.Columns[i].Values, c.Values) {
				t.Errorf("%s: column %+v, want %+v", format, got.Columns[i], c)
			}
			if format == "parquet" && (got.Columns[i].Unit != c.Unit || got.Columns[i].Source != c.Source || got.Columns[i].Rate != c.Rate) {
				t.Errorf("parquet lost the description: %+v", got.Columns[i])
			}
		}
	}
}

func TestTidy(t *testing.T) {
	f := &Frame{Time: []int64{2, 1, 1, 3}, Labels: []LabelColumn{{"workload", []string{"a", "a", "a", "a"}}},
		Columns: []Column{{Name: "x", Values: []float64{20, 10, 11, 30}}, {Name: "flat", Values: []float64{1, 1, 1, 1}},
			{Name: "none", Values: []float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}}}}
	w := strings.Join(f.Tidy(), "\n")
	if !same(f.Columns[0].Values, []float64{10, 20, 30}) {
		t.Errorf("%v", f.Columns[0].Values)
	}
	for _, want := range []string{"timestamps not monotonic (1 times)", "1 rows repeat", "flat is constant", "none is empty", "only one workload"} {
		if !strings.Contains(w, want) {
			t.Errorf("no warning %q in\n%s", want, w)
		}
	}
}

func TestReadCSVBad(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "empty",
		"time,x\n":             "no rows",
		"time,x\nsoon,1\n":     "is no time",
		"time,x\n1,2\n1,2,3\n": "wrong number of fields",
		"time,x,x\n1,2,3\n":    "occurs twice",
		"time,\"x\n1,2\n":      "not a usable",
	} {
		if _, _, err := ReadCSV(strings.NewReader(in)); err == nil || !errors.Is(err, ErrData) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	f, w, err := ReadCSV(strings.NewReader("\ufeffx,name\n1,a\nNaN,b\n,c\n"))
	if err != nil || len(w) != 1 || !same(f.Columns[0].Values, []float64{1, math.NaN(), math.NaN()}) || f.Labels[0].Name != "name" {
		t.Errorf("%+v, %q, %v", f, w, err)
	}
}

func TestJoinBad(t *testing.T) {
	for _, g := range []Grid{{Step: 0}, {Step: 1, Start: 2, End: 1}, {Step: 1, End: 1 << 40}} {
		if _, _, err := Join([]Series{{Name: "a", Kind: metric.Gauge, Points: []Point{{0, 1}}}}, g); !errors.Is(err, ErrData) {
			t.Errorf("%+v: %v", g, err)
		}
	}
	s := Series{Name: "a", Kind: metric.Gauge, Points: []Point{{2, 2}, {1, math.NaN()}, {1, 1}, {1, 5}}}
	_, w, err := Join([]Series{s, s, {Name: "h", Kind: metric.NativeHistogram, Points: []Point{{0, 0}}}}, Grid{Step: 1, End: 2})
	all := strings.Join(w, "\n")
	for _, want := range []string{"sorted", "had already", "not numbers", "occurs twice", "distribution"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning %q in\n%s (%v)", want, all, err)
		}
	}
}

func TestDictionary(t *testing.T) {
	var j, m bytes.Buffer
	d := sample().Dictionary()
	if err := errors.Join(d.WriteJSON(&j), d.WriteMarkdown(&m)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"gaps": 1`, `"unit": "watts"`, `"distinct": 2`, `"start": "1970-01-01T00:00:01.000Z"`} {
		if !strings.Contains(j.String(), want) {
			t.Errorf("no %s in\n%s", want, &j)
		}
	}
	if !strings.Contains(m.String(), `power \| of the node`) || !strings.Contains(m.String(), "rate of cpu_total") {
		t.Error(m.String())
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add("time,x,name\n2026-01-01T00:00:00Z,1,a\n1700000000,,b\n")
	f.Add("x\n1\n")
	f.Fuzz(func(t *testing.T, s string) {
		frame, _, err := ReadCSV(strings.NewReader(s))
		if err != nil {
			return
		}
		frame.Tidy()
		if err := frame.checkShape(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzReadParquet(f *testing.F) {
	var b bytes.Buffer
	if err := sample().WriteParquet(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, p []byte) {
		if frame, err := ReadParquet(bytes.NewReader(p), int64(len(p))); err == nil {
			if err := frame.checkShape(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
