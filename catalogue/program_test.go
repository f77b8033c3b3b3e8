package catalogue

import (
	"testing"
	"time"

	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

// TestProgramOfSteps: a job is known by the program that did the work, not by the script
// that started it or by what was stated last, and what it held stands with that program.
func TestProgramOfSteps(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	x.begin("unit/clock", partPlace{Node: "n1"}) // so that the node reports
	add := func(part, name string, kind metric.Kind, v float64, labels, values []string) {
		b := &metric.Batch{Time: x.now}
		d := &metric.Desc{Name: name, Help: "Simulated.", Kind: kind, Labels: append([]string{"workload", "kind", "part", "owner"}, labels...)}
		b.Add(metric.NewSeries(d, append([]string{"slurm/1", "slurm", part, "alice"}, values...)...), v)
		if err := x.s.Append(t.Context(), map[string]string{"site": "s", "node": "n1"}, b); err != nil {
			t.Fatal(err)
		}
	}
	start := float64(x.now.Unix())
	parts := []struct {
		part, program string
		rate          float64
	}{{"batch", "slurm_script", 0.01}, {"0", "simpleFoam", 4}, {"1", "tar", 0.1}, {"extern", "", 0}}
	for i := range 40 {
		x.work(steady)
		x.exportAll()
		for _, p := range parts {
			program := p.program
			if p.part == "0" && i < 5 { // its first seconds were spent otherwise
				program = "bash"
			}
			used := p.rate * 15 * float64(i)
			add(p.part, "reckon_workload_info", metric.Gauge, 1, []string{"name", "command"}, []string{"cfd", program})
			add(p.part, figure.StartTime, metric.Gauge, start, nil, nil)
			add(p.part, "reckon_workload_cpu_seconds_total", metric.Counter, used, []string{"mode"}, []string{"user"})
			add(p.part, "reckon_workload_memory_byte_seconds_total", metric.Counter, used*1e6, nil, nil)
			add(p.part, figure.RequestCores, metric.Gauge, 4, nil, nil)
			if p.program != "" {
				add(p.part, figure.CommandCPU, metric.Counter, used, []string{"command"}, []string{p.program})
			}
		}
	}
	advance(t, x.builder())
	rows, _, err := x.c.Workloads(t.Context(), store.Filter{Command: "simpleFoam"})
	if err != nil || len(rows) != 1 || rows[0].ID != "slurm/1" {
		t.Fatalf("what simpleFoam ran: %+v, %v", rows, err)
	}
	q := always
	q.By, q.Kinds = []string{"command"}, []string{"slurm"}
	use, err := x.c.Use(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range use {
		if mine := u.Command == "simpleFoam"; mine != (u.MemoryByteSeconds != nil) || mine != (u.HeldCoreSeconds != nil) || mine != (u.Started != nil) {
			t.Errorf("%s holds %s, memory %s, began %s", u.Command, show(u.HeldCoreSeconds), show(u.MemoryByteSeconds), show(u.Started))
		}
	}
	if len(use) != 3 {
		t.Errorf("%d programs: %+v", len(use), use)
	}
	// Drop it and build it again: nothing changes.
	if err := x.c.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	advance(t, x.builder())
	again, _, err := x.c.Workloads(t.Context(), store.Filter{Command: "simpleFoam"})
	if err != nil || len(again) != 1 || !again[0].Start.Equal(rows[0].Start) || again[0].Seen.Sub(rows[0].Seen).Abs() > time.Second {
		t.Errorf("built again: %+v, %v", again, err)
	}
}
