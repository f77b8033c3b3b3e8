package account

import (
	"math"
	"strings"
	"testing"

	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/task/files"
	"reckon/sensor/task/runqueue"
	"reckon/sensor/task/waits"
)

// Waits are charged as traffic is: to living processes, to ended ones, and to other for
// unidentified processes; a part that did not wait exports 0, and without a source no part
// exports anything.
func TestWaits(t *testing.T) {
	r := newRig(t, Config{})
	p, idle := proc(10, 10, 5*second, 9*second), proc(20, 20, 5*second, 9*second)
	live := []sensor.Process{p, idle}
	const name = "reckon_workload_io_wait_seconds_total|"
	of := func(id string) (float64, bool) { v, ok := r.values[name+id]; return v, ok }
	r.tick(0, live)
	r.export()
	if v, ok := of("group/n1/10|group||alice"); ok {
		t.Errorf("without a source it waited %v", v)
	}
	r.waited(10, 5*second, 3*second)
	r.export()
	if d := r.degrees("group")["io_wait_seconds agent_start"]; d != figure.AtLeast {
		t.Errorf("of who began before us: %v", r.degrees("group"))
	}
	gone := proc(30, 30, r.boot+5, 2*second)
	r.tick(2*second, live, gone)
	r.waited(30, r.boot-second+5, second/2)
	r.l.Tally(waits.Spec, unowned([]sensor.TallyRow{row(0, 0, 0, second)}))
	r.export()
	for id, want := range map[string]float64{"group/n1/10|group||alice": 3, "group/n1/20|group||alice": 0, "group/n1/30|group||alice": 0.5, "other/n1|other||root": 1} {
		if v, ok := of(id); !ok || v != want {
			t.Errorf("%s waited %v (%v), want %v", id, v, ok, want)
		}
	}
	if d := r.degrees("group")["io_wait_seconds full_table"]; d != figure.AtLeast {
		t.Errorf("with a wait of nobody: %v", r.degrees("group"))
	}
	r.waited(10, 5*second, 0)
	r.export()
	if _, ok := r.degrees("group")["io_wait_seconds scheduler"]; !ok {
		t.Errorf("then: %v", r.degrees("group"))
	}
	r.restart()
	r.tick(0, live)
	r.waited(10, 5*second, second)
	r.export()
	if v, _ := of("group/n1/10|group||alice"); v != 4 {
		t.Errorf("after a restart it waited %v, want 4", v)
	}
	if d, ok := r.degrees("group")["io_wait_seconds agent_start"]; !ok || d != figure.AtLeast {
		t.Errorf("over a restart: %v", r.degrees("group"))
	}
}

// Waits for disks are charged as waits are, kept over a restart, and bounded: a part has series of eight disks, and one of all others.
func TestDiskWaits(t *testing.T) {
	r := newRig(t, Config{})
	live := []sensor.Process{proc(10, 10, 5*second, 9*second)}
	r.tick(0, live)
	pass := passOf([]sensor.TallyRow{row(10, 5*second, 0, 5*second)})
	using(pass, 10, 5*second, 1, "sda", "", 2*second)
	using(pass, 0, 0, 1, "sda", "", second)
	r.l.Tally(waits.Spec, pass)
	r.l.Tally(waits.Spec, pass)
	for i := range 9 {
		pass := passOf()
		using(pass, 10, 5*second, 1, string(rune('a'+i)), "", second)
		r.l.Tally(waits.Spec, pass)
	}
	check := func(when string) {
		t.Helper()
		r.export()
		for key, want := range map[string]float64{"group/n1/10|group||alice|sda": 4, "group/n1/10|group||alice|g": 1, "group/n1/10|group||alice|other": 2, "other/n1|other||root|sda": 2} {
			if v, ok := r.values["reckon_workload_disk_wait_seconds_total|"+key]; !ok || v != want {
				t.Errorf("%s: %s waited %v (%v), want %v", when, key, v, ok, want)
			}
		}
		if v, ok := r.values["reckon_workload_disk_wait_seconds_total|group/n1/10|group||alice|h"]; ok {
			t.Errorf("%s: a ninth disk has a series: %v", when, v)
		}
	}
	check("at first")
	r.restart()
	r.tick(0, live)
	r.l.Tally(waits.Spec, passOf())
	check("after a restart")
}

