package account

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reckon/account/tally"
	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/task/files"
	"reckon/sensor/task/traffic"
)

// named are the series of a workload in a batch, by name.
func named(b *metric.Batch, workload string) map[string][]metric.Sample {
	out := map[string][]metric.Sample{}
	for _, s := range b.Samples {
		if len(s.Series.Values) > 0 && s.Series.Values[0] == workload {
			out[s.Series.Desc.Name] = append(out[s.Series.Desc.Name], s)
		}
	}
	return out
}

// TestQuietGroupIsToldInBrief: a group without activity has the reduced series set, with
// no invented zero, and all series once it becomes active.
func TestQuietGroupIsToldInBrief(t *testing.T) {
	r := newRig(t, Config{})
	p := proc(100, 100, second, second/10)
	p.Have |= sensor.FieldMemory | sensor.FieldSwap | sensor.FieldIO | sensor.FieldFaults | sensor.FieldSwitches | sensor.FieldWait | sensor.FieldThreads
	p.Anon, p.WriteBytes, p.Voluntary, p.WaitNanos, p.Threads = 1<<20, 4096, 77, second/50, 3
	live := []sensor.Process{p}
	export := func() map[string][]metric.Sample {
		r.tick(0, live)
		var b metric.Batch
		r.l.Export(&b)
		for _, s := range b.Samples {
			if s.Series.Values[0] != "" && strings.HasPrefix(s.Series.Values[0], "group/") {
				return named(&b, s.Series.Values[0])
			}
		}
		return nil
	}
	r.tick(0, live)
	few := export()
	for _, name := range []string{"reckon_workload_cpu_seconds_total", "reckon_workload_memory_bytes", "reckon_workload_memory_peak_bytes", "reckon_workload_memory_needed_peak_bytes", "reckon_workload_processes", "reckon_workload_info", "reckon_workload_start_time_seconds"} {
		if len(few[name]) == 0 {
			t.Errorf("the reduced set lacks %s", name)
		}
	}
	count := 0
	for name, s := range few {
		if count += len(s); slices.Contains([]string{"reckon_workload_io_bytes_total", "reckon_workload_cores", "reckon_workload_threads", "reckon_workload_swap_bytes", "reckon_command_cpu_seconds_total"}, name) {
			t.Errorf("the reduced set has %s", name)
		}
	}
	if count > 12 {
		t.Errorf("the reduced set of a group is %d series", count)
	}
	// It writes: all series are exported.
	live[0].WriteBytes += 20 << 20
	full := export()
	check := func(name string, want float64) {
		t.Helper()
		for _, s := range full[name] {
			if s.Value == want {
				return
			}
		}
		t.Errorf("%s: %v, want %v", name, full[name], want)
	}
	check("reckon_workload_io_bytes_total", float64(20<<20)) // what was before the ledger is in no sum any more
	check("reckon_workload_context_switches_total", 0)
	check("reckon_workload_threads", 3)
	if len(full["reckon_workload_cores"]) != 1 {
		t.Error("the distribution of cores is missing")
	}
	// And from then on.
	again := export()
	for name := range full {
		if len(again[name]) != len(full[name]) {
			t.Errorf("%s: %d series, then %d", name, len(full[name]), len(again[name]))
		}
	}
}

// TestBusyGroupIsToldInFull: CPU time alone is enough.
func TestBusyGroupIsToldInFull(t *testing.T) {
	r := newRig(t, Config{})
	live := []sensor.Process{proc(100, 100, second, 2*second)}
	for range 2 {
		r.tick(0, live)
	}
	var b metric.Batch
	r.l.Export(&b)
	for _, s := range b.Samples {
		if s.Series.Desc.Name == "reckon_workload_threads" {
			return
		}
	}
	t.Error("a group that used two seconds has the reduced set")
}

