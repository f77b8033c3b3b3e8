package fuse

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"reckon/sensor"
	"reckon/sensor/task/fuse/fusetest"
)

// TestMain is also the program that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "use" {
		if err := use(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func open(t testing.TB) *Source {
	t.Helper()
	s, err := Open(Options{})
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func read(t testing.TB, s *Source, p *sensor.MountPass) {
	t.Helper()
	if err := s.ReadMounts(p); err != nil {
		t.Fatal(err)
	}
}

// Every read, write and lookup of a process that ended between two readings is charged to it, by mount.
func TestUse(t *testing.T) {
	s := open(t)
	one, two := t.TempDir(), t.TempDir()
	fusetest.Serve(t, one, "host:/one dir")
	fusetest.Serve(t, two, "two")
	var p sensor.MountPass
	read(t, s, &p)
	p.Reset()
	pids := map[string]int32{}
	began := time.Now()
	for _, dir := range []string{one, two} {
		c := exec.Command("/proc/self/exe", "use", dir)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		pids[dir] = int32(c.Process.Pid)
	}
	took := time.Since(began)
	read(t, s, &p)
	for dir, source := range map[string]string{one: "host:/one dir", two: "two"} {
		var got sensor.MountUse
		for i := range p.Used {
			if u := &p.Used[i]; u.PID == pids[dir] {
				got.Add(&u.Use)
				if want := (sensor.Mount{Type: "fuse.test", Source: source}); u.Mount != want {
					t.Errorf("process %d used %+v, want %+v", u.PID, u.Mount, want)
				}
			}
		}
		metadata := got.Operations[sensor.MountMetadata]
		if got.Bytes != [2]uint64{reads * readSize, writes * writeSize} || got.Operations[sensor.MountRead] != reads || got.Operations[sensor.MountWrite] != writes || metadata < lookups || metadata > 1.01*lookups {
			t.Errorf("%s: %+v", source, got)
		}
		var sum uint64
		for _, n := range got.Nanos {
			if n == 0 {
				t.Errorf("%s took no time: %v", source, got.Nanos)
			}
			sum += n
		}
		if time.Duration(sum) > took {
			t.Errorf("%s took %v of %v", source, time.Duration(sum), took)
		}
	}
	for range 3 {
		p.Reset()
		read(t, s, &p)
	}
	var key uint32
	var value []byte
	for it := s.accounts.Map.Iterate(); it.Next(&key, &value); {
		if int32(key) == pids[one] || int32(key) == pids[two] {
			t.Error("the account of a process that ended is still there")
		}
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	s := open(t)
	var p sensor.MountPass
	read(t, s, &p)
	if n := testing.AllocsPerRun(20, func() { p.Reset(); read(t, s, &p) }); n > 0 {
		t.Errorf("a reading allocates %v times", n)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ReadMounts(&p); err == nil {
		t.Error("a source that is closed was read")
	}
}
