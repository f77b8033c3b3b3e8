package sensortest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// TaskOptions configure the suite for a source of processes.
type TaskOptions struct {
	// Recorded means that the processes do not run on this machine, so that only general properties
	// of a table are tested.
	Recorded bool
	// CPUResolution is the maximum lag of CPU time, in nanoseconds; 0 is 20 ms.
	CPUResolution uint64
	// StartResolution is the same for the start; 0 is 20 ms.
	StartResolution uint64
	// Want are the figures that the source has for processes of this user.
	Want sensor.Fields
	// Allocs is the number of allocations allowed for one Read after warm-up.
	Allocs float64
	// Passes is the number of readings of a recorded source; 0 is 5.
	Passes int
}

// RunTasks tests that a source of processes fulfils the contract of [sensor.TaskSource]. It starts a few short-lived
// child processes.
func RunTasks(t *testing.T, open func(t *testing.T) sensor.TaskSource, o TaskOptions) {
	if o.CPUResolution == 0 {
		o.CPUResolution = 20e6
	}
	if o.StartResolution == 0 {
		o.StartResolution = 20e6
	}
	if o.Passes == 0 {
		o.Passes = 5
	}
	s := func(t *testing.T) *taskReader {
		src := open(t)
		t.Cleanup(func() { _ = src.Close() })
		return &taskReader{t: t, src: src}
	}
	t.Run("any table", func(t *testing.T) { testInvariants(s(t), o) })
	t.Run("close twice", func(t *testing.T) {
		src := open(t)
		if err := src.Close(); err != nil {
			t.Error(err)
		}
		if err := src.Close(); err != nil {
			t.Errorf("again: %v", err)
		}
	})
	if o.Recorded {
		return
	}
	t.Run("this process", func(t *testing.T) { testOwnProcess(s(t), o) })
	t.Run("CPU time", func(t *testing.T) { testCPUTime(s(t), o) })
	t.Run("memory", func(t *testing.T) { testMemory(s(t), o) })
	t.Run("children", func(t *testing.T) { testChildren(s(t), o) })
	t.Run("names", func(t *testing.T) { testNames(s(t)) })
	t.Run("short lives", func(t *testing.T) { testShortLives(s(t)) })
	t.Run("a child's CPU is its own", func(t *testing.T) { testChildCPU(s(t), o) })
	t.Run("allocations", func(t *testing.T) { testAllocations(s(t), o) })
}

// taskReader reads a source and finds processes in it.
type taskReader struct {
	t    *testing.T
	src  sensor.TaskSource
	pass sensor.Pass
}

func (b *taskReader) read() {
	b.t.Helper()
	b.pass.Reset()
	if err := b.src.Read(&b.pass); err != nil {
		b.t.Fatalf("read: %v", err)
	}
}

// find returns a copy of a process of the last pass, or nil.
func (b *taskReader) find(pid int) *sensor.Process {
	for i := range b.pass.Live {
		if b.pass.Live[i].PID == int32(pid) {
			p := b.pass.Live[i]
			return &p
		}
	}
	return nil
}

// mustRead reads and returns a process that must be in the pass.
func (b *taskReader) mustRead(pid int) *sensor.Process {
	b.t.Helper()
	b.read()
	p := b.find(pid)
	if p == nil {
		b.t.Fatalf("process %d is not among the %d that live", pid, len(b.pass.Live))
	}
	return p
}

// testInvariants tests properties that hold for all processes.
func testInvariants(b *taskReader, o TaskOptions) {
	t := b.t
	type key struct {
		pid   int32
		start uint64
	}
	last := make(map[key]sensor.Process)
	boot := uint64(0)
	for range o.Passes {
		b.read()
		if b.pass.Boot < boot || b.pass.Boot == 0 {
			t.Errorf("the clock went from %d to %d", boot, b.pass.Boot)
		}
		boot = b.pass.Boot
		if len(b.pass.Live) == 0 {
			t.Fatal("no process lives")
		}
		pids := make(map[int32]bool)
		for _, p := range b.pass.Live {
			if p.PID <= 0 || pids[p.PID] {
				t.Errorf("process id %d is invalid or appears twice", p.PID)
			}
			pids[p.PID] = true
			if p.Comm[15] != 0 {
				t.Errorf("%d: the name %q is longer than 15 bytes", p.PID, p.Comm[:])
			}
			k := key{p.PID, p.Start}
			if was, ok := last[k]; ok {
				checkCountersGrow(t, &was, &p)
			}
			last[k] = p
		}
	}
}

