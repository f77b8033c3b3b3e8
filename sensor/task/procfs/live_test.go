package procfs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	prom "github.com/prometheus/procfs"

	"reckon/sensor"
	"reckon/sensor/sensortest"
)

const always = sensor.FieldFaults | sensor.FieldMemory | sensor.FieldSwap | sensor.FieldPeak | sensor.FieldCgroup |
	sensor.FieldGroup | sensor.FieldThreads | sensor.FieldParent | sensor.FieldCPUSplit

func TestConformance(t *testing.T) {
	for name, o := range map[string]Options{
		"clock":          {},
		"no clock":       {NoClock: true},
		"no descriptors": {Descriptors: 1},
	} {
		t.Run(name, func(t *testing.T) {
			sensortest.RunTasks(t, func(t *testing.T) sensor.TaskSource {
				s, err := New(o)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}, sensortest.TaskOptions{Want: always, CPUResolution: 30e6})
		})
	}
}

func TestNotHere(t *testing.T) {
	root := t.TempDir()
	if _, err := New(Options{Root: root}); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("no /proc: %v", err)
	}
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Root: root}); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("an empty /proc: %v", err)
	}
}

// TestAgrees reads processes that stand still with us and with prometheus/procfs.
func TestAgrees(t *testing.T) {
	pids := spawn(t, 5)
	other, err := prom.NewFS("/proc")
	if err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { // until they sleep
		for _, pid := range pids {
			p, err := other.Proc(int(pid))
			if err != nil {
				t.Fatal(err)
			}
			if st, err := p.Stat(); err != nil || st.State != "S" || st.Comm != "sleep" {
				return false
			}
		}
		return true
	})
	s := open(t, Options{})
	var pass sensor.Pass
	if err := s.Read(&pass); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		p := find(&pass, pid)
		if p == nil {
			t.Fatalf("process %d is missing", pid)
		}
		agrees(t, other, p)
	}
}

func agrees(t *testing.T, other prom.FS, p *sensor.Process) {
	t.Helper()
	proc, err := other.Proc(int(p.PID))
	if err != nil {
		t.Fatal(err)
	}
	st, err1 := proc.Stat()
	u, err2 := proc.NewStatus()
	sched, err3 := proc.Schedstat()
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string][2]uint64{
		"parent":      {uint64(p.PPID), uint64(st.PPID)},
		"group":       {uint64(p.PGID), uint64(st.PGRP)},
		"session":     {uint64(p.SID), uint64(st.Session)},
		"user":        {uint64(p.UID), u.UIDs[0]},
		"state":       {uint64(p.State), uint64(st.State[0])},
		"start":       {p.Start / 1e7, st.Starttime},
		"threads":     {uint64(p.Threads), uint64(st.NumThreads)},
		"minflt":      {p.MinorFaults, uint64(st.MinFlt)},
		"majflt":      {p.MajorFaults, uint64(st.MajFlt)},
		"anon":        {p.Anon, u.RssAnon},
		"file":        {p.File, u.RssFile},
		"shmem":       {p.Shmem, u.RssShmem},
		"swap":        {p.Swap, u.VmSwap},
		"peak":        {p.PeakBytes, u.VmHWM},
		"wait":        {p.WaitNanos, sched.WaitingNanoseconds},
		"cpu":         {p.UserNanos + p.SystemNanos, sched.RunningNanoseconds},
		"voluntary":   {p.Voluntary, u.VoluntaryCtxtSwitches},
		"involuntary": {p.Involuntary, u.NonVoluntaryCtxtSwitches},
	} {
		if v[0] != v[1] {
			t.Errorf("process %d: %s is %d, prometheus/procfs says %d", p.PID, name, v[0], v[1])
		}
	}
	if p.Comm.String() != st.Comm {
		t.Errorf("process %d: name %q, prometheus/procfs says %q", p.PID, p.Comm, st.Comm)
	}
	if d, err := proc.IO(); err == nil && p.Have&sensor.FieldIO != 0 && (d.ReadBytes != p.ReadBytes || d.WriteBytes != p.WriteBytes) {
		t.Errorf("process %d: I/O %d and %d, prometheus/procfs says %d and %d", p.PID, p.ReadBytes, p.WriteBytes, d.ReadBytes, d.WriteBytes)
	}
}

