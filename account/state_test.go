package account

import (
	"strings"
	"testing"
	"time"

	"reckon/sensor"
)

func TestRestartLosesNothing(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, 7*second)})
	r.tick(second, []sensor.Process{proc(10, 10, 5*second, 8*second)})
	r.export()
	saved, err := r.l.State("boot-1")
	if err != nil {
		t.Fatal(err)
	}
	r.l = New(r.l.config)
	if err := r.l.Restore(saved, "boot-1"); err != nil {
		t.Fatal(err)
	}
	// While nobody looked: three more seconds of the process, and one of interrupts.
	r.boot += 9 * second
	r.m.Idle += 9*4*second - 3*second
	r.tick(second, []sensor.Process{proc(10, 10, 5*second, 11*second)})
	r.export()
	r.want("group", r.cpu("group/n1/10", "", "alice"), 11)
	r.want("other", r.cpu("other/n1", "", "root"), 1)
	r.want("started", r.values["reckon_workload_processes_started_total|group/n1/10|group||alice"], 1)
}

func TestRestoreRefuses(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, 7*second)})
	saved, err := r.l.State("boot-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ data, boot, want string }{
		"another boot":  {string(saved), "boot-2", "earlier boot"},
		"torn":          {string(saved[:len(saved)/2]), "boot-1", "unexpected end"},
		"newer version": {strings.Replace(string(saved), `"version":1`, `"version":2`, 1), "boot-1", "version 2"},
		"bad index":     {strings.Replace(string(saved), `"a":0`, `"a":9`, 1), "boot-1", "no part"},
	} {
		l := New(r.l.config)
		err := l.Restore([]byte(c.data), c.boot)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, c.want)
		}
		if parts, procs, _ := l.Counts(); parts+procs != 0 {
			t.Errorf("%s: the ledger is not empty", name)
		}
	}
}

func FuzzRestore(f *testing.F) {
	r := newRig(f, Config{})
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, 7*second)})
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, 8*second)})
	saved, _ := r.l.State("b")
	f.Add(saved)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRig(t, Config{})
		_ = r.l.Restore(data, "b")
		r.tick(second, []sensor.Process{proc(10, 10, 5*second, 9*second)})
		r.tick(second, nil)
	})
}