// Delays are charged as waits are, kept over a restart, and exported as a distribution with octaves of a second.
func TestQueue(t *testing.T) {
	r := newRig(t, Config{})
	p, idle := proc(10, 10, 5*second, 9*second), proc(20, 20, 5*second, 9*second)
	live := []sensor.Process{p, idle}
	delays := func(pid int32, start uint64, octave int, n, nanos uint64) {
		r.l.Tally(runqueue.Spec, passOf(queued(pid, start, octave, n, nanos)))
	}
	r.tick(0, live)
	delays(10, 5*second, 0, 7, 2000)
	delays(10, 5*second, 20, 3, 3*second/2) // between half a second and one
	gone := proc(30, 30, r.boot+5, 2*second)
	r.tick(2*second, live, gone)
	delays(30, r.boot-second+5, 24, 1, 20*second)
	r.l.Tally(runqueue.Spec, unowned(queued(0, 0, 12, 2, second)))
	of := func(id string) *metric.Histogram {
		var b metric.Batch
		r.l.Export(&b)
		for _, s := range b.Samples {
			if s.Histogram != nil && s.Series.Desc.Name == "reckon_workload_run_queue_seconds" && s.Series.Values[0] == id {
				return s.Histogram
			}
		}
		return nil
	}
	r.export()
	if d := r.degrees("group")["run_queue_seconds agent_start"]; d != figure.AtLeast {
		t.Errorf("of who began before us: %v", r.degrees("group"))
	}
	for _, c := range []struct {
		missed bool
		source string
	}{{false, "scheduler"}, {true, "full_table"}} {
		pass := passOf()
		if c.missed {
			pass.Lost = 1
		}
		r.l.Tally(runqueue.Spec, pass)
		r.export()
		if _, ok := r.degrees("group")["run_queue_seconds "+c.source]; !ok {
			t.Errorf("with missed switches %v: %v", c.missed, r.degrees("group"))
		}
	}
	h := of("group/n1/10")
	if h == nil || h.Count != 10 || h.ZeroCount != 7 || h.Schema() != 0 || h.Sum != 1.500002 || h.Quantile(1) != 1 || h.ZeroThreshold() != math.Exp2(-20) {
		t.Fatalf("%+v", h)
	}
	if got := of("group/n1/20"); got != nil {
		t.Errorf("of one without a delay: %+v", got)
	}
	if got := of("other/n1"); got == nil || got.Count != 2 || got.Quantile(1) != math.Exp2(-8) {
		t.Errorf("of nobody: %+v", got)
	}
	r.restart()
	r.tick(0, live)
	delays(10, 5*second, 20, 1, second)
	if got := of("group/n1/10"); got == nil || got.Count != 11 || got.Sum != 2.500002 {
		t.Errorf("after a restart: %+v", got)
	}
}

// Use of file systems is charged as waits are, kept over a restart, and limited: a part has series of eight file
// systems, and one of all others.
func TestMounts(t *testing.T) {
	r := newRig(t, Config{})
	p := proc(10, 10, 5*second, 9*second)
	live := []sensor.Process{p}
	r.tick(0, live)
	use := []uint64{4096, 100, 1, 2, 3, second, 0, second / 2}
	const across, local = 1, 2
	pass := passOf()
	using(pass, 10, 5*second, across, "fuse.sshfs", "host:/home", use...)
	using(pass, 0, 0, across, "fuse.sshfs", "host:/home", use...)
	r.l.Tally(files.Spec, pass)
	r.l.Tally(files.Spec, pass)
	for i := range 10 {
		pass := passOf()
		using(pass, 10, 5*second, across, "fuse", string(rune('a'+i)), use...)
		r.l.Tally(files.Spec, pass)
	}
	for _, disk := range []string{"/dev/sda1", "a"} { // they share the bound, and not what stands for all others
		pass := passOf()
		using(pass, 10, 5*second, local, "ext4", disk, use[:5]...)
		using(pass, 0, 0, local, "ext4", disk, use[:5]...)
		r.l.Tally(files.Spec, pass)
	}
	check := func(when string) {
		t.Helper()
		r.export()
		for key, want := range map[string]float64{
			"operations_total|other/n1|other||root|ext4|/dev/sda1|metadata": 3,
			"bytes_total|other/n1|other||root|ext4|a|read":                  4096,
			"operations_total|group/n1/10|group||alice|other|other|write":   4,
		} {
			if v, ok := r.values["reckon_workload_file_"+key]; !ok || v != want {
				t.Errorf("%s: %s is %v (%v), want %v", when, key, v, ok, want)
			}
		}
		for key := range r.values {
			if strings.Contains(key, "|ext4|") && !strings.HasPrefix(key, "reckon_workload_file_") {
				t.Errorf("%s: calls on a local file system are in %s", when, key)
			}
		}
		for key, want := range map[string]float64{
			"bytes_total|group/n1/10|group||alice|fuse.sshfs|host:/home|read":             8192,
			"bytes_total|group/n1/10|group||alice|fuse.sshfs|host:/home|write":            200,
			"operations_total|group/n1/10|group||alice|fuse.sshfs|host:/home|metadata":    6,
			"operation_seconds_total|group/n1/10|group||alice|fuse.sshfs|host:/home|read": 2,
			"operations_total|group/n1/10|group||alice|fuse|g|write":                      2,
			"operations_total|group/n1/10|group||alice|other|other|write":                 6,
			"bytes_total|other/n1|other||root|fuse.sshfs|host:/home|read":                 8192,
		} {
			if v, ok := r.values["reckon_workload_mount_"+key]; !ok || v != want {
				t.Errorf("%s: %s is %v (%v), want %v", when, key, v, ok, want)
			}
		}
		if v, ok := r.values["reckon_workload_mount_operations_total|group/n1/10|group||alice|fuse|h|write"]; ok {
			t.Errorf("%s: a ninth file system has a series: %v", when, v)
		}
	}
	check("at first")
	r.restart()
	r.tick(0, live)
	r.l.Tally(files.Spec, passOf())
	check("after a restart")
}
