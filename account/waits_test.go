package account

import (
	"testing"

	"reckon/figure"
	"reckon/sensor"
)

func (r *rig) waited(pid int32, start, nanos uint64) {
	r.l.Waits(&sensor.WaitPass{Waited: []sensor.Waited{{PID: pid, Start: start, IO: sensor.Wait{Nanos: nanos, Waits: 1}}}})
}

// Waits are charged as traffic is: to the living, to those who ended, to other when nobody
// is known to have waited; a part that did not wait is told 0, and without a source nobody is.
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
	data, err := r.l.State("boot")
	if err != nil {
		t.Fatal(err)
	}
	r.l = New(r.l.config)
	if err := r.l.Restore(data, "boot"); err != nil {
		t.Fatal(err)
	}
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
