package account

import (
	"bytes"
	"errors"
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
	// While the agent was down: three more seconds of the process, and one of interrupts.
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
		"another boot":        {string(saved), "boot-2", "earlier boot"},
		"torn":                {string(saved[:len(saved)/2]), "boot-1", "unexpected end"},
		"seal torn":           {string(saved[:len(saved)-3]), "boot-1", "checksum at their end is missing"},
		"a digit":             {strings.Replace(string(saved), `"u":[7`, `"u":[9`, 1), "boot-1", "checksum at their end is \"#"},
		"newer version":       {reseal(saved, `"version":2`, `"version":3`), "boot-1", "version 3"},
		"bad index":           {reseal(saved, `"a":0`, `"a":9`), "boot-1", "no part"},
		"version 1, sealed":   {reseal(saved, `"version":2`, `"version":1`), "boot-1", "version 1"},
		"version 2, unsealed": {string(bytes.SplitN(saved, []byte("\n"), 2)[0]), "boot-1", "version 2"},
	} {
		l := New(r.l.config)
		err := l.Restore([]byte(c.data), c.boot)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, c.want)
		}
		if damaged := name != "another boot"; errors.Is(err, ErrDamaged) != damaged {
			t.Errorf("%s: damaged is %v", name, !damaged)
		}
		if parts, procs, _ := l.Counts(); parts+procs != 0 {
			t.Errorf("%s: the ledger is not empty", name)
		}
	}
}

// reseal changes a state and seals it again.
func reseal(saved []byte, from, to string) string {
	body, _, _ := bytes.Cut(saved, []byte("\n"))
	return string(seal(bytes.Replace(body, []byte(from), []byte(to), 1)))
}

// TestStateOfVersion1: an earlier program saved no checksum and no child times.
func TestStateOfVersion1(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, 7*second)})
	saved, err := r.l.State("b")
	if err != nil {
		t.Fatal(err)
	}
	body, _, _ := bytes.Cut(saved, []byte("\n"))
	old := strings.Replace(string(body), `"version":2`, `"version":1`, 1)
	old = strings.Replace(old, `"lineage":true`, `"lineage":false`, 1)
	r.l = New(r.l.config)
	if err := r.l.Restore([]byte(old), "b"); err != nil {
		t.Fatal(err)
	}
	p := proc(10, 10, 5*second, 8*second)
	p.Have |= sensor.FieldChildren
	p.ChildUserNanos = second / 2 // from another time
	r.tick(second, []sensor.Process{p})
	r.export()
	r.want("group", r.cpu("group/n1/10", "", "alice"), 8)
}

// TestEveryFlippedBitIsSeen: no damaged state is restored.
func TestEveryFlippedBitIsSeen(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, 7*second)})
	saved, err := r.l.State("b")
	if err != nil {
		t.Fatal(err)
	}
	for i := range saved {
		for bit := range 8 {
			saved[i] ^= 1 << bit
			if err := New(r.l.config).Restore(saved, "b"); !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d, bit %d: %v", i, bit, err)
			}
			saved[i] ^= 1 << bit
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
