package feature_test

import (
	"math"
	"strings"
	"testing"

	"reckon/account/attribution/feature"
	"reckon/metric"
)

func desc(name string, kind metric.Kind, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Kind: kind, Labels: labels}
}

var (
	reads  = desc("node_disk_read_bytes_total", metric.Counter, "device")
	writes = desc("node_disk_written_bytes_total", metric.Counter, "device")
	clock  = desc("reckon_gpu_clock_hertz", metric.Gauge, "device", "clock")
	busy   = desc("reckon_gpu_busy_seconds_total", metric.Counter, "device")
	free   = desc("node_memory_MemAvailable_bytes", metric.Gauge)
	whole  = desc("node_memory_MemTotal_bytes", metric.Gauge)
)

// run feeds readings to a feature. A step is one reading: values by series, NaN for a missing one.
func run(t *testing.T, name, source string, series []*metric.Series, steps [][]float64) (values []float64, known []bool) {
	t.Helper()
	f, err := feature.Find(name, source)
	if err != nil {
		t.Fatal(err)
	}
	l := feature.NewLive(f)
	for i, step := range steps {
		var b metric.Batch
		for k, v := range step {
			if !math.IsNaN(v) {
				b.Add(series[k], v)
			}
		}
		l.Observe(float64(100+2*i), b.Samples)
		v, ok := l.Value()
		values, known = append(values, v), append(known, ok)
	}
	return values, known
}

func TestLive(t *testing.T) {
	gone := math.NaN()
	disks := []*metric.Series{metric.NewSeries(reads, "sda"), metric.NewSeries(writes, "sda"), metric.NewSeries(reads, "dm-0"), metric.NewSeries(busy, "x")}
	gpus := []*metric.Series{metric.NewSeries(busy, "a"), metric.NewSeries(busy, "b"), metric.NewSeries(clock, "a", "graphics"), metric.NewSeries(clock, "a", "memory"), metric.NewSeries(clock, "b", "graphics")}
	memory := []*metric.Series{metric.NewSeries(free), metric.NewSeries(whole)}
	for name, c := range map[string]struct {
		feature, source string
		series          []*metric.Series
		steps           [][]float64
		want            []float64 // NaN: unknown
	}{
		"disks, and not what lies on them": {"disk_bytes", "", disks, [][]float64{{0, 100, 0, 0}, {200, 300, 1000, 1}, {200, 300, 1000, 1}}, []float64{gone, 200, 0}},
		"a counter that starts again":      {"disk_read_bytes", "", disks, [][]float64{{500}, {40}}, []float64{gone, 20}},
		"a device that is away":            {"gpu_utilization", "", gpus, [][]float64{{0, 0}, {1, gone}, {2, 50}, {3, 51}}, []float64{gone, 0.5, 0.5, 1}},
		"product":                          {"gpu_cycles", "", gpus, [][]float64{{0, 0, 1e9, 5e9, 2e9}, {1, 1, 1e9, 5e9, 2e9}}, []float64{gone, 1.5e9}},
		"product without its clock":        {"gpu_cycles", "", gpus, [][]float64{{0, 0}, {1, 1}}, []float64{gone, gone}},
		"quotient":                         {"memory_free", "", memory, [][]float64{{1, 4}, {2, 0}}, []float64{0.25, gone}},
		"bare name of a counter":           {"node_disk_read_bytes_total", "", disks, [][]float64{{0, 0, 0}, {10, 0, 30}}, []float64{gone, 20}},
		"bare name of a gauge":             {"node_memory_MemTotal_bytes", "", memory, [][]float64{{1, 4}}, []float64{4}},
		"expression":                       {"root", `avg(rate(node_disk_read_bytes_total{device=~"sd.*",node="n1"}[4s])) * 3`, nil, nil, nil},
		"expression of a plan":             {"root", `sum(rate(node_disk_read_bytes_total{device=~"sd.*|nvme.*",node="n1"}[4s]))`, disks, [][]float64{{0, 0, 0}, {10, 0, 30}}, []float64{gone, 5}},
		"never here":                       {"site_strokes_total", "", disks, [][]float64{{1, 1, 1, 1}, {2, 2, 2, 2}}, []float64{gone, gone}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.steps == nil {
				if _, err := feature.Find(c.feature, c.source); err == nil || !strings.Contains(err.Error(), "read live") {
					t.Errorf("%v, want a refusal that says what is possible", err)
				}
				return
			}
			got, known := run(t, c.feature, c.source, c.series, c.steps)
			for i, w := range c.want {
				if known[i] == math.IsNaN(w) || known[i] && math.Abs(got[i]-w) > 1e-9*math.Abs(w) {
					t.Errorf("reading %d: %g, known %v, want %g", i+1, got[i], known[i], w)
				}
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, expr := range []string{"", "a b", "sum(", "rate(a)", "max(a)", `sum(rate(a{b=~"(x|y)z"}[5m]))`, "a + b", "a * ", `a{b="c"`, "sum by (x) (a)", "1"} {
		if f, err := feature.Parse(expr); err == nil {
			t.Errorf("%q is taken as %+v", expr, f)
		}
	}
}

// The queries of the registry parse back to the same factors, so data sets and agents
// compute the same figures.
func TestPromQL(t *testing.T) {
	for _, f := range feature.All() {
		q := f.PromQL()
		if !strings.Contains(q, "NODE") || f.Expr == "" && strings.Contains(q, "rate(") != strings.Contains(q, "[WINDOW]") {
			t.Errorf("%s asks %s", f.Name, q)
		}
		if f.Expr != "" || strings.Contains(q, " + ") {
			continue
		}
		back, err := feature.Parse(q)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		again := feature.Feature{Name: f.Name, Factors: back}
		if got := again.PromQL(); got != q {
			t.Errorf("%s asks\n%s\nand reads back as\n%s", f.Name, q, got)
		}
	}
}