func checkCountersGrow(t *testing.T, was, p *sensor.Process) {
	t.Helper()
	for _, c := range []struct {
		name     string
		was, now uint64
		field    sensor.Fields
	}{
		{"UserNanos", was.UserNanos, p.UserNanos, 0},
		{"SystemNanos", was.SystemNanos, p.SystemNanos, 0},
		{"WaitNanos", was.WaitNanos, p.WaitNanos, sensor.FieldWait},
		{"Voluntary", was.Voluntary, p.Voluntary, sensor.FieldSwitches},
		{"Turns", was.Turns, p.Turns, sensor.FieldTurns},
		{"Involuntary", was.Involuntary, p.Involuntary, sensor.FieldSwitches},
		{"MinorFaults", was.MinorFaults, p.MinorFaults, sensor.FieldFaults},
		{"MajorFaults", was.MajorFaults, p.MajorFaults, sensor.FieldFaults},
		{"ReadBytes", was.ReadBytes, p.ReadBytes, sensor.FieldIO},
		{"WriteBytes", was.WriteBytes, p.WriteBytes, sensor.FieldIO},
	} {
		have := was.Have & p.Have & c.field
		if have == c.field && c.now < c.was {
			t.Errorf("process %d (%s): %s fell from %d to %d", p.PID, p.Comm, c.name, c.was, c.now)
		}
	}
}

// testOwnProcess tests the record of the test process itself.
func testOwnProcess(b *taskReader, o TaskOptions) {
	t := b.t
	p := b.mustRead(os.Getpid())
	sid, _ := unix.Getsid(0)
	if p.Have&sensor.FieldParent != 0 && p.PPID != int32(os.Getppid()) {
		t.Errorf("parent %d, want %d", p.PPID, os.Getppid())
	}
	if p.Have&sensor.FieldGroup != 0 && (p.PGID != int32(unix.Getpgrp()) || p.SID != int32(sid)) {
		t.Errorf("group %d session %d, want %d and %d", p.PGID, p.SID, unix.Getpgrp(), sid)
	}
	if p.UID != uint32(os.Getuid()) {
		t.Errorf("user %d, want %d", p.UID, os.Getuid())
	}
	if p.Kernel {
		t.Error("is called a kernel thread")
	}
	if missing := o.Want &^ p.Have; missing != 0 {
		t.Errorf("figures %b are missing", missing)
	}
	if p.Start == 0 || p.Start > b.pass.Boot {
		t.Errorf("start %d, now %d", p.Start, b.pass.Boot)
	}
	if p.Have&sensor.FieldThreads != 0 && p.Threads < 2 {
		t.Errorf("%d threads: a Go program has more", p.Threads)
	}
	if p.Have&sensor.FieldCgroup != 0 && p.Cgroup == 0 {
		t.Error("cgroup 0 means unknown")
	}
	if n, ok := b.src.(sensor.CgroupNamer); ok && p.Have&sensor.FieldCgroup != 0 {
		if paths, known := n.CgroupPaths(p.Cgroup); !known || len(paths) == 0 {
			t.Errorf("the cgroups of our own number %d are not known", p.Cgroup)
		}
	}
}

func testAllocations(b *taskReader, o TaskOptions) {
	for range 20 {
		b.read()
	}
	// New processes may cause allocations, and a busy machine always has new processes, so the pass
	// with the fewest allocations counts.
	least := testing.AllocsPerRun(1, b.read)
	for range 200 {
		if least <= o.Allocs {
			return
		}
		least = min(least, testing.AllocsPerRun(1, b.read))
	}
	b.t.Errorf("%v allocations in each pass after warm-up, want at most %v", least, o.Allocs)
}
