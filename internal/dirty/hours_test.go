package dirty

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func at(hours int) int64 { return int64(hours) * hourMillis }

func snapshot(t *testing.T, h *Hours) Snapshot {
	t.Helper()
	d, err := h.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func hoursOf(d Snapshot) (out []int) {
	for _, x := range d.Hours {
		out = append(out, int(x.At.UnixMilli()/hourMillis))
	}
	return out
}

func begin(t *testing.T, h *Hours, times ...int64) func() {
	t.Helper()
	var l Late
	for _, x := range times {
		l.Add(x)
	}
	end, err := h.Begin(&l)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// An hour is in the journal before its samples are committed, and until the data derived
// from it is durable, even with concurrent writers.
func TestJournal(t *testing.T) {
	f := File(filepath.Join(t.TempDir(), "dirty.json"))
	again := func() []int { t.Helper(); return hoursOf(snapshot(t, New(f))) } // after a kill
	h := New(f)
	if got := again(); got != nil {
		t.Errorf("a new journal holds %v", got)
	}
	end := begin(t, h, at(5)+7, at(3)+1, at(3))
	if got := again(); len(got) != 2 || got[0] != 3 || got[1] != 5 {
		t.Errorf("before the commit the journal holds %v", got)
	}
	d := snapshot(t, h)
	if err := h.Clean(d); err != nil {
		t.Fatal(err)
	}
	if got := again(); len(got) != 2 {
		t.Errorf("cleaned while they were written: %v", got)
	}
	end()
	if err := h.Clean(d); err != nil {
		t.Fatal(err)
	}
	if got := again(); len(got) != 2 {
		t.Errorf("cleaned by what was read before the commit: %v", got)
	}
	d = snapshot(t, h)
	begin(t, h, at(5)+8)() // again meanwhile
	if err := h.Clean(d); err != nil {
		t.Fatal(err)
	}
	if got := again(); len(got) != 1 || got[0] != 5 {
		t.Errorf("after the hour that was written again: %v", got)
	}
	if d = snapshot(t, h); !d.Hours[0].Oldest.Equal(time.UnixMilli(at(5) + 7)) {
		t.Errorf("oldest %s", d.Hours[0].Oldest)
	}
	if err := h.Clean(d); err != nil || again() != nil {
		t.Errorf("%v, %v", again(), err)
	}
}

// Without a saved mark nothing may be committed, and the next writer saves the mark.
func TestJournalFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	h := New(File(filepath.Join(dir, "dirty.json")))
	var l Late
	l.Add(at(1))
	if _, err := h.Begin(&l); err == nil {
		t.Fatal("noted in a directory that is not there")
	}
	if d := snapshot(t, h); len(d.Hours) != 0 {
		t.Errorf("%v", d)
	}
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	begin(t, h, at(1))()
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	d := snapshot(t, h)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := h.Clean(d); err == nil {
		t.Error("cleaned in a directory that is gone")
	}
	if got := hoursOf(snapshot(t, h)); len(got) != 1 {
		t.Errorf("what could not be cleaned is %v", got)
	}
	begin(t, h, at(1))() // it was saved before: no write
	if _, err := h.Begin(&Late{list: []lateHour{{Entry: Entry{At: at(2)}}, {Entry: Entry{At: at(1)}}}}); err == nil {
		t.Error("noted in a directory that is gone")
	}
	if got := hoursOf(snapshot(t, h)); len(got) != 1 || got[0] != 1 {
		t.Errorf("an hour that is in the journal was dropped: %v", got)
	}
}

// Every truncation and every changed byte of the journal makes all hours dirty, and none clean.
func TestDamaged(t *testing.T) {
	f := File(filepath.Join(t.TempDir(), "dirty.json"))
	begin(t, New(f), at(1), at(2))()
	whole, err := os.ReadFile(string(f))
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		bad := append([]byte{}, whole...)
		bad[i] ^= 1
		for _, raw := range [][]byte{whole[:i], bad} {
			if err := os.WriteFile(string(f), raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Load(); !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d: %v", i, err)
			}
			h := New(f)
			d := snapshot(t, h)
			if len(d.Hours) != 1 || !d.Hours[0].At.IsZero() {
				t.Fatalf("byte %d: %+v", i, d)
			}
			if err := h.Clean(d); err != nil || len(snapshot(t, New(f)).Hours) != 0 {
				t.Fatalf("byte %d: not cleaned: %v", i, err)
			}
		}
	}
}

func TestRange(t *testing.T) {
	var l Late
	l.AddRange(at(2)+5, at(4))
	l.Add(at(3))
	end, err := New(Memory{}).Begin(&l)
	if err != nil || len(l.list) != 4 || !l.list[2].Imported || l.list[3].Imported {
		t.Fatalf("%+v, %v", l, err)
	}
	end()
	if HourOf(-1) != -hourMillis || HourOf(0) != 0 || HourOf(hourMillis-1) != 0 {
		t.Error("hours begin wrongly")
	}
}
