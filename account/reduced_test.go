package account

import (
	"slices"
	"strings"
	"testing"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/task/files"
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
// no invented zero, and all series, with its whole past, once it becomes active.
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
	// It writes: all series are exported, with its earlier activity.
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
	check("reckon_workload_io_bytes_total", float64(20<<20+4096))
	check("reckon_workload_context_switches_total", 77)
	check("reckon_workload_cpu_wait_seconds_total", 0.02)
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
