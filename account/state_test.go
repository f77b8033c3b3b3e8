package account

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/sensor"
	"reckon/sensor/task/counters"
)

func TestRestartLosesNothing(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, 7*second)})
	r.tick(second, []sensor.Process{proc(10, 10, 5*second, 8*second)})
	r.export()
	r.restart()
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
	saved, err := r.saved("boot-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ data, boot, want string }{
		"another boot":  {string(saved), "boot-2", "earlier boot"},
		"torn":          {string(saved[:len(saved)/2]), "boot-1", "checksum at their end is missing"},
		"seal torn":     {string(saved[:len(saved)-3]), "boot-1", "checksum at their end is missing"},
		"a digit":       {strings.Replace(string(saved), `"u":[7`, `"u":[9`, 1), "boot-1", "checksum at their end is \"#"},
		"newer version": {reseal(saved, `"version":3`, `"version":4`), "boot-1", "version 4"},
		"bad index":     {reseal(saved, `"a":0`, `"a":9`), "boot-1", "no part"},
		"version 1":     {reseal(saved, `"version":3`, `"version":1`), "boot-1", "version 1"},
		"unsealed":      {string(bytes.SplitN(saved, []byte("\n"), 2)[0]), "boot-1", "checksum at their end is missing"},
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

// saved returns what Save writes.
func saved(l *Ledger, boot string) ([]byte, error) {
	var b bytes.Buffer
	err := l.Save(&b, boot)
	return b.Bytes(), err
}

func (r *rig) saved(boot string) ([]byte, error) { return saved(r.l, boot) }

// restart puts a new ledger with the state of the old one in its place.
func (r *rig) restart() {
	state, err := r.saved("boot")
	if err != nil {
		r.t.Fatalf("state is not written: %v", err)
	}
	r.l = New(r.l.config)
	if err := r.l.Restore(state, "boot"); err != nil {
		r.t.Fatalf("state is not taken back: %v", err)
	}
}

// TestSaveWritesWhatIsRead: a process is written by hand as encoding/json would, and nothing is written that is not read.
func TestSaveWritesWhatIsRead(t *testing.T) {
	r := newRig(t, Config{})
	child := proc(11, 10, 5*second, second)
	child.PPID = 10
	child.Have |= sensor.FieldParent | sensor.FieldChildren
	child.ChildSystemNanos = second / 2
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, 7*second), child, proc(12, 12, 5*second, 0)})
	r.export()
	saved, err := r.saved("b")
	if err != nil {
		t.Fatal(err)
	}
	body, _, _ := bytes.Cut(saved, []byte("\n"))
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var s state
	if err := d.Decode(&s); err != nil {
		t.Fatal(err)
	}
	if len(s.Parts) != 3 || len(s.Processes) != 3 || len(s.Cores) != 3 {
		t.Errorf("%d parts, %d processes and %d distributions were saved, want 3, 3 and 3", len(s.Parts), len(s.Processes), len(s.Cores))
	}
	for _, p := range s.Processes {
		want, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(body, want) {
			t.Errorf("process %d is not saved as %s", p.PID, want)
		}
		if p.PID == 11 && (p.PPID != 10 || p.Children == [2]uint64{}) {
			t.Errorf("the child is saved as %s", want)
		}
	}
}

// shortDisk takes some bytes and then none.
type shortDisk struct{ left int }

func (d *shortDisk) Write(b []byte) (int, error) {
	if len(b) > d.left {
		return 0, io.ErrShortWrite
	}
	d.left -= len(b)
	return len(b), nil
}

func TestSaveReportsAFullDisk(t *testing.T) {
	r, _ := machine(t, 1000)
	whole, err := r.saved("b")
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) < 3*saveBufferSize {
		t.Fatalf("%d bytes are too few to be written in several pieces", len(whole))
	}
	for _, room := range []int{0, saveBufferSize + saveBufferSize/2, len(whole) - 1} {
		if err := r.l.Save(&shortDisk{room}, "b"); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("with room for %d of %d bytes: %v", room, len(whole), err)
		}
	}
	if err := r.l.Save(&shortDisk{len(whole)}, "b"); err != nil {
		t.Errorf("with room for all: %v", err)
	}
}

// reseal changes a state and seals it again.
func reseal(saved []byte, from, to string) string {
	body, _, _ := bytes.Cut(saved, []byte("\n"))
	body = append(bytes.Replace(body, []byte(from), []byte(to), 1), '\n')
	return string(fmt.Appendf(body, sealFormat, crc32.Checksum(body, castagnoli)))
}

// TestStateOfVersion2: a state that the program of commit ad0587d9 saved loses nothing. It had a form of its own for each source; the values are
// those that it exported itself after a restart and some ticks.
func TestStateOfVersion2(t *testing.T) {
	saved, err := os.ReadFile("testdata/state-version2")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Config{})
	live := []sensor.Process{proc(10, 10, 5*second, 9*second), proc(20, 20, 5*second, 9*second)}
	r.tick(0, live)
	r.tick(second, live)
	r.l = New(r.l.config)
	if err := r.l.Restore(saved, "boot"); err != nil {
		t.Fatal(err)
	}
	r.tick(0, live)
	for range 20 {
		r.tick(0, live)
		for _, s := range sources {
			pass := passOf()
			if s == counters.Spec {
				pass.Have = 0
			}
			r.l.Tally(s, pass)
		}
	}
	r.export()
	want, err := os.ReadFile("testdata/state-version2.values")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, k := range slices.Sorted(maps.Keys(r.values)) {
		fmt.Fprintln(&got, k, r.values[k])
	}
	for line := range strings.Lines(string(want)) {
		if !strings.Contains(got.String(), line) {
			t.Errorf("missing: %s", line)
		}
	}
	for line := range strings.Lines(got.String()) {
		if !strings.Contains(string(want), line) && !strings.HasPrefix(line, "reckon_node_") { // which were fewer, and began later
			t.Errorf("not before: %s", line)
		}
	}
}

// TestEveryFlippedBitIsSeen: no damaged state is restored.
func TestEveryFlippedBitIsSeen(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, 7*second)})
	saved, err := r.saved("b")
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
	saved, _ := r.saved("b")
	f.Add(saved)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRig(t, Config{})
		_ = r.l.Restore(data, "b")
		r.tick(second, []sensor.Process{proc(10, 10, 5*second, 9*second)})
		r.tick(second, nil)
	})
}
