package query

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/metric"
	"reckon/store/storetest"
	"reckon/store/tsdb"
)

// writer appends samples of any series to a store.
type writer struct {
	t *testing.T
	s *tsdb.Store
}

func newWriter(t *testing.T) *writer {
	s, err := tsdb.Open(tsdb.Options{Dir: t.TempDir(), Ahead: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &writer{t, s}
}

// put appends one sample; labels are passed in pairs after the name.
func (w *writer) put(at time.Time, node, name string, v float64, pairs ...string) {
	w.t.Helper()
	d := &metric.Desc{Name: name, Kind: metric.Gauge}
	var values []string
	for i := 0; i < len(pairs); i += 2 {
		d.Labels, values = append(d.Labels, pairs[i]), append(values, pairs[i+1])
	}
	b := metric.Batch{Time: at}
	b.Add(metric.NewSeries(d, values...), v)
	if err := w.s.Append(w.t.Context(), map[string]string{"site": "s", "node": node}, &b); err != nil {
		w.t.Fatal(err)
	}
}

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s: %s, want %g", what, show(got), want)
	}
}

func show(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprint(*v)
}

// TestProfileEnd holds that a part of 21 s that is exported every 15 s keeps its rate and its memory up to its end.
func TestProfileEnd(t *testing.T) {
	w := newWriter(t)
	t0 := storetest.Now()
	id := []string{"workload", "slurm/1", "part", "0"}
	put := func(sec int, name string, v float64, pairs ...string) {
		w.put(t0.Add(time.Duration(sec)*time.Second), "n1", name, v, append(id, pairs...)...)
	}
	put(15, figure.StartTime, float64(t0.Unix()))
	put(30, figure.EndTime, float64(t0.Unix()+21))
	put(15, figure.CPU, 30, "mode", "user")
	put(30, figure.CPU, 42, "mode", "user")
	put(15, figure.Memory, 100, "type", "anon")
	put(30, figure.Memory, 0, "type", "anon")
	s := Selection{ID: "slurm/1", From: t0, To: t0.Add(31 * time.Second)}
	lines, err := New(w.s, Options{Gone: time.Minute}).Profile(t.Context(), s, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range lines {
		for i, at := range p.Points {
			switch {
			case p.Metric == "cores" && i < 7:
				near(t, fmt.Sprint("cores of step ", i), at.Value, 2)
			case at.Value != nil && p.Metric == "memory_bytes":
				near(t, fmt.Sprint("memory of step ", i), at.Value, 100)
			case at.Value != nil && p.Metric == "cores":
				t.Errorf("cores after the end: %g in step %d", *at.Value, i)
			}
		}
	}
}

func TestProfile(t *testing.T) {
	w := newWriter(t)
	t0 := storetest.Now()
	id := []string{"workload", "slurm/1", "part", "0"}
	cpu := func(sec int, mode string, v float64) {
		w.put(t0.Add(time.Duration(sec)*time.Second), "n1", figure.CPU, v, append(id, "mode", mode)...)
	}
	w.put(t0.Add(15*time.Second), "n1", figure.StartTime, float64(t0.Unix()), id...)
	// 2 cores for 15 s, then 4 for 15 s, then silence, a restart of the agent, 1 core.
	for _, s := range []struct {
		sec int
		v   float64
	}{{15, 30}, {30, 90}, {630, 6}, {645, 21}} {
		cpu(s.sec, "user", s.v)
	}
	cpu(15, "system", 15)
	cpu(30, "system", 15)
	for sec, v := range map[int]float64{15: 100, 30: 300, 645: 50} {
		w.put(t0.Add(time.Duration(sec)*time.Second), "n1", "reckon_workload_memory_bytes", v, append(id, "type", "anon")...)
		w.put(t0.Add(time.Duration(sec)*time.Second), "n1", "reckon_workload_memory_bytes", 1, append(id, "type", "file")...)
	}
	lines, err := New(w.s, Options{Gone: time.Minute}).Profile(t.Context(), Selection{ID: "slurm/1", From: t0, To: t0.Add(660 * time.Second)}, 15*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]wire.Profile{}
	for _, p := range lines {
		if p.Node != "n1" || p.Part != "0" {
			t.Errorf("%s is of %q %q", p.Metric, p.Node, p.Part)
		}
		by[p.Metric] = p
	}
	if lines[0].Metric != "cores" || len(by) != 4 {
		t.Errorf("lines: %d, first %s", len(by), lines[0].Metric)
	}
	c := by["cores"].Points
	if len(c) != 44 || !c[0].Time.Equal(t0.Add(15*time.Second)) {
		t.Fatalf("%d steps, first ends %s", len(c), c[0].Time)
	}
	near(t, "first step, from the start on", c[0].Value, 3)
	near(t, "second step", c[1].Value, 4)
	near(t, "after the silence", c[42].Value, 1)
	for _, i := range []int{2, 20, 41, 43} {
		if c[i].Value != nil {
			t.Errorf("step %d was not measured, but is %g", i, *c[i].Value)
		}
	}
	near(t, "memory", by["memory_bytes"].Points[1].Value, 301)
	near(t, "anonymous memory", by["memory_anon_bytes"].Points[1].Value, 300)
	if v := by["memory_bytes"].Points[5].Value; v != nil {
		t.Errorf("memory in the silence is %g", *v)
	}
	for _, bad := range []Selection{{ID: "x", From: t0, To: t0}, {ID: "x", From: t0, To: t0.Add(1e6 * time.Hour)}} {
		if _, err := New(w.s, Options{}).Profile(t.Context(), bad, time.Second); !errors.Is(err, ErrSteps) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestProfileKeepsTheArea: whatever the samples and steps, the profile sums up to the increase of
// the counter, because no step counts more or less time than it covers.
func TestProfileKeepsTheArea(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &grid{from: 0, step: int64(rapid.IntRange(1, 40_000).Draw(t, "step")), n: 300, gap: 1 << 40}
		l := g.newLine()
		at, sum := int64(0), 0.0
		for range rapid.IntRange(1, 50).Draw(t, "samples") {
			next := at + int64(rapid.IntRange(1, 60_000).Draw(t, "after"))
			if next > g.step*int64(g.n) {
				break
			}
			inc := rapid.Float64Range(0, 1e6).Draw(t, "increase")
			g.distribute(l, at, next, inc)
			sum += inc
			at = next
		}
		area, covered := 0.0, 0.0
		for i := range l.sum {
			area, covered = area+l.sum[i]/1000, covered+l.weight[i]
			if l.weight[i] > float64(g.step) {
				t.Errorf("step %d covers %g of %d ms", i, l.weight[i], g.step)
			}
		}
		if math.Abs(area-sum) > 1e-6*max(1, sum) || covered != float64(at) {
			t.Errorf("area %g of %g, %g of %d ms", area, sum, covered, at)
		}
	})
}

func TestCommandsAndParts(t *testing.T) {
	w := newWriter(t)
	t0 := storetest.Now()
	for i, v := range []float64{10, 40, 5} { // counter reset after 40
		at := t0.Add(time.Duration(i) * time.Minute)
		w.put(at, "n1", figure.CommandCPU, v, "workload", "unit/a", "command", "gcc")
		w.put(at, "n2", figure.CommandCPU, v, "workload", "unit/a", "command", "gcc")
		w.put(at, "n1", figure.CommandCPU, 1, "workload", "unit/a", "command", "other")
		w.put(at, "n1", figure.CommandCPU, 1e6, "workload", "unit/b", "command", "gcc")
		w.put(at, "n1", figure.CPU, v, "workload", "unit/a", "part", "x", "mode", "user")
		w.put(at, "n1", "reckon_workload_memory_peak_bytes", v, "workload", "unit/a", "part", "x")
		w.put(at, "n2", "reckon_workload_threads", v, "workload", "unit/a", "part", "y")
	}
	sel := Selection{ID: "unit/a", From: t0.Add(-time.Minute), To: t0.Add(time.Hour)}
	v := New(w.s, Options{})
	c, err := v.Commands(t.Context(), sel)
	if err != nil {
		t.Fatal(err)
	}
	if len(c) != 2 || c[0].Command != "gcc" || c[0].CPUSeconds != 90 || c[1].CPUSeconds != 1 || c[0].Processes != nil {
		t.Errorf("commands: %+v", c)
	}
	p, err := v.Parts(t.Context(), sel)
	if err != nil {
		t.Fatal(err)
	}
	if len(p) != 2 || p[0].Node != "n1" || p[0].Part != "x" || p[1].CPUSeconds != nil || p[1].MemoryPeakBytes != nil {
		t.Fatalf("parts: %+v", p)
	}
	near(t, "CPU of the part", p[0].CPUSeconds, 45)
	near(t, "peak of the part", p[0].MemoryPeakBytes, 40)
}

func TestNodes(t *testing.T) {
	w := newWriter(t)
	now := storetest.Now()
	boot := float64(now.Add(-48 * time.Hour).Unix())
	for i := range 9 { // two minutes
		at := now.Add(time.Duration(i-8) * 15 * time.Second)
		sec := float64(i * 15)
		for _, cpu := range []string{"0", "1"} {
			w.put(at, "up", "node_cpu_seconds_total", sec*0.5, "cpu", cpu, "mode", "user")
			w.put(at, "up", "node_cpu_seconds_total", sec*0.5, "cpu", cpu, "mode", "idle")
			w.put(at, "up", "node_cpu_seconds_total", sec*0.1, "cpu", cpu, "mode", "guest")
		}
		w.put(at, "up", "node_memory_MemTotal_bytes", 1000)
		w.put(at, "up", "node_memory_MemAvailable_bytes", 400)
		w.put(at, "up", "node_boot_time_seconds", boot)
		w.put(at, "up", "node_network_receive_bytes_total", sec*10, "device", "eth0")
		w.put(at, "up", "node_network_receive_bytes_total", sec*99, "device", "veth1")
		w.put(at, "up", ibReceived, sec*3, "device", "mlx5_0", "port", "1")
		w.put(at, "up", ibSent, sec*4, "device", "mlx5_0", "port", "1")
		w.put(at, "up", slingshotSent, sec*5, "device", "cxi0")
		w.put(at, "up", "reckon_agent_cpu_seconds_total", sec*0.01)
		w.put(at, "up", figure.CPU, sec, "workload", "unit/a", "mode", "user")
		w.put(at, "up", figure.CPU, sec, "workload", "unit/b", "mode", "user")
	}
	w.put(now, "up", "reckon_sensor_up", 0, "sensor", "rapl", "reason", "no permission")
	w.put(now, "up", "reckon_sensor_up", 1, "sensor", "procfs", "reason", "")
	w.put(now, "up", "node_uname_info", 1, "release", "6.1.0")
	w.put(now.Add(-3*time.Hour), "down", "node_boot_time_seconds", boot)
	nodes, err := New(w.s, Options{}).Nodes(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 2 || nodes[0].Node != "down" {
		t.Fatalf("%+v", nodes)
	}
	d, u := nodes[0], nodes[1]
	if d.Up || !d.Seen.Equal(now.Add(-3*time.Hour)) || d.Cores != nil || d.CoresUsed != nil || d.Boot == nil {
		t.Errorf("silent node: %+v", d)
	}
	if !u.Up || !u.Seen.Equal(now) || u.Workloads != 2 || u.KernelRelease != "6.1.0" || u.Load1 != nil || u.DiskBytes != nil {
		t.Errorf("node: %+v", u)
	}
	near(t, "cores", u.Cores, 2)
	near(t, "cores used", u.CoresUsed, 1)
	near(t, "memory used", u.MemoryUsed, 600)
	near(t, "network", u.NetworkBytes, 10)
	near(t, "interconnect", u.InterconnectBytes, 12)
	near(t, "agent", u.AgentCPU, 0.01)
	if len(u.Sensors) != 2 || u.Sensors[0].Up != true || u.Sensors[1].Reason != "no permission" {
		t.Errorf("sensors: %+v", u.Sensors)
	}
}

// TestNodesOfBatch: nodes with an agent only, with both, under two names, and nodes that only
// the batch system reports.
func TestNodesOfBatch(t *testing.T) {
	w := newWriter(t)
	now := storetest.Now()
	for _, node := range []string{"both", "full.example.org", "short", "alone"} {
		w.put(now, node, "reckon_agent_memory_bytes", 1)
	}
	for node, s := range map[string]struct {
		open                 float64
		state, flags, reason string
	}{
		"both": {0, "idle", "drain", "new disk"}, "full": {1, "mixed", "", ""}, "short.example.org": {1, "idle", "", ""},
		"drained": {0, "idle", "drain", "fan"}, "dead": {0, "down", "not_responding", ""}, "mute": {0, "idle", "not_responding", ""},
	} {
		w.put(now, "", nodeState, s.open, "node", node, "state", s.state, "flags", s.flags, "reason", s.reason)
		w.put(now, "", "reckon_slurm_node_cores", 8, "node", node)
		w.put(now, "", "reckon_slurm_node_memory_bytes", 1e9, "node", node)
		w.put(now, "", "reckon_slurm_node_gpus", 2, "node", node)
		w.put(now, "", nodePartition, 1, "node", node, "partition", "p")
	}
	nodes, err := New(w.s, Options{}).Nodes(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, n := range nodes {
		state := "none"
		if n.Batch != nil {
			state = strings.Join(append([]string{n.Batch.State}, n.Batch.Flags...), "+") + " " + n.Batch.Reason
		}
		got[n.Node] = fmt.Sprintf("%t %t %s %s %s %s", n.Agent, n.Up, show(n.Cores), show(n.MemoryBytes), show(n.GPUs), state)
	}
	want := map[string]string{
		"alone":            "true true unknown unknown unknown none",
		"both":             "true true unknown unknown 2 idle+drain new disk",
		"full.example.org": "true true unknown unknown 2 mixed ",
		"short":            "true true unknown unknown 2 idle ",
		"drained":          "false true 8 1e+09 2 idle+drain fan",
		"dead":             "false false 8 1e+09 2 down+not_responding ",
		"mute":             "false false 8 1e+09 2 idle+not_responding ",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestEngineBoundsQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := querySlots{make(chan struct{}, 2)}
		for range 2 {
			if _, err := q.Insert(t.Context(), "up"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := q.Insert(ctx, "up"); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "2 run already") {
			t.Errorf("third query: %v", err)
		}
		q.Delete(0)
		if _, err := q.Insert(t.Context(), "up"); err != nil {
			t.Error(err)
		}
	})
}

func TestEngineRunsPromQL(t *testing.T) {
	w := newWriter(t)
	t0 := storetest.Now()
	for i := range 5 {
		w.put(t0.Add(time.Duration(i)*15*time.Second), "n1", figure.CPU, float64(i*30), "workload", "unit/a", "mode", "user")
	}
	e := NewEngine(EngineOptions{})
	q, err := e.NewInstantQuery(t.Context(), w.s, nil, `sum by (workload) (rate(reckon_workload_cpu_seconds_total[1m]))`, t0.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	v, err := q.Exec(t.Context()).Vector()
	if err != nil || len(v) != 1 || math.Abs(v[0].F-2) > 1e-9 {
		t.Errorf("got %v, %v", v, err)
	}
}

// TestProfileOfMemory: memory traffic adds up over the methods that count it, page faults stay apart by type.
func TestProfileOfMemory(t *testing.T) {
	w := newWriter(t)
	t0 := storetest.Now()
	id := []string{"workload", "slurm/1", "part", "0"}
	for _, s := range []struct {
		name, label, value string
		each               float64 // a second
	}{
		{figure.MemoryTraffic, "method", "resctrl", 3e9},
		{figure.MemoryTraffic, "method", "misses", 1e9},
		{"reckon_workload_page_faults_total", "type", "minor", 500},
		{"reckon_workload_page_faults_total", "type", "major", 2},
	} {
		for sec := 15; sec <= 60; sec += 15 {
			w.put(t0.Add(time.Duration(sec)*time.Second), "n1", s.name, s.each*float64(sec), append(id, s.label, s.value)...)
		}
	}
	lines, err := New(w.s, Options{Gone: time.Minute}).Profile(t.Context(), Selection{ID: "slurm/1", From: t0, To: t0.Add(time.Minute)}, 15*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"memory_traffic_bytes_per_second": 4e9, "minor_faults_per_second": 500, "major_faults_per_second": 2}
	units := map[string]string{"memory_traffic_bytes_per_second": "bytes_per_second", "minor_faults_per_second": "per_second", "major_faults_per_second": "per_second"}
	for _, p := range lines {
		near(t, p.Metric, p.Points[2].Value, want[p.Metric])
		if p.Unit != units[p.Metric] {
			t.Errorf("%s is in %q", p.Metric, p.Unit)
		}
		delete(want, p.Metric)
	}
	if len(want) > 0 {
		t.Errorf("no line for %v", want)
	}
}
