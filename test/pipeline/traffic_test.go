package pipeline_test

import (
	"testing"
	"time"

	"reckon/figure"
	"reckon/lab/simulate"
	"reckon/metric"
	"reckon/test/pipeline"
	"reckon/web/client"
)

// TestMemoryTraffic: memory traffic of a job stands beside its cores over time, and in the usage by hour, as estimated.
func TestMemoryTraffic(t *testing.T) {
	s := pipeline.Run(t, simulate.Config{OnlyPlanned: true, Nodes: 1, Cores: 8, Plan: []simulate.Planned{
		{User: "alice", Name: "moves", Cores: 4, Length: 20 * time.Minute, Does: simulate.Does{Cores: 2, Needed: 100 * mib, IPC: 1, Traffic: 1e9}},
		{User: "bob", Name: "other", Cores: 4, Length: 20 * time.Minute, Does: simulate.Does{Cores: 2, Needed: 100 * mib}},
	}}, 30*time.Minute, pipeline.Fine)
	w := s.Job("moves")
	if w.MemoryTrafficBytes == nil || w.Exactness["memory_traffic_bytes"] != figure.Estimated {
		t.Fatalf("%v, %v", w.MemoryTrafficBytes, w.Exactness)
	}
	steps := 0
	for _, p := range w.Profile {
		for _, x := range p.Points {
			if p.Metric == "memory_traffic_bytes_per_second" && x.Value != nil && *x.Value > 1.9e9 && *x.Value < 2.1e9 {
				steps++
			}
		}
	}
	if steps < 10 {
		t.Errorf("2 GB/s at %d steps of the profile", steps)
	}
	list := s.Usage(client.UsageQuery{Since: s.Plan.From, Until: s.Now, Span: "whole", By: []string{"owner"}})
	for _, r := range list.Rows {
		switch v := r.MemoryTrafficBytes; {
		case r.Owner == "alice" && (v == nil || *v < 0.9**w.MemoryTrafficBytes || *v > *w.MemoryTrafficBytes || r.Exactness["memory_traffic_bytes"] != figure.Estimated):
			t.Errorf("usage of alice: %v, %v; her job moved %v", v, r.Exactness, *w.MemoryTrafficBytes)
		case r.Owner == "bob" && v != nil:
			t.Errorf("usage of bob: %v, and nothing was counted", *v)
		}
	}
}

// TestPlacedMemory: on which NUMA node the memory of a job is, and what it moved over an adapter that it alone used, which is at least that.
func TestPlacedMemory(t *testing.T) {
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	s := pipeline.Empty(t, begin)
	identity := []string{"workload", "kind", "part", "owner"}
	series := func(kind metric.Kind, name string, labels ...string) *metric.Series {
		d := &metric.Desc{Name: name, Kind: kind, Labels: append([]string{}, identity...)}
		values := []string{"slurm/7", "slurm", "0", "alice"}
		for i := 0; i < len(labels); i += 2 {
			d.Labels, values = append(d.Labels, labels[i]), append(values, labels[i+1])
		}
		return metric.NewSeries(d, values...)
	}
	start, cpu := series(metric.Gauge, figure.StartTime), series(metric.Counter, figure.CPU, "mode", "user")
	near, far := series(metric.Gauge, figure.NUMAMemory, "numa_node", "0"), series(metric.Gauge, figure.NUMAMemory, "numa_node", "1")
	received := series(metric.Counter, figure.Interconnect, "device", "mlx5_0", "direction", "receive")
	sure := metric.NewSeries(&metric.Desc{Name: figure.ExactnessOf, Kind: metric.Gauge, Labels: []string{"figure", "kind", "source", "workload", "owner"}},
		"interconnect_bytes", "slurm", "sole_user", "", "")
	for i := range 40 {
		at := begin.Add(time.Duration(i) * 15 * time.Second)
		b := metric.Batch{Time: at}
		b.Add(start, float64(begin.Unix()))
		b.Add(cpu, float64(i))
		b.Add(near, 300*mib)
		b.Add(far, 100*mib)
		b.Add(received, float64(i)*1e6)
		b.Add(sure, float64(figure.AtLeast))
		if err := s.Append("n1", &b); err != nil {
			t.Fatal(err)
		}
		s.Now = at
	}
	s.Advance()
	w := s.Workloads(client.Filter{IDs: []string{"slurm/7"}})[0]
	for name, c := range map[string]struct {
		got  *float64
		want float64
	}{"NUMA": {w.MemoryNUMABytes, 400 * mib}, "NUMA, most": {w.MemoryNUMAMostBytes, 300 * mib}, "interconnect": {w.InterconnectBytes, 39e6}} {
		if c.got == nil || *c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if w.Exactness["interconnect_bytes"] != figure.AtLeast || w.Exactness["memory_numa_bytes"] != figure.Exact {
		t.Errorf("%v", w.Exactness)
	}
}