// TestCallsAreToldInFull: a group that uses little of the machine and much of a file system across the network has the series
// of that.
func TestCallsAreToldInFull(t *testing.T) {
	const nfs, disk = 1, 2
	for name, c := range map[string]struct {
		set  uint8
		use  []uint64 // bytes, calls, nanoseconds
		full bool
	}{
		"a login":         {nfs, []uint64{60000, 500, 30, 4, 300, 2e6, 1e6, 9e6}, false},
		"calls":           {nfs, []uint64{0, 0, 100, 100, 800}, true},
		"bytes":           {nfs, []uint64{10 << 20, 6 << 20, 10, 6}, true},
		"a server stalls": {nfs, []uint64{0, 0, 0, 0, 2, 0, 0, 3e9}, true},
		"local calls":     {disk, []uint64{64 << 20, 0, 4000, 0, 9000}, false},
	} {
		r := newRig(t, Config{})
		p := proc(100, 100, second, second/10)
		for range 3 {
			r.tick(0, []sensor.Process{p})
		}
		pass := passOf()
		using(pass, 100, p.Start, c.set, "kind", "source", c.use...)
		r.l.Tally(files.Spec, pass)
		r.tick(0, []sensor.Process{p})
		var b metric.Batch
		r.l.Export(&b)
		series := named(&b, "group/n1/100")
		if full := len(series["reckon_workload_mount_operations_total"]) > 0; full != c.full || len(series["reckon_workload_cpu_seconds_total"]) == 0 {
			t.Errorf("%s: full %v, want %v: %v", name, full, c.full, series)
		}
	}
}

// growth adds up what a store sees of a counter over exports: the whole first value of a series that reports when it was zero, else the
// increase since the sample before.
type growth struct {
	last map[string]float64
	sum  map[string]float64 // by metric
}

func (g *growth) export(r *rig) {
	var b metric.Batch
	b.Reset(wall)
	r.l.Export(&b)
	for _, s := range b.Samples {
		if s.Ended() || s.Series.Desc.Kind != metric.Counter {
			continue
		}
		k := s.Series.Desc.Name + "|" + strings.Join(s.Series.Values, "|")
		was, known := g.last[k]
		switch {
		case s.Value < was:
			r.t.Fatalf("%s fell from %v to %v", k, was, s.Value)
		case !known && s.Series.Created == 0:
			was = s.Value
		}
		g.last[k] = s.Value
		g.sum[s.Series.Desc.Name] += s.Value - was
	}
}

