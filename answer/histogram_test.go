package answer

import (
	"testing"
	"time"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/metric"
)

// hist appends the distribution that a node had counted for a job by then.
func (h *history) hist(at time.Time, node, id, owner string, m *metric.Histogram) {
	h.t.Helper()
	b := metric.Batch{Time: at}
	d := &metric.Desc{Name: figure.Cores, Kind: metric.NativeHistogram, Unit: metric.Cores, Labels: []string{"workload", "kind", "part", "owner"}}
	b.AddHistogram(metric.NewSeries(d, id, "slurm", "", owner), m)
	if err := h.s.Append(h.t.Context(), map[string]string{"site": "lab", "node": node}, &b); err != nil {
		h.t.Fatal(err)
	}
}

// TestCoresHistogramIsOfTheWholeJob: each node counts its own cores, which for a job on two nodes is
// half of its use, so the distribution is computed from the sum over its steps instead.
func TestCoresHistogramIsOfTheWholeJob(t *testing.T) {
	h := newHistory(t)
	begin := h.now.Add(-30 * time.Minute)
	both := run{id: "slurm/1", name: "sim", owner: "alice", start: begin, wall: 10 * time.Minute, asked: 8, used: 8, nodes: []string{"n1", "n2"}}
	alone := run{id: "slurm/2", name: "one", owner: "alice", start: begin, wall: 10 * time.Minute, asked: 4, used: 4, nodes: []string{"n3"}}
	for _, r := range []run{both, alone} {
		h.job(r)
		for _, node := range r.nodes {
			var m metric.Histogram
			for range 600 {
				m.Observe(4)
			}
			h.hist(begin.Add(r.wall), node, r.id, r.owner, &m)
		}
	}
	c := h.site()
	top := func(id string, r wire.Range) (wire.WorkloadDetail, float64, float64) {
		list, err := c.Workloads(t.Context(), wire.Filter{IDs: []string{id}})
		if err != nil || len(list.Workloads) != 1 {
			t.Fatalf("%v, %d of %s", err, len(list.Workloads), id)
		}
		d, err := c.Workload(t.Context(), list.Workloads[0], r)
		if err != nil {
			t.Fatal(err)
		}
		all, high := 0.0, 0.0
		for _, b := range d.CoresHistogram {
			all += b.Seconds
			if b.Low < 8 && b.High >= 8 {
				high += b.Seconds
			}
		}
		return d, all, high
	}
	d, all, high := top("slurm/1", wire.Range{})
	if all < 540 || all > 615 || high < 0.9*all {
		t.Errorf("of 10 min at 8 cores %g s, of them %g s at 8: %v", all, high, d.CoresHistogram)
	}
	if d.CoresHistogramStep == nil || *d.CoresHistogramStep != d.StepSeconds {
		t.Errorf("the step is %v, want %g s", d.CoresHistogramStep, d.StepSeconds)
	}
	// A part of the run has no distribution of the whole run.
	if d, _, _ := top("slurm/1", wire.Range{From: begin.Add(time.Minute), To: begin.Add(2 * time.Minute)}); d.CoresHistogram != nil || d.CoresHistogramStep != nil {
		t.Errorf("of a part of the time: %v", d.CoresHistogram)
	}
	if d, all, high := top("slurm/2", wire.Range{}); all != 600 || high != 0 || d.CoresHistogramStep != nil {
		t.Errorf("on one node %g s, %g s at 8, step %v", all, high, d.CoresHistogramStep)
	}
}
