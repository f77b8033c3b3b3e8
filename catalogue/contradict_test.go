package catalogue

import (
	"testing"

	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

// Facts of a batch system that cannot be taken as they stand: a limit of a year is none, whole seconds make a mean above the highest
// use, and accounting knows of CPU time that left the control groups.
func TestFactsThatCannotBe(t *testing.T) {
	c := newCluster(t)
	c.says(10, "slurm/1", "running", 5, 6, 0)
	c.measures(20, "n1", "slurm/1", 6, 46, 2)
	c.measures(45, "n1", "slurm/1", 6, 46, 6)
	b := metric.Batch{Time: sec(45)}
	l := []string{"slurm/1", "slurm", "", "alice"}
	b.Add(metric.NewSeries(desc("reckon_workload_request_seconds", metric.Gauge), l...), 365*86400)
	var h metric.Histogram
	for range 39 {
		h.Observe(0.14)
	}
	b.AddHistogram(metric.NewSeries(desc(figure.Cores, metric.NativeHistogram), l...), &h)
	if err := c.s.Append(t.Context(), map[string]string{"site": "x", "node": "n1"}, &b); err != nil {
		t.Fatal(err)
	}
	c.says(47, "slurm/1", "completed", 5, 6, 46)
	c.accounts(50, "slurm/1", "", "", "batch batch completed 6-46 0") // 40 s of CPU time
	c.facts(60)
	rows, _, err := c.c.Workloads(t.Context(), store.Filter{IDs: []string{"slurm/1"}})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	w := rows[0]
	if w.RequestSeconds != nil {
		t.Errorf("a limit of %g s", *w.RequestSeconds)
	}
	if w.CoresMean == nil || w.CoresMax == nil || *w.CoresMean > *w.CoresMax || *w.CoresMean < 0.13 {
		t.Errorf("cores: mean %v of at most %v", *w.CoresMean, *w.CoresMax)
	}
	if w.CPUSeconds == nil || *w.CPUSeconds != 6 || w.Exactness["cpu_seconds"] != figure.AtLeast {
		t.Errorf("CPU time %v, %v", w.CPUSeconds, w.Exactness)
	}
}