func find(p *sensor.Pass, pid int32) *sensor.Process {
	for i := range p.Live {
		if p.Live[i].PID == pid {
			return &p.Live[i]
		}
	}
	return nil
}

// wait gives another process time to do something.
func wait(t *testing.T, done func() bool) {
	t.Helper()
	for range 2000 {
		if done() {
			return
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 5e6}, nil)
	}
	t.Fatal("did not happen in 10 s")
}

// TestIdleIsNotRead counts the files that are opened or read for processes that sleep: none.
func TestIdleIsNotRead(t *testing.T) {
	pids := spawn(t, 20)
	s := open(t, Options{})
	if !s.clock {
		t.Skip("CPU clocks cannot be asked for here")
	}
	var p sensor.Pass
	if err := s.Read(&p); err != nil {
		t.Fatal(err)
	}
	mark := uint64(1)<<60 + 7
	idle := 0
	for range 3 { // until they have come to rest
		for _, e := range s.entries {
			e.due, e.finger, e.since = 1<<63, mark, 0
			e.p.Anon = mark // is overwritten by any reading of status
		}
		p.Reset()
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		idle = 0
		for _, pid := range pids {
			if q := find(&p, pid); q != nil && q.Anon == mark {
				idle++
			}
		}
		if idle == len(pids) {
			return
		}
	}
	t.Errorf("%d of %d sleeping processes were not read again", idle, len(pids))
}

// TestOrphan sees the new parent of a process after its parent ended, although it sleeps.
func TestOrphan(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := exec.Command("sh", "-c", "sleep 600 & echo $!; exec sleep 600")
	c.Stdout = w
	if err := c.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	w.Close()
	var line [32]byte
	n, _ := r.Read(line[:])
	child, err := strconv.Atoi(string(line[:max(n-1, 0)]))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Kill(child, unix.SIGKILL)
	s := open(t, Options{})
	var p sensor.Pass
	parent := func() int32 {
		p.Reset()
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		if q := find(&p, int32(child)); q != nil {
			return q.PPID
		}
		return -1
	}
	if got := parent(); got != int32(c.Process.Pid) {
		t.Errorf("parent %d, want %d", got, c.Process.Pid)
	}
	for _, e := range s.entries {
		e.due = 1 << 63
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	parent() // sees that it is gone
	if got := parent(); got == int32(c.Process.Pid) || got < 0 {
		t.Errorf("parent %d after it ended", got)
	}
}

// TestOwnIO tests that what waited-for children wrote is not added to the parent.
func TestOwnIO(t *testing.T) {
	dir := t.TempDir()
	script := `read a; dd if=/dev/zero of=` + dir + `/f bs=1M count=8 conv=fsync 2>/dev/null; echo done; read b`
	c := exec.Command("sh", "-c", script)
	in, _ := c.StdinPipe()
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	defer func() { in.Close(); _ = c.Wait() }()
	s := open(t, Options{})
	var p sensor.Pass
	read := func() *sensor.Process {
		p.Reset()
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		q := find(&p, int32(c.Process.Pid))
		if q == nil || q.Have&sensor.FieldIO == 0 {
			t.Skip("I/O of our child is not reported here")
		}
		return q
	}
	before := read().WriteBytes
	_, _ = in.Write([]byte("\n"))
	var ack [8]byte
	if _, err := out.Read(ack[:]); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.Process.Pid), "io"))
	if err != nil {
		t.Fatal(err)
	}
	if whole, err := parseIO(text); err != nil || whole.write < 8<<20 {
		t.Skipf("the kernel adds nothing here (%d bytes, %v): a file system in memory", whole.write, err)
	}
	if after := read().WriteBytes; after > before+1<<20 {
		t.Errorf("the shell is charged with %d bytes that dd wrote", after-before)
	}
}