// TestBooksClose: figures left out of quiet groups are short work, so that workloads, short work and other are what the sources counted,
// to the unit, and so is the series of the node: over ends, folding, restarts, and groups that become busy.
func TestBooksClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, Config{Export: 5 * time.Second})
		g := growth{last: map[string]float64{}, sum: map[string]float64{}}
		old := proc(10, 10, 5*second, second/10) // with a past that nobody saw
		old.WriteBytes, old.WaitNanos = 7<<20, 3*second
		live := []sensor.Process{old}
		var wrote, waited, moved, opened, calls float64
		pid := int32(100)
		r.tick(0, live)
		g.export(r) // what a group that is older did before the first export is in no increase
		for i := range 60 {
			for range rapid.IntRange(0, 1).Draw(t, "born") {
				pid++
				live = append(live, proc(pid, pid, r.boot+uint64(pid), uint64(rapid.SampledFrom([]int{1e6, 6e7, 2e9}).Draw(t, "cpu"))))
			}
			var ended []sensor.Process
			if len(live) > 1 && rapid.IntRange(0, 3).Draw(t, "end") == 0 {
				at := rapid.IntRange(1, len(live)-1).Draw(t, "who")
				ended = append(ended, live[at])
				live = slices.Delete(live, at, at+1)
			}
			for k := range live {
				p := &live[k]
				n := uint64(rapid.SampledFrom([]int{0, 4096, 3 << 20, 9 << 20}).Draw(t, "bytes"))
				p.WriteBytes, p.WaitNanos = p.WriteBytes+n, p.WaitNanos+n
				wrote, waited = wrote+float64(n), waited+float64(n)
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				r.restart()
			}
			r.tick(0, live, ended...)
			pass, calling := passOf(), passOf()
			if len(live) > 1 {
				p := live[rapid.IntRange(0, len(live)-1).Draw(t, "mover")]
				n := uint64(rapid.SampledFrom([]int{1, 1 << 20, 20 << 20}).Draw(t, "sent"))
				pass = passOf(sent(p.PID, p.Start, n), []sensor.TallyRow{row(p.PID, p.Start, traffic.Opened, n%1999)}, sent(0, 0, 5))
				moved, opened = moved+float64(n)+5, opened+float64(n%1999)
				using(calling, p.PID, p.Start, 1, "nfs", fmt.Sprint("server", n%11), 0, 0, n%99, 0, 0)
				calls += float64(n % 99)
			}
			r.l.Tally(traffic.Spec, pass)
			r.l.Tally(files.Spec, calling)
			if i%5 == 4 {
				g.export(r)
			}
		}
		ended := slices.Clone(live)
		for range tally.MaxWaitTicks + 1 {
			r.tick(0, nil, ended...)
			r.traffic()
			r.l.Tally(files.Spec, passOf())
			ended = nil
		}
		g.export(r)
		for name, want := range map[string]float64{
			"io_bytes_total": wrote, "cpu_wait_seconds_total": waited / 1e9, "network_bytes_total": moved,
			"network_connections_total": opened, "mount_operations_total": calls,
		} {
			of := map[string]string{"network_bytes_total": "network_payload_bytes_total"}[name]
			if of == "" {
				of = name
			}
			if got, node := g.sum["reckon_workload_"+name], g.sum["reckon_node_"+of]; math.Abs(got-want) > want*1e-12 || math.Abs(node-want) > want*1e-12 {
				t.Fatalf("%s: workloads %v, node %v, want %v", name, got, node, want)
			}
		}
	})
}

// TestBusyLater: a group that becomes busy has series without what short work got before, and reports it.
func TestBusyLater(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, nil)
	p := proc(100, 100, r.boot+5, second/10)
	p.WriteBytes = 9 << 20
	for range 2 {
		r.tick(0, []sensor.Process{p})
	}
	r.traffic(sent(100, p.Start, 9<<20))
	r.export()
	r.want("short work", r.values["reckon_workload_io_bytes_total|short/alice/n1|short||alice|write"], 9<<20)
	p.WriteBytes = 29 << 20
	r.tick(0, []sensor.Process{p})
	r.traffic(sent(100, p.Start, 20<<20))
	r.export()
	r.want("group", r.values["reckon_workload_io_bytes_total|group/n1/100|group||alice|write"], 20<<20)
	r.want("short work, later", r.values["reckon_workload_io_bytes_total|short/alice/n1|short||alice|write"], 9<<20)
	for _, f := range []string{"io_write_bytes", "network_bytes"} {
		if d, ok := r.values["reckon_figure_exactness|"+f+"|group|reduced|group/n1/100|alice"]; !ok || d != float64(figure.AtLeast) {
			t.Errorf("%s of the group: %v, %v", f, d, ok)
		}
	}
	p.WriteBytes = 2 << 30 // so much that the 9 MiB are less than a hundredth of it
	r.tick(0, []sensor.Process{p})
	r.export()
	if d, ok := r.values["reckon_figure_exactness|io_write_bytes|group|reduced|group/n1/100|alice"]; ok {
		t.Errorf("io_write_bytes is %v", d)
	}
}

// TestManyConnections: a group that opens very many connections in little time has series of its own, at once.
func TestManyConnections(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, nil)
	p := proc(100, 100, r.boot+5, 27*second/100)
	for range 2 {
		r.tick(second/5, []sensor.Process{p})
	}
	r.traffic([]sensor.TallyRow{row(100, p.Start, traffic.Opened, 10000)})
	r.tick(0, nil, p)
	r.tick(0, nil)
	r.export()
	r.want("connections", r.values["reckon_workload_network_connections_total|group/n1/100|group||alice|client"], 10000)
	r.want("of the node", r.values["reckon_node_network_connections_total|client"], 10000)
}
