package account

import (
	"math"
	"strings"
	"testing"

	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
)

func (r *rig) waited(pid int32, start, nanos uint64) {
	r.l.Waits(&sensor.WaitPass{Waited: []sensor.Waited{{PID: pid, Start: start, IO: sensor.Wait{Nanos: nanos, Waits: 1}}}})
}

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
	r.l.Waits(&sensor.WaitPass{Unowned: sensor.Wait{Nanos: second, Waits: 1}})
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
	pass := sensor.WaitPass{
		Waited: []sensor.Waited{{PID: 10, Start: 5 * second, IO: sensor.Wait{Nanos: 5 * second, Waits: 3}}},
		Disks:  []sensor.DiskWaited{{PID: 10, Start: 5 * second, Disk: "sda", Nanos: 2 * second}, {Disk: "sda", Nanos: second}},
	}
	r.l.Waits(&pass)
	r.l.Waits(&pass)
	for i := range 9 {
		r.l.Waits(&sensor.WaitPass{Disks: []sensor.DiskWaited{{PID: 10, Start: 5 * second, Disk: string(rune('a' + i)), Nanos: second}}})
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
	r.l.Waits(new(sensor.WaitPass))
	check("after a restart")
}

// Delays are charged as waits are, kept over a restart, and exported as a distribution with octaves of a second.
func TestQueue(t *testing.T) {
	r := newRig(t, Config{})
	p, idle := proc(10, 10, 5*second, 9*second), proc(20, 20, 5*second, 9*second)
	live := []sensor.Process{p, idle}
	delays := func(pid int32, start uint64, octave int, n, nanos uint64) {
		d := sensor.Queue{Nanos: nanos}
		d.Octaves[octave] = n
		r.l.Queue(&sensor.QueuePass{Queued: []sensor.Queued{{PID: pid, Start: start, Delay: d}}})
	}
	r.tick(0, live)
	delays(10, 5*second, 0, 7, 2000)
	delays(10, 5*second, 20, 3, 3*second/2) // between half a second and one
	gone := proc(30, 30, r.boot+5, 2*second)
	r.tick(2*second, live, gone)
	delays(30, r.boot-second+5, 24, 1, 20*second)
	unowned := sensor.QueuePass{Unowned: sensor.Queue{Nanos: second}}
	unowned.Unowned.Octaves[12] = 2
	r.l.Queue(&unowned)
	of := func(id string) *metric.Histogram {
		var b metric.Batch
		r.l.Export(&b)
		for _, s := range b.Samples {
			if s.Histogram != nil && s.Series.Desc == queueDelays && s.Series.Values[0] == id {
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
		missed uint64
		source string
	}{{0, "scheduler"}, {1, "full_table"}} {
		r.l.Queue(&sensor.QueuePass{Missed: c.missed})
		r.export()
		if _, ok := r.degrees("group")["run_queue_seconds "+c.source]; !ok {
			t.Errorf("with %d missed switches: %v", c.missed, r.degrees("group"))
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
	use := sensor.MountUse{Bytes: [2]uint64{4096, 100}, Operations: [3]uint64{1, 2, 3}, Nanos: [3]uint64{second, 0, second / 2}}
	home := sensor.Mount{Type: "fuse.sshfs", Source: "host:/home"}
	pass := sensor.MountPass{Used: []sensor.Mounted{{PID: 10, Start: 5 * second, Mount: home, Use: use}, {Mount: home, Use: use}}}
	r.l.Mounts(&pass)
	r.l.Mounts(&pass)
	for i := range 10 {
		r.l.Mounts(&sensor.MountPass{Used: []sensor.Mounted{{PID: 10, Start: 5 * second, Mount: sensor.Mount{Type: "fuse", Source: string(rune('a' + i))}, Use: use}}})
	}
	disk := sensor.Mount{Type: "ext4", Source: "/dev/sda1", Local: true}
	for i := range 2 { // they share the bound, and not what stands for all others
		r.l.Mounts(&sensor.MountPass{Used: []sensor.Mounted{{PID: 10, Start: 5 * second, Mount: disk, Use: use}, {Mount: disk, Use: use}}})
		disk.Source = string(rune('a' + i))
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
	r.l.Mounts(new(sensor.MountPass))
	check("after a restart")
}
