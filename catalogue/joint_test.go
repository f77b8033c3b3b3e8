package catalogue

import (
	"math"
	"testing"
	"time"

	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

// Two nodes that work in turns, eight cores a minute each, use eight cores together and never
// sixteen. While the job runs its percentile is an upper bound and reports it; when it has ended it
// is the joint one.
func TestCoresOfNodesThatAlternate(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	b := x.builder()
	job := x.begin("slurm/1", partPlace{Node: "n1"}, partPlace{Node: "n2"})
	alone := x.begin("slurm/2", partPlace{Node: "n1"})
	steps := x.begin("slurm/3", partPlace{Node: "n1", Part: "0"}, partPlace{Node: "n2", Part: "0"})
	for _, p := range x.live {
		p.whole = p.truth == steps
	}
	for i := range 80 { // 20 minutes
		x.work(func(p *piece) (float64, float64, float64) {
			if p.truth == alone {
				return 2 * 15, 1, 1
			}
			if busy := (i/4)%2 == 0; busy == (p.Node == "n1") {
				return 8 * 15, 1, 1
			}
			return 0, 1, 1
		})
		x.exportAll()
	}
	advance(t, b)
	got := byID(x.rows())
	running := got["slurm/1"]
	if *running.CoresP95 < 15 || running.Exactness["cores_p95"] != figure.AtMost || running.Exactness["cores_p50"] != figure.Estimated {
		t.Errorf("while it runs: p95 %s, %v", show(running.CoresP95), running.Exactness)
	}
	if one := got["slurm/2"]; math.Abs(*one.CoresP95-2) > 0.2 || len(one.Exactness) != 0 {
		t.Errorf("of one node: p95 %s, %v", show(one.CoresP95), one.Exactness)
	}
	if wide := got["slurm/3"]; *wide.CoresP95 < 15 || *wide.CoresMax < 15 || wide.Exactness["cores_p95"] != figure.AtMost {
		t.Errorf("with steps: p95 %s, most %s, %v", show(wide.CoresP95), show(wide.CoresMax), wide.Exactness)
	}
	x.end(job)
	x.end(alone)
	x.end(steps)
	x.now = x.now.Add(10 * time.Minute)
	advance(t, b)
	ended, wide := byID(x.rows())["slurm/1"], byID(x.rows())["slurm/3"]
	if math.Abs(*wide.CoresP95-8) > 0.1 || wide.Exactness["cores_p95"] != figure.Exact || *wide.CoresMax < 15 {
		t.Errorf("with steps, ended: p95 %s, most %s, %v", show(wide.CoresP95), show(wide.CoresMax), wide.Exactness)
	}
	if math.Abs(*ended.CoresP95-8) > 0.1 || math.Abs(*ended.CoresP50-8) > 0.1 || ended.Exactness["cores_p95"] != figure.Exact || ended.Exactness["cores_max"] != figure.AtMost {
		t.Errorf("ended: p95 %s, p50 %s, %v", show(ended.CoresP95), show(ended.CoresP50), ended.Exactness)
	}
	if *ended.CoresMax < *ended.CoresP95 {
		t.Errorf("p95 %s is above the most, %s", show(ended.CoresP95), show(ended.CoresMax))
	}
	// The same when all is built from the series.
	if _, err := b.Rebuild(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if again := byID(x.rows())["slurm/1"]; *again.CoresP95 != *ended.CoresP95 || again.Exactness["cores_p95"] != figure.Exact {
		t.Errorf("rebuilt: p95 %s, %v", show(again.CoresP95), again.Exactness)
	}
}

func byID(rows []store.Workload) map[string]store.Workload {
	out := map[string]store.Workload{}
	for _, r := range rows {
		out[r.ID] = r
	}
	return out
}

var simExactness = &metric.Desc{Name: figure.ExactnessOf, Help: "Simulated.", Kind: metric.Gauge, Labels: []string{"figure", "kind", "workload", "source"}}

// A run takes the worst of its time on its nodes, of its kind or of itself.
func TestExactnessOfRuns(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	b := x.builder()
	says := func(node, fig, kind, workload string, degree float64) {
		if x.batch[node] == nil {
			x.batch[node] = &metric.Batch{Time: x.now}
		}
		x.batch[node].Add(metric.NewSeries(simExactness, fig, kind, workload, "x"), degree)
	}
	step := func(f func()) {
		x.work(steady)
		if f != nil {
			f()
		}
		x.exportAll()
	}
	x.begin("slurm/0", partPlace{Node: "n1"}) // alive before and after
	for range 4 {
		step(func() { says("n1", "cpu_seconds", "slurm", "", 2) })
	}
	x.now = x.now.Add(time.Second)
	x.begin("slurm/1", partPlace{Node: "n1"})
	x.begin("slurm/2", partPlace{Node: "n2"})
	x.begin("groups/3", partPlace{Node: "n1"})
	for range 3 {
		step(func() {
			says("n1", "cpu_seconds", "slurm", "", 0)
			says("n1", "io_read_bytes", "slurm", "slurm/1", 1)
			says("n1", "cores_mean", "slurm", "slurm/1", 1) // its end is vague
			says("n1", "io_read_bytes", "slurm", "", 0)
			says("n2", "memory_peak_bytes", "slurm", "", 0)
		})
	}
	advance(t, b)
	want := func(when, id string, d figure.Degrees) {
		t.Helper()
		got := byID(x.rows())[id].Exactness
		if len(got) != len(d) {
			t.Errorf("%s: %s is %v, want %v", when, id, got, d)
		}
		for k, v := range d {
			if got[k] != v {
				t.Errorf("%s: %s is %v, want %v", when, id, got, d)
			}
		}
	}
	cpu := figure.Degrees{"cpu_seconds": figure.Estimated, "cpu_user_seconds": figure.Estimated, "cores_mean": figure.Estimated, "cores_p50": figure.Estimated, "cores_p95": figure.Estimated, "cores_max": figure.Estimated}
	want("first", "slurm/0", cpu)
	want("first", "slurm/1", figure.Degrees{"io_read_bytes": figure.AtLeast, "cores_mean": figure.AtLeast, "wall_seconds": figure.AtMost})
	want("first", "slurm/2", nil)
	want("first", "groups/3", nil)
	// It gets worse for a moment, between two rounds; in each the builder starts again.
	if err := b.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	b = x.builder()
	step(func() { says("n2", "memory_peak_bytes", "slurm", "", 3) })
	step(func() { says("n2", "memory_peak_bytes", "slurm", "", 0) })
	advance(t, b)
	want("later", "slurm/0", cpu)
	want("later", "slurm/2", figure.Degrees{"memory_peak_bytes": figure.Modelled})
	if _, err := b.Rebuild(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want("rebuilt", "slurm/1", figure.Degrees{"io_read_bytes": figure.AtLeast, "cores_mean": figure.AtLeast, "wall_seconds": figure.AtMost})
	want("rebuilt", "slurm/2", figure.Degrees{"memory_peak_bytes": figure.Modelled})
}
