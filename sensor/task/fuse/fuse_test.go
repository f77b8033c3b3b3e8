package fuse

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/sensor"
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
	serve(t, one, "host:/one dir")
	serve(t, two, "two")
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

// A device is found by its number in the table of a process, by that of the machine where it has gone, and is nobody's if none has it.
func TestNames(t *testing.T) {
	root := t.TempDir()
	for pid, table := range map[string]string{
		"1":  "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n44 36 0:45 / /home/a\\040b rw - fuse.sshfs u@host:/home/a\\040b rw\nodd line\n",
		"77": "91 36 0:60 / /job rw,nosuid - fuse rclone: rw\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, "proc", pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "proc", pid, "mountinfo"), []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n := names{root: root, known: make(map[uint64]sensor.Mount)}
	for i, c := range []struct {
		dev  uint64
		pid  int32
		want sensor.Mount
	}{
		{45, 5, sensor.Mount{Type: "fuse.sshfs", Source: "u@host:/home/a b"}},
		{60, 5, others},
		{60, 77, sensor.Mount{Type: "fuse", Source: "rclone:"}},
		{60, 5, sensor.Mount{Type: "fuse", Source: "rclone:"}},
		{98 << 20, 5, sensor.Mount{Type: "ext3", Source: "/dev/root"}},
		{^uint64(0) - 1, 5, others},
	} {
		if got := n.of(c.dev+1, c.pid); got != c.want {
			t.Errorf("%d: device %d of process %d is %+v, want %+v", i, c.dev, c.pid, got, c.want)
		}
	}
	for i := range uint64(maxNames) {
		n.known[1000+i] = others
	}
	if got := n.of(45+2, 5); got != others {
		t.Errorf("beyond %d: %+v", maxNames, got)
	}
	if got := unescape(strings.Repeat("ä", 300)); len(got) > maxSource {
		t.Errorf("a name of %d bytes", len(got))
	}
}

func FuzzFind(f *testing.F) {
	f.Add("44 36 0:45 / /home rw - fuse.sshfs u@host:/home rw\n", uint64(45))
	f.Fuzz(func(t *testing.T, table string, dev uint64) {
		if m, ok := find(table, dev); ok && (m.Type == "" || len(m.Source) > maxSource) {
			t.Errorf("%+v", m)
		}
	})
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