func TestProc(t *testing.T) {
	c := exec.Command("sleep", "600")
	c.Env = []string{"SLURM_JOB_ID=4711", "OTHER=secret", "EMPTY=", "SLURM_JOB_ID=2", "ODD=a=b\nc"}
	if err := c.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	pid := int32(c.Process.Pid)
	var proc Proc
	var got map[string]string
	wait(t, func() bool { // until it has been started
		var err error
		if got, err = proc.Env(pid, "SLURM_JOB_ID", "EMPTY", "ODD", "ABSENT"); err != nil {
			t.Fatal(err)
		}
		return len(got) > 0
	})
	if len(got) != 3 || got["SLURM_JOB_ID"] == "" || got["ODD"] != "a=b\nc" {
		t.Errorf("environment %q", got)
	}
	paths, err := proc.Cgroups(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if p.Path == "" || p.Path[0] != '/' {
			t.Errorf("cgroup %+v", p)
		}
	}
	if _, _, err := proc.LoginSession(pid); err != nil {
		t.Error(err)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if _, err := proc.Cgroups(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("cgroups of a process that is gone: %v", err)
	}
	if _, err := proc.Env(pid, "A"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("environment of a process that is gone: %v", err)
	}
	if _, _, err := proc.LoginSession(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("session of a process that is gone: %v", err)
	}
}

// TestHostileCgroups makes cgroups with names that are not words and moves a process
// through them, to see what the kernel writes.
func TestHostileCgroups(t *testing.T) {
	mount := ""
	for _, dir := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		d := filepath.Join(dir, "reckon-test-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(d, 0o755) == nil {
			mount = dir
			_ = os.Remove(d)
			break
		}
	}
	if mount == "" {
		t.Skip("no cgroup may be made here")
	}
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	pid := int32(c.Process.Pid)
	s := open(t, Options{})
	var pass sensor.Pass
	seen := make(map[uint64]string)
	var made []string
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		for _, d := range made {
			_ = os.Remove(d)
		}
	}()
	for i, name := range []string{"a b", "a:b", `a\012b`, "é😀", "(deleted)", "x (deleted)", "\xff\x01"} {
		dir := filepath.Join(mount, "reckon-"+strconv.Itoa(os.Getpid())+"-"+name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		made = append(made, dir)
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(int(pid))), 0o644); err != nil {
			t.Skipf("move a process: %v", err)
		}
		paths, err := Proc{}.Cgroups(pid)
		if err != nil {
			t.Fatal(err)
		}
		want, found := "/"+filepath.Base(dir), false
		for _, p := range paths {
			found = found || filepath.Base(p.Path) == filepath.Base(want)
		}
		if !found && name != "x (deleted)" { // that one cannot be distinguished from a removed one
			t.Errorf("no %q in %q", want, paths)
		}
		for _, e := range s.entries {
			e.due = 0
		}
		pass.Reset()
		if err := s.Read(&pass); err != nil {
			t.Fatal(err)
		}
		p := find(&pass, pid)
		if other, dup := seen[p.Cgroup]; dup || p.Cgroup == 0 {
			t.Errorf("%d: %q has the number of %q", i, name, other)
		}
		seen[p.Cgroup] = name
	}
	if err := os.Mkdir(filepath.Join(mount, "reckon-a\nb"), 0o755); err == nil {
		t.Error("the kernel takes a newline: paths must be unescaped")
		_ = os.Remove(filepath.Join(mount, "reckon-a\nb"))
	}
}

// TestRunning tests that the files of a process that runs are kept open within bounds.
func TestRunning(t *testing.T) {
	s := open(t, Options{Descriptors: 3})
	var p sensor.Pass
	for range 20 { // we run ourselves
		p.Reset()
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
	}
	if s.files.used > 3 || s.files.used < 1 {
		t.Errorf("%d descriptors are kept, at most 3 allowed", s.files.used)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.files.used != 0 {
		t.Errorf("%d descriptors are left open", s.files.used)
	}
}

// TestDeniedIO tests reports of processes with I/O that may not be read.
func TestDeniedIO(t *testing.T) {
	s := open(t, Options{})
	var p sensor.Pass
	if err := s.Read(&p); err != nil {
		t.Fatal(err)
	}
	for _, e := range s.entries {
		markIODenied(e, unix.EACCES)
		if e.p.Have&sensor.FieldIO != 0 {
			t.Fatal("I/O that may not be read is reported")
		}
	}
}
