package task

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/sensortest"
)

func open(t *testing.T, o Options) *Source {
	t.Helper()
	s, _, err := Open(o)
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// combinations are all that can be asked for.
func combinations() []Options {
	return []Options{
		{}, {Source: EBPF, Exits: EBPF}, {Source: EBPF, Exits: Taskstats}, {Source: EBPF, Exits: None},
		{Source: Procfs, Exits: EBPF}, {Source: Procfs, Exits: Taskstats}, {Source: Procfs, Exits: None},
	}
}

func (o Options) String() string { return o.Source + " and " + o.Exits }

func TestContract(t *testing.T) {
	for _, o := range combinations() {
		t.Run(o.String(), func(t *testing.T) {
			s := open(t, o)
			if o.Source != "" && (s.Live() != o.Source || s.Name() != o.Source) {
				t.Errorf("live from %q", s.Live())
			}
			if want := strings.TrimPrefix(o.Exits, None); o.Source != "" && s.Exits() != want {
				t.Errorf("exits from %q, want %q", s.Exits(), want)
			}
			if o.Exits != Taskstats {
				return // the sources have their own tests; these are joined here
			}
			sensortest.RunTasks(t, func(t *testing.T) sensor.TaskSource { return open(t, o) }, sensortest.TaskOptions{
				Want: sensor.FieldSwap | sensor.FieldMemory | sensor.FieldGroup | sensor.FieldParent,
			})
		})
	}
}

// TestEndsOnce tests with every combination that children which a pass may or may not have
// seen are reported as ended exactly once, and never alive afterwards.
func TestEndsOnce(t *testing.T) {
	for _, o := range combinations() {
		t.Run(o.String(), func(t *testing.T) {
			s := open(t, o)
			if s.Exits() == "" {
				t.Skip("no exit records")
			}
			var p sensor.Pass
			ended, lengths, began := make(map[int32]int), make(map[int]time.Duration), time.Now()
			take := func() {
				p.Reset()
				if err := s.Read(&p); err != nil {
					t.Fatal(err)
				}
				for i := range p.Exited {
					if q := &p.Exited[i]; q.PPID == int32(os.Getpid()) {
						ended[q.PID]++
						if slept := lengths[int(q.PID)]; q.Life < uint64(slept) || q.Life > uint64(time.Since(began)) {
							t.Errorf("%d slept %v and is told to have lived %v, %v after the first began", q.PID, slept,
								time.Duration(q.Life), time.Since(began))
						}
					}
				}
				for i := range p.Live {
					if q := &p.Live[i]; ended[q.PID] > 0 && q.PPID == int32(os.Getpid()) {
						t.Errorf("%d is reported alive (%c) after its end", q.PID, q.State)
					}
				}
			}
			var pids []int
			for i := range 60 {
				c := exec.Command("sleep", "0.00"+strconv.Itoa(1+i%7))
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				pids = append(pids, c.Process.Pid)
				lengths[c.Process.Pid] = time.Duration(1+i%7) * time.Millisecond
				if i%3 == 0 {
					take()
				}
				if i%5 == 0 { // leave a zombie for a pass
					var info unix.Siginfo
					_ = unix.Waitid(unix.P_PID, c.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
					take()
				}
				if err := c.Wait(); err != nil {
					t.Fatal(err)
				}
			}
			for range 300 {
				if take(); len(ended) >= len(pids) {
					break
				}
				unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
			}
			take()
			for _, pid := range pids {
				if ended[int32(pid)] != 1 {
					t.Errorf("%d is reported as ended %d times", pid, ended[int32(pid)])
				}
			}
		})
	}
}

// TestSourcesAgree compares eBPF with procfs on whatever runs here.
func TestSourcesAgree(t *testing.T) {
	a, b := open(t, Options{Source: EBPF, Exits: None}), open(t, Options{Source: Procfs, Exits: None})
	var before, p, after sensor.Pass
	for _, step := range []struct {
		s *Source
		p *sensor.Pass
	}{{a, &before}, {b, &p}, {a, &after}} {
		if err := step.s.Read(step.p); err != nil {
			t.Fatal(err)
		}
	}
	compared, rested := 0, 0
	for i := range p.Live {
		q := &p.Live[i]
		lo, hi := findLiving(before.Live, q.PID), findLiving(after.Live, q.PID)
		if lo == nil || hi == nil || lo.Start != hi.Start {
			continue // it began or ended meanwhile
		}
		compared++
		const tick = 20e6
		cpu := func(p *sensor.Process) uint64 { return p.UserNanos + p.SystemNanos }
		if cpu(q)+tick < cpu(lo) || cpu(q) > cpu(hi)+tick {
			t.Errorf("%d %s: CPU time %d, eBPF says %d to %d", q.PID, q.Comm, cpu(q), cpu(lo), cpu(hi))
		}
		if !sensor.SameStart(q.Start, lo.Start) || q.UID != lo.UID || q.Kernel != lo.Kernel {
			t.Errorf("%d %s: start %d user %d kernel %v, eBPF says %d %d %v", q.PID, q.Comm, q.Start, q.UID, q.Kernel, lo.Start, lo.UID,
				lo.Kernel)
		}
		if (q.PPID != lo.PPID || q.PGID != lo.PGID || q.SID != lo.SID) && (q.PPID != hi.PPID || q.PGID != hi.PGID || q.SID != hi.SID) {
			t.Errorf("%d %s: parent %d group %d session %d, eBPF says %d %d %d", q.PID, q.Comm, q.PPID, q.PGID, q.SID, lo.PPID, lo.PGID,
				lo.SID)
		}
		// It slept all the time. One that ran for less than a clock tick has the CPU time that it had, and may have begun two programs,
		// each
		// with a memory of its own.
		slept := lo.State != 'R' && hi.State != 'R' && lo.Voluntary == hi.Voluntary && lo.Involuntary == hi.Involuntary
		if slept && cpu(lo) == cpu(hi) && cpu(q) == cpu(lo) {
			rested++
			const pages = 64 << 12
			near := func(x, y, z uint64) bool { return x+pages > min(y, z) && x < max(y, z)+pages }
			if q.Have&sensor.FieldMemory != 0 &&
				(!near(q.Anon, lo.Anon, hi.Anon) || !near(q.File, lo.File, hi.File) || !near(q.Shmem, lo.Shmem, hi.Shmem)) {
				t.Errorf("%d %s: memory %d %d %d, eBPF says %d %d %d", q.PID, q.Comm, q.Anon, q.File, q.Shmem, lo.Anon, lo.File, lo.Shmem)
			}
			if q.Have&sensor.FieldThreads != 0 && q.Threads != lo.Threads {
				t.Errorf("%d %s: %d threads, eBPF says %d", q.PID, q.Comm, q.Threads, lo.Threads)
			}
		}
	}
	if compared < 2 {
		t.Errorf("only %d processes could be compared", compared)
	}
	if rested < 1 {
		t.Errorf("the memory of none of %d processes could be compared", compared)
	}
}

// TestCgroupOfOtherSource tests that paths are known whichever source gave the number.
func TestCgroupOfOtherSource(t *testing.T) {
	s := open(t, Options{Source: Procfs, Exits: EBPF})
	var p sensor.Pass
	c := exec.Command("true")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		p.Reset()
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		for i := range p.Exited {
			q := &p.Exited[i]
			if q.PID != int32(c.Process.Pid) {
				continue
			}
			there, ok := s.CgroupPaths(q.Cgroup)
			here, ok2 := s.CgroupPaths(findLiving(p.Live, int32(os.Getpid())).Cgroup)
			if !ok || !ok2 || len(there) == 0 || len(there) != len(here) {
				t.Errorf("the child was in %v, we are in %v", there, here)
			}
			return
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	t.Error("the child is not reported as ended")
}

func TestWrongWords(t *testing.T) {
	for _, o := range []Options{{Source: "bpf"}, {Exits: "all"}} {
		if _, _, err := Open(o); err == nil || !strings.Contains(err.Error(), "use auto") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestOtherMachine opens a file tree of another kernel than the running one.
func TestOtherMachine(t *testing.T) {
	root := t.TempDir()
	for _, o := range []Options{{Source: EBPF}, {Source: Procfs, Exits: Taskstats}, {}} {
		o.Root = root
		if _, _, err := Open(o); !errors.Is(err, sensor.ErrUnavailable) || !strings.Contains(err.Error(), root) {
			t.Errorf("%v: %v", o, err)
		}
	}
	// With a process table of its own it is read by procfs, and the notes explain why not otherwise.
	for name, text := range map[string]string{
		"proc/1/stat": "1 (init) S 0 1 1 0 -1 4194560 100 0 0 0 5 3 0 0 20 0 1 0 100 1000000 200 18446744073709551615 0 0 0 0 0 0 0 0 " +
			"0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		"proc/1/status": "Name:\tinit\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t1\nPid:\t1\nPPid:\t0\nUid:\t0\t0\t0\t0\nThreads:\t1\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, notes, err := Open(Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Live() != Procfs || s.Exits() != "" || len(notes) != 2 {
		t.Errorf("live %q exits %q, notes %v", s.Live(), s.Exits(), notes)
	}
	for _, n := range notes {
		if !errors.Is(n.Err, sensor.ErrUnavailable) {
			t.Errorf("%s: %v", n.Sensor, n.Err)
		}
	}
}

// TestUnprivileged opens everything as a user without rights, in a process of its own.
func TestUnprivileged(t *testing.T) {
	const inside = "RECKON_TEST_UNPRIVILEGED"
	if os.Getuid() == 0 && os.Getenv(inside) == "" {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Skip("not available here: ", err)
		}
		uid, _ := strconv.ParseUint(nobody.Uid, 10, 32)
		exe := filepath.Join("/tmp", "reckon-task-"+strconv.Itoa(os.Getpid()))
		data, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(exe, data, 0o755); err != nil {
			t.Skip("not available here: ", err)
		}
		defer os.Remove(exe)
		c := exec.Command(exe, "-test.run=^TestUnprivileged$", "-test.v")
		c.Dir, c.Env = "/", append(os.Environ(), inside+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		out, err := c.CombinedOutput()
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("as nobody: %v\n%s", err, out)
		}
		return
	}
	if os.Getuid() == 0 {
		t.Fatal("still root")
	}
	s, notes, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, n := range notes {
		var u *sensor.UnavailableError
		if !errors.As(n.Err, &u) || u.Reason == "" || u.Fix == "" {
			t.Errorf("%s: %v does not say why and what to do", n.Sensor, n.Err)
		}
		t.Logf("%s: %v", n.Sensor, n.Err)
	}
	if s.Live() == Procfs && len(notes) == 0 {
		t.Error("nothing says why eBPF is not used")
	}
	for _, o := range []Options{{Source: EBPF}, {Exits: Taskstats}, {Exits: EBPF}} {
		s, _, err := Open(o)
		if err == nil {
			_ = s.Close() // somebody gave us the rights
			continue
		}
		if !errors.Is(err, sensor.ErrUnavailable) {
			t.Errorf("%v: %v", o, err)
		}
	}
}

// fake is a table and a source of exits with given contents.
type fake struct {
	live, ended []sensor.Process
	closed      bool
	boot        uint64
}

func (f *fake) Name() string { return "fake" }
func (f *fake) Close() error { f.closed = true; return nil }
func (f *fake) Read(p *sensor.Pass) error {
	p.Boot = f.boot
	p.Live = append(p.Live, f.live...)
	return nil
}
func (f *fake) Drain(p *sensor.Pass) error {
	p.Exited = append(p.Exited, f.ended...)
	f.ended = nil
	return nil
}

// TestRecordOfAChildThatWasWaitedFor: a process that began while the table was read and that its parent may have waited for
// before that was read is reported with it: a later report would be charged beside the child times.
func TestRecordOfAChildThatWasWaitedFor(t *testing.T) {
	second := uint64(time.Second)
	const parent = sensor.FieldParent
	f := &fake{boot: 100 * second, live: []sensor.Process{{PID: 3, Start: 10 * second}}}
	s := &Source{live: f, exits: f}
	f.ended = []sensor.Process{
		{PID: 9, PPID: 8, Have: parent, Start: 100*second + 3}, // of one that ended, too
		{PID: 8, PPID: 3, Have: parent, Start: 100*second + 2},
		{PID: 6, PPID: 5, Have: parent, Start: 100*second + 2}, // of one that lives, and began itself after the table was read
		{PID: 7, PPID: 6, Have: parent, Start: 100*second + 3},
	}
	for i, want := range [][]int32{{9, 8}, {6, 7}} {
		var p sensor.Pass
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		var got []int32
		for i := range p.Exited {
			got = append(got, p.Exited[i].PID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("reading %d: told %v, want %v", i, got, want)
		}
		f.boot += second
	}
}

// TestRecordOfAChildOfAnUnreadParent: when a process began is known to a second or less, so that one whose parent began while the table was
// read may seem to be older than the reading. Its record waits for a reading that has the parent, once.
func TestRecordOfAChildOfAnUnreadParent(t *testing.T) {
	second := uint64(time.Second)
	const parent = sensor.FieldParent
	for name, c := range map[string]struct {
		record  sensor.Process
		appears bool // its parent, in the next reading
		waits   bool
	}{
		"a parent that is read next": {sensor.Process{PPID: 5, Have: parent}, true, true},
		"one that nobody sees":       {sensor.Process{PPID: 5, Have: parent}, false, true},
		"one that is read":           {sensor.Process{PPID: 3, Have: parent}, false, false},
		"one that ended":             {sensor.Process{PPID: 7, Have: parent}, false, false},
		"a record with its group":    {sensor.Process{PPID: 5, Have: parent | sensor.FieldGroup}, true, false},
		"a record without a parent":  {sensor.Process{PPID: 5}, true, false},
		"a child of the kernel":      {sensor.Process{Have: parent}, false, false},
	} {
		f := &fake{boot: 100 * second, live: []sensor.Process{{PID: 3, Start: 10 * second}}}
		s := &Source{live: f, exits: f}
		c.record.PID, c.record.Start = 6, 100*second-second/2
		f.ended = []sensor.Process{c.record, {PID: 7, PPID: 3, Have: parent, Start: 99 * second}}
		for reading, want := range []bool{!c.waits, c.waits, false} {
			var p sensor.Pass
			if err := s.Read(&p); err != nil {
				t.Fatal(err)
			}
			if got := slices.ContainsFunc(p.Exited, func(e sensor.Process) bool { return e.PID == 6 }); got != want {
				t.Errorf("%s, reading %d: told %t, want %t", name, reading, got, want)
			}
			if f.boot += second; c.appears {
				f.live = []sensor.Process{{PID: 3, Start: 10 * second}, {PID: 5, Start: 100*second + 1}}
			}
		}
	}
}

// TestRecordWaitsForZombie tests that the record of a process waits while it is in the table, and
// the record of one that began after the table was read until the next reading.
func TestRecordWaitsForZombie(t *testing.T) {
	second := uint64(time.Second)
	f := &fake{boot: 100 * second, live: []sensor.Process{{PID: 3, Start: 100 * second}, {PID: 5, Start: 7 * second}}}
	s := &Source{live: f, exits: f}
	f.ended = []sensor.Process{
		{PID: 3, Start: 100*second - second/2}, // still there, and reported with another resolution
		{PID: 4, Start: 100 * second},          // gone
		{PID: 5, Start: 2 * second},            // gone, and its id is another's now
	}
	told := func() (pids []int32) {
		var p sensor.Pass
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		for i := range p.Exited {
			pids = append(pids, p.Exited[i].PID)
		}
		return pids
	}
	if got := told(); len(got) != 2 || got[0] != 4 || got[1] != 5 {
		t.Errorf("told %v", got)
	}
	if got := told(); len(got) != 0 {
		t.Errorf("told %v of a zombie", got)
	}
	f.live = f.live[1:]
	if got := told(); len(got) != 1 || got[0] != 3 {
		t.Errorf("told %v", got)
	}
	if got := told(); len(got) != 0 {
		t.Errorf("told %v again", got)
	}
	f.ended = []sensor.Process{{PID: 7, Start: 100*second + 1}}
	if got := told(); len(got) != 0 {
		t.Errorf("told %v, which began after the table was read", got)
	}
	f.boot += second
	if got := told(); len(got) != 1 || got[0] != 7 {
		t.Errorf("told %v at the next reading", got)
	}
}
