package answer

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/metric"
	"reckon/query"
	"reckon/store"
	"reckon/store/tsdb"
)

// TestNodePast: three nodes of a Slurm cluster and one outside it, with pending jobs.
func TestNodePast(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 30, 0, 0, time.UTC)
	facts, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	series, err := tsdb.Open(tsdb.Options{Dir: t.TempDir(), Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer series.Close()

	// All are up all the time except "down", which was up until 06:00; half of all cores are used.
	var use []store.NodeUse
	for h := range 24 {
		at_ := now.Truncate(time.Hour).Add(time.Duration(h-23) * time.Hour)
		up := min(time.Hour, now.Sub(at_)).Seconds()
		for _, node := range []string{"free", "full", "down", "alone"} {
			if node == "down" && at_.Hour() >= 6 && at_.Day() == 21 {
				continue
			}
			use = append(use, store.NodeUse{At: at_, Site: "s", Node: node, Capacity: figure.Capacity{UpSeconds: ptr(up), CoreSeconds: ptr(16 * up), CoreUsedSeconds: ptr(8 * up), NodeMemoryByteSeconds: ptr(64e9 * up), NodeMemoryUsedByteSeconds: ptr(16e9 * up), NodeJoules: ptr(100 * up)}})
		}
	}
	if err := facts.ReplaceHours(t.Context(), now.Truncate(time.Hour).Add(-23*time.Hour), now.Truncate(time.Hour).Add(time.Hour), nil, use); err != nil {
		t.Fatal(err)
	}
	gauge := func(name string, labels ...string) *metric.Desc {
		return &metric.Desc{Name: name, Help: "Test.", Kind: metric.Gauge, Labels: labels}
	}
	state := gauge("reckon_slurm_node_state", "node", "state", "flags", "reason")
	for step := now.Add(-12 * time.Hour); !step.After(now); step = step.Add(5 * time.Minute) {
		b := &metric.Batch{Time: step}
		for node, held := range map[string]float64{"free": 4, "full": 16, "down": 0} {
			open, word := 1.0, "mixed"
			if node == "down" {
				open, word = 0, "down"
			}
			b.Add(metric.NewSeries(state, node, word, "", ""), open)
			b.Add(metric.NewSeries(gauge("reckon_slurm_node_cores", "node"), node), 16)
			b.Add(metric.NewSeries(gauge("reckon_slurm_node_allocated_cores", "node"), node), held)
			b.Add(metric.NewSeries(gauge("reckon_slurm_node_memory_bytes", "node"), node), 60e9)
			b.Add(metric.NewSeries(gauge("reckon_slurm_node_allocated_memory_bytes", "node"), node), 20e9)
			b.Add(metric.NewSeries(gauge("reckon_slurm_partition_node", "partition", "node"), "cpu", node), 1)
		}
		for _, node := range []string{"free", "full", "alone"} {
			agent := &metric.Batch{Time: step}
			agent.Add(metric.NewSeries(gauge("node_boot_time_seconds")), 1.7e9)
			if err := series.Append(t.Context(), map[string]string{"site": "s", "node": node}, agent); err != nil {
				t.Fatal(err)
			}
		}
		if err := series.Append(t.Context(), map[string]string{"site": "s"}, b); err != nil {
			t.Fatal(err)
		}
	}
	job := func(id, partition, reason string, waited, ago time.Duration, cores, gpus float64) store.Workload {
		w := store.Workload{Site: "s", ID: "slurm/" + id, Kind: "slurm", Partition: partition, Reason: reason, Submit: now.Add(-waited - ago), Start: now.Add(-ago),
			Seen: now, Row: figure.Row{RequestCores: ptr(cores), RequestMemoryBytes: ptr(1e9)}, State: "running"}
		if gpus > 0 {
			w.RequestGPUs = ptr(gpus)
		}
		if ago == 0 {
			w.State, w.Start = "pending", w.Submit
		}
		return w
	}
	err = facts.Upsert(t.Context(), []store.Workload{
		job("begun", "cpu", "", 2*time.Hour, time.Hour, 8, 0),
		job("waits", "cpu", "Priority", time.Hour, 0, 12, 0),
		job("brief", "cpu", "", 5*time.Minute, time.Hour, 1, 0),
		job("big", "cpu", "Resources", time.Hour, 0, 13, 0),
		job("depends", "cpu", "Dependency", time.Hour, 0, 1, 0),
		job("elsewhere", "fat", "Resources", time.Hour, 0, 1, 0),
		job("gpu", "cpu", "Resources", time.Hour, 0, 1, 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	views := query.New(series, query.Options{Gone: 10 * time.Minute})
	p := &NodeHistory{Rollups: facts, Waits: facts, Views: views, Clock: func() time.Time { return now }}
	nodes, err := views.Nodes(t.Context(), now)
	if err != nil || len(nodes) != 4 {
		t.Fatalf("%+v, %v", nodes, err)
	}
	if err := p.addTo(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	by := map[string]*wire.Node{}
	for i := range nodes {
		by[nodes[i].Node] = &nodes[i]
	}
	free, full, alone := by["free"], by["full"], by["alone"]
	if b := free.Batch; b == nil || b.State != "mixed" || !b.Open || *b.CoresHeld != 4 || b.Partitions[0] != "cpu" {
		t.Errorf("%+v", b)
	}
	if alone.Batch != nil {
		t.Errorf("a node that no batch system has: %+v", alone.Batch)
	}
	// 8 cores for two hours and 12 for another hour, of the 12 that no job held.
	if w := free.Waiting; w == nil || w.Jobs != 2 || w.Now != 1 || w.CoreSeconds != 2*8*3600+12*3600 {
		t.Errorf("the node with room: %+v", w)
	}
	if w := full.Waiting; w == nil || w.Jobs != 0 || w.Now != 0 {
		t.Errorf("the node that jobs hold, of which half is used: %+v", w)
	}
	if w := alone.Waiting; w == nil || w.Jobs != 0 {
		t.Errorf("the node outside of all partitions: %+v", w)
	}
	if d := free.Day; d == nil || *d.CPUShare != 0.5 || *d.MemoryShare != 0.25 || *d.CoresUsed != 8 || *d.UpShare < 0.95 || *d.UpShare > 1 {
		t.Errorf("%+v", d)
	}
	if d := toSpan(&use[len(use)-1], now.Add(-time.Hour), now); *d.UpShare != 0.5 {
		t.Errorf("a node that was up for half of the time: %+v", *d.UpShare)
	}
	if n := by["down"]; n.Agent || n.Up || n.Batch == nil || *n.Cores != 16 || n.Waiting != nil {
		t.Errorf("the node that only the batch system knows, and has down: %+v", n)
	}
	// The history is cached for a while.
	p.Rollups = nil
	if err := p.addTo(context.Background(), nodes); err != nil {
		t.Error(err)
	}

	f := &Fit{Waits: facts, Clock: p.Clock, Views: views}
	list, err := f.Fit(t.Context(), wire.FitQuery{Cores: 12})
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range list.Places {
		if len(place.Partitions) > 0 && (*place.FreeNow != 1 || *place.Cores != 16) {
			t.Errorf("%+v", place)
		}
	}
}
