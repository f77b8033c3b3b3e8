package senders

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/transport/instance"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// machine is one agent of a test.
type machine struct {
	instance.ID
	started time.Time
}

func agent(id, machineID, boot string, started time.Time) *machine {
	return &machine{instance.ID{Agent: id, Machine: machineID, Boot: boot}, started}
}

type fixture struct {
	*Registry
	now time.Time
}

func newFixture(file string) *fixture {
	f := &fixture{now: begin}
	f.Registry = New(Options{File: file, Clock: func() time.Time { return f.now }})
	return f
}

func (f *fixture) send(m *machine) error {
	_, err := f.after(m)
	return err
}

func (f *fixture) after(m *machine) (time.Time, error) {
	return f.Admit(instance.Sender{ID: m.ID, Node: "n1", Age: f.now.Sub(m.started), Sent: f.now.Add(3 * time.Second)}, m.Agent+" address")
}

func refused(err error) bool {
	var taken *TakenError
	return errors.As(err, &taken)
}

func TestSecondMachine(t *testing.T) {
	early := begin.Add(-time.Hour)
	for name, tt := range map[string]struct {
		second *machine
		silent time.Duration // of the first, before the second comes
		want   bool          // that the second is refused
	}{
		"another machine":                        {agent("b", "m2", "b2", early), 15 * time.Second, true},
		"a clone that has its own state":         {agent("b", "m1", "b2", early), 15 * time.Second, true},
		"a clone with its state":                 {agent("a", "m1", "b2", early), 15 * time.Second, true},
		"a second agent on the machine":          {agent("b", "m1", "b1", early), 15 * time.Second, true},
		"restarted":                              {agent("a", "m1", "b1", begin.Add(5*time.Second)), 15 * time.Second, false},
		"rebooted, at once":                      {agent("a", "m1", "b2", begin.Add(5*time.Second)), TakeoverAfter - time.Millisecond, true},
		"rebooted":                               {agent("a", "m1", "b2", begin.Add(5*time.Second)), TakeoverAfter, false},
		"set up again":                           {agent("b", "m2", "b2", begin.Add(5*time.Second)), TakeoverAfter, false},
		"its state lost":                         {agent("b", "m1", "b1", begin.Add(5*time.Second)), TakeoverAfter, false},
		"a clone that ran before":                {agent("b", "m1", "b2", begin.Add(-time.Millisecond)), ReleaseAfter - time.Millisecond, true},
		"a machine that ran before, name free":   {agent("b", "m2", "b2", early), ReleaseAfter, false},
		"a clone that ran before, the name free": {agent("a", "m1", "b2", early), ReleaseAfter, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, first := newFixture(""), agent("a", "m1", "b1", early)
			if err := f.send(first); err != nil {
				t.Fatal(err)
			}
			f.now = begin.Add(tt.silent)
			if err := f.send(tt.second); refused(err) != tt.want {
				t.Fatalf("refused: %v, want %t", err, tt.want)
			}
			s, ok := f.Sender("", "n1")
			if !ok || (s.Other != nil) != tt.want || s.Skew != 3*time.Second {
				t.Errorf("%+v", s)
			}
			if !tt.want {
				return
			}
			for range 3 { // the first goes on, and the second never gets in meanwhile
				f.now = f.now.Add(15 * time.Second)
				if err := f.send(first); err != nil {
					t.Errorf("the first is refused: %v", err)
				}
				if !refused(f.send(tt.second)) {
					t.Error("the second got in")
				}
			}
			if s, _ = f.Sender("", "n1"); s.Other.Refused != 4 || s.Other.Address != tt.second.Agent+" address" || s.ID != first.ID {
				t.Errorf("%+v", s.Other)
			}
			f.now = f.now.Add(ReleaseAfter)
			if s, _ = f.Sender("", "n1"); s.Other != nil {
				t.Error("one that is gone is shown")
			}
		})
	}
}

// A person lets the second machine take the place; the first is then the one too many.
func TestRelease(t *testing.T) {
	f, a, b := newFixture(""), agent("a", "m1", "b1", begin.Add(-time.Hour)), agent("b", "m2", "b2", begin.Add(-time.Hour))
	if f.Release("", "n1") {
		t.Error("a name that nobody has was given away")
	}
	if err := f.send(a); err != nil || !refused(f.send(b)) {
		t.Fatal(err)
	}
	if !f.Release("", "n1") || !refused(f.send(a)) || f.send(b) != nil {
		t.Error("the second did not take the place")
	}
}

// What a machine measured while another had the name is not taken when it gets that: not after a person gave it away, after a silence, after
// a restart of its agent or of the server. A machine that booted, or was set up again, has measured nothing meanwhile that is not its own.
func TestWhatAnotherMeasured(t *testing.T) {
	early, file := begin.Add(-time.Hour), filepath.Join(t.TempDir(), "senders.json")
	for name, c := range map[string]struct {
		second *machine
		before bool // it was refused while the first sent
		then   func(f *fixture, second *machine) *fixture
		want   time.Time
	}{
		"given away": {agent("b", "m2", "b2", early), true, func(f *fixture, _ *machine) *fixture {
			f.now = f.now.Add(time.Second)
			f.Release("", "n1")
			return f
		}, begin},
		"given away, and the server restarted": {agent("b", "m2", "b2", early), true, func(f *fixture, _ *machine) *fixture {
			f.Release("", "n1")
			return newFixture(file)
		}, begin},
		"silence": {agent("b", "m1", "b2", early), true, func(f *fixture, _ *machine) *fixture { f.now = begin.Add(ReleaseAfter); return f }, begin},
		"silence, and its agent restarted": {agent("b", "m1", "b2", early), true, func(f *fixture, m *machine) *fixture {
			f.now, m.started = begin.Add(TakeoverAfter), begin.Add(time.Second)
			return f
		}, begin},
		"booted":       {agent("a", "m1", "b2", begin.Add(time.Second)), false, func(f *fixture, _ *machine) *fixture { f.now = begin.Add(TakeoverAfter); return f }, time.Time{}},
		"set up again": {agent("b", "m2", "b2", begin.Add(time.Second)), false, func(f *fixture, _ *machine) *fixture { f.now = begin.Add(TakeoverAfter); return f }, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			f, first := newFixture(file), agent("a", "m1", "b1", early)
			if after, err := f.after(first); err != nil || !after.IsZero() {
				t.Fatal(after, err)
			}
			if c.before && !refused(f.send(c.second)) {
				t.Fatal("the second got in")
			}
			f = c.then(f, c.second)
			for range 2 {
				if after, err := f.after(c.second); err != nil || !after.Equal(c.want) {
					t.Errorf("after %v (%v), want %v", after, err, c.want)
				}
				f.now = f.now.Add(time.Second)
			}
			_ = os.Remove(file)
		})
	}
}

// Who holds a name is known after a restart, and has time to send again.
func TestRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "senders.json")
	f, a, b := newFixture(file), agent("a", "m1", "b1", begin.Add(-time.Hour)), agent("b", "m2", "b2", begin.Add(-time.Hour))
	if err := f.send(a); err != nil {
		t.Fatal(err)
	}
	if g := newFixture(file); !refused(g.send(b)) || g.send(a) != nil {
		t.Error("after a restart the second got in")
	}
	raw, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(raw), `"node":"n1"`) {
		t.Errorf("%s, %v", raw, err)
	}
	raw[3] ^= 1
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if g := newFixture(file); g.send(b) != nil || !refused(g.send(a)) {
		t.Error("after damage the first that sends has the name")
	}
}
