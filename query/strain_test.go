package query

import (
	"maps"
	"testing"
	"time"

	"reckon/store/storetest"
)

// TestExactness: a run takes the worst exactness reported during its time for its kind on its nodes
// and for itself; reports about another workload, kind or node do not count.
func TestExactness(t *testing.T) {
	w := newWriter(t)
	now := storetest.Now()
	const name = "reckon_figure_exactness"
	for i, v := range []float64{0, 2, 0, 3} { // the last one after its end
		w.put(now.Add(time.Duration(i)*time.Minute), "n1", name, v, "figure", "memory_bytes", "kind", "group", "source", "pss", "workload", "group/n1/7", "owner", "alice")
		w.put(now.Add(time.Duration(i)*time.Minute), "n1", name, min(v, 1), "figure", "cpu_seconds", "kind", "group", "source", "child_times")
		w.put(now.Add(time.Duration(i)*time.Minute), "n1", name, 4, "figure", "memory_needed_bytes", "kind", "group", "source", "rss_sum", "workload", "group/n1/7", "owner", "alice")
		w.put(now.Add(time.Duration(i)*time.Minute), "n1", name, 4, "figure", "memory_peak_bytes", "kind", "group", "source", "rss_sum", "workload", "group/n1/7", "owner", "alice")
		w.put(now.Add(time.Duration(i)*time.Minute), "n1", name, 1, "figure", "memory_peak_bytes", "kind", "group", "source", "readings")
	}
	for _, s := range []struct{ node, kind, workload string }{{"n1", "group", "group/n1/8"}, {"n1", "slurm", ""}, {"n2", "group", ""}} {
		w.put(now.Add(time.Minute), s.node, name, 3, "figure", "processes", "kind", s.kind, "source", "readings", "workload", s.workload, "owner", "")
	}
	got, err := New(w.s, Options{}).Exactness(t.Context(), Selection{ID: "group/n1/7", From: now, To: now.Add(2 * time.Minute)}, "group", []string{"n1"})
	if want := map[string]int{"memory_bytes": 2, "cpu_seconds": 1, "memory_needed_bytes": 4, "memory_peak_bytes": 4}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
