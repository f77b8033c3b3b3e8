package ebpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

func TestLayout(t *testing.T) {
	// usage and the C structure are copied field by field; the sizes show when one grows.
	if unsafe.Sizeof(taskUsage{}) != unsafe.Sizeof(tasksThread{}.Use) {
		t.Errorf("usage has %d bytes, the record %d", unsafe.Sizeof(taskUsage{}), unsafe.Sizeof(tasksThread{}.Use))
	}
	for _, size := range []int{passSize, processSize, threadSize} {
		if size%8 != 0 {
			t.Errorf("a record of %d bytes: the next is not aligned", size)
		}
	}
}

func TestState(t *testing.T) {
	for state, want := range map[uint32]byte{
		0: 'R', 1: 'S', 2: 'D', 0x402: 'I', 4: 'T', 8: 't', 0x40: 'P', 0x8000: 'D', 0x1000: 'D', 0x2000: 'R',
		0x200000: 'Z', 0x100000: 'X', 0x200000 | 0x80: 'Z', 0x101: 'S',
	} {
		if got := stateLetter(state); got != want {
			t.Errorf("state %#x is %c, want %c", state, got, want)
		}
	}
}

// TestSplit tests that user and system time add up to the precise total, that neither
// ever falls, and that the ratio is the ratio of the ticks.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var u taskUsage
		var p sensor.Process
		for i := range 20 {
			u.runtime += rapid.Uint64Range(0, 1e12).Draw(t, "runtime")
			u.utime += rapid.Uint64Range(0, 1e12).Draw(t, "utime")
			u.stime += rapid.Uint64Range(0, 1e12).Draw(t, "stime")
			was := p
			setCounters(&p, &u, i > 0)
			if p.UserNanos+p.SystemNanos != u.runtime {
				t.Fatalf("%d and %d are not %d", p.UserNanos, p.SystemNanos, u.runtime)
			}
			if i > 0 && (p.UserNanos < was.UserNanos || p.SystemNanos < was.SystemNanos) {
				t.Fatalf("from %d and %d to %d and %d", was.UserNanos, was.SystemNanos, p.UserNanos, p.SystemNanos)
			}
		}
		user, system := splitCPU(u.runtime, u.utime, u.stime, false)
		want := float64(u.runtime) * (float64(u.stime) / max(1, float64(u.utime+u.stime)))
		if u.utime > 0 && u.stime > 0 && math.Abs(float64(system)-want) > 1+want*1e-9 {
			t.Fatalf("%d of %d is system, want %.0f", system, user+system, want)
		}
	})
	if user, system := splitCPU(1<<63, math.MaxUint64/2, math.MaxUint64, false); user+system != 1<<63 {
		t.Errorf("%d and %d", user, system)
	}
}

// process builds the bytes of a record as the kernel writes them.
func process(r tasksProcess) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&r)), processSize))
}

func thread(r tasksThread) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&r)), threadSize))
}

func unchanged(pid int32) []byte {
	r := tasksSame{Kind: kindSame, Pid: pid}
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&r)), sameSize))
}

// bare is a source without a kernel.
func bare() *Source {
	s := &Source{page: 4096, sets: make(map[uint64]*cgroupSet), claimed: make(map[int32]claimedProcess)}
	s.names.root = "/nowhere"
	s.names.names = map[uint32]string{4: "memory", 9: "name=systemd"}
	s.kernel = &loadedPrograms{}
	return s
}

// pass plays one pass of given records.
func pass(t *testing.T, s *Source, records ...[]byte) *sensor.Pass {
	t.Helper()
	if err := play(s, bytes.Join(records, nil)); err != nil {
		t.Fatal(err)
	}
	p := new(sensor.Pass)
	for _, w := range s.table.rows {
		p.Live = append(p.Live, w.process)
	}
	s.keepEnding()
	s.table.freeLeft()
	return p
}

// play is walk with given bytes.
func play(s *Source, b []byte) error {
	s.table.beginPass(false)
	s.threads = s.threads[:0]
	err := s.parseRecords(b)
	s.addThreads()
	s.table.computeFigures()
	s.table.endPass()
	return err
}

// TestThreads tests which threads are added to their process, when some end during the pass.
func TestThreads(t *testing.T) {
	leader := tasksProcess{Kind: kindProcess, Pid: 10, Seq: 4, Start: 7, Flags: haveWait}
	leader.Use.Runtime, leader.Use.Wait = 100, 10
	th := func(pid int32, seq uint32, runtime, wait uint64) []byte {
		r := tasksThread{Kind: kindThread, Pid: pid, Seq: seq}
		r.Use.Runtime, r.Use.Wait = runtime, wait
		return thread(r)
	}
	s := bare()
	p := pass(t, s, th(10, 4, 1, 5), process(leader), th(10, 4, 20, 7), th(11, 4, 1000, 0))
	if got := p.Live[0].UserNanos; got != 121 {
		t.Errorf("runtime %d, want that of the leader, of a thread with a lower id, and of one after it", got)
	}
	if got := p.Live[0].WaitNanos; got != 22 {
		t.Errorf("wait %d, want 22", got)
	}
	// The thread of 20 ends after the leader was read: it is missing, nothing falls.
	p = pass(t, s, process(leader), th(10, 4, 1, 5))
	if got := p.Live[0].UserNanos; got != 121 {
		t.Errorf("runtime %d fell", got)
	}
	// The thread with the lower id was read before it ended, the leader after: it is not counted twice.
	leader.Seq, leader.Use.Runtime = 8, 400
	p = pass(t, s, th(10, 6, 150, 9), process(leader))
	if got := p.Live[0].UserNanos; got != 400 {
		t.Errorf("runtime %d, want 400", got)
	}
	if got := p.Live[0].WaitNanos; got != 22 {
		t.Errorf("wait %d, want 22: what ended threads waited is not kept by the kernel", got)
	}
	// The totals were being written: the totals of the pass before are reported.
	leader.Flags |= unstable
	leader.Use.Runtime = 9000
	if p = pass(t, s, process(leader)); p.Live[0].UserNanos != 400 {
		t.Errorf("runtime %d from totals that were being written", p.Live[0].UserNanos)
	}
}

// TestProcessorParts tests that what the processors have not handed in is part of the memory.
func TestProcessorParts(t *testing.T) {
	r := tasksProcess{Kind: kindProcess, Pid: 10, Start: 7, Flags: haveMM | haveMemory, Pages: [4]int64{5, 100, 0, 1}, Delta: [4]int64{1, -30, 0, -9}, Peak: 60}
	s := bare()
	want := func(p *sensor.Pass, file, anon, shmem, peak uint64) {
		t.Helper()
		q := &p.Live[0]
		if q.File != file*4096 || q.Anon != anon*4096 || q.Shmem != shmem*4096 || q.PeakBytes != peak*4096 {
			t.Errorf("%d %d %d peak %d, want %d %d %d peak %d pages", q.File/4096, q.Anon/4096, q.Shmem/4096, q.PeakBytes/4096, file, anon, shmem, peak)
		}
	}
	want(pass(t, s, process(r)), 6, 70, 0, 76)
	want(pass(t, s, unchanged(10)), 6, 70, 0, 76)
	r.Start = 8 // another process with the same id
	r.Delta = [4]int64{}
	want(pass(t, s, process(r)), 5, 100, 1, 106)
	r.Flags = haveMM
	if q := pass(t, s, process(r)).Live[0]; q.Have&(sensor.FieldMemory|sensor.FieldPeak) != 0 {
		t.Error("memory that the kernel did not tell is called known")
	}
}

// TestUnchanged tests processes that are reported as in the last pass, beside such that come and go.
func TestUnchanged(t *testing.T) {
	s := bare()
	of := func(pid int32, runtime uint64) []byte {
		r := tasksProcess{Kind: kindProcess, Pid: pid, Start: uint64(pid), Threads: 1, Flags: haveGroup}
		r.Use.Runtime = runtime
		return process(r)
	}
	want := func(p *sensor.Pass, cpu ...uint64) {
		t.Helper()
		if len(p.Live)*2 != len(cpu) {
			t.Fatalf("%d processes, want %v", len(p.Live), cpu)
		}
		for i := range p.Live {
			if q := &p.Live[i]; q.PID != int32(cpu[2*i]) || q.UserNanos != cpu[2*i+1] || q.Start != cpu[2*i] {
				t.Errorf("%d used %d, want %v", q.PID, q.UserNanos, cpu)
			}
		}
		if s.table.holes {
			t.Error("somebody is not known")
		}
	}
	want(pass(t, s, of(3, 30), of(5, 50), of(9, 90)), 3, 30, 5, 50, 9, 90)
	want(pass(t, s, unchanged(3), of(5, 55), unchanged(9)), 3, 30, 5, 55, 9, 90)
	want(pass(t, s, unchanged(3), of(4, 1), unchanged(5), unchanged(9)), 3, 30, 4, 1, 5, 55, 9, 90)
	want(pass(t, s, unchanged(4), unchanged(9)), 4, 1, 9, 90)
	if len(s.held) != 2 {
		t.Errorf("%d left without a record, want 2", len(s.held))
	}
	want(pass(t, s, of(4, 1), of(9, 90)), 4, 1, 9, 90)
	if pass(t, s, unchanged(4), unchanged(7), unchanged(9)); !s.table.holes {
		t.Error("a process that nobody knows was reported as unchanged, and all is well")
	}
}

// TestGone tests a process that left the table: it is reported as a zombie until its record comes,
// once, and never below what was reported before.
func TestGone(t *testing.T) {
	r := tasksProcess{Kind: kindProcess, Pid: 10, Start: 7, Threads: 1, Flags: haveGroup | haveWait}
	r.Use.Runtime, r.Use.Wait = 500, 40
	s := bare()
	pass(t, s, process(r))
	pass(t, s)
	if len(s.held) != 1 || s.held[0].process.State != 'Z' {
		t.Fatalf("held: %+v", s.held)
	}
	e := r
	e.Kind, e.Use.Runtime, e.Use.Wait, e.Delta[0] = kindExit, 700, 45, 9000
	s.handleRecord(process(e))
	s.handleRecord(process(e))
	if len(s.done) != 1 || s.done[0].UserNanos != 700 || s.done[0].WaitNanos != 45 || s.done[0].Life != 9000 {
		t.Errorf("told as ended: %+v", s.done)
	}
	if pass(t, s); len(s.held) != 0 {
		t.Errorf("still held: %+v", s.held)
	}
}

func TestPaths(t *testing.T) {
	s := bare()
	tell := func(hierarchy uint32, count uint32, names string) {
		b := binary.NativeEndian.AppendUint32(nil, kindPath)
		b = binary.NativeEndian.AppendUint32(b, hierarchy)
		b = binary.NativeEndian.AppendUint64(b, 99)
		b = binary.NativeEndian.AppendUint32(b, count)
		b = binary.NativeEndian.AppendUint32(b, uint32(len(names)))
		s.handleRecord(append(b, names...))
	}
	tell(4, 3, "leaf\x00middle\x00top\x00")
	tell(0, 3, "")
	tell(4, 3, "leaf\x00middle\x00top\x00") // again, after the ring was full
	if paths, ok := s.CgroupPaths(99); ok {
		t.Errorf("a set of 3 is reported with %d: %v", len(paths), paths)
	}
	tell(9, 3, "a:b c\x00")
	paths, ok := s.CgroupPaths(99)
	want := []sensor.CgroupPath{{Controllers: "name=systemd", Path: "/a:b c"}, {Controllers: "memory", Path: "/top/middle/leaf"}, {Controllers: "", Path: "/"}}
	if !ok || len(paths) != len(want) {
		t.Fatalf("%v %v", paths, ok)
	}
	for i := range want {
		if paths[i] != want[i] {
			t.Errorf("line %d is %v, want %v", i, paths[i], want[i])
		}
	}
}

func TestRelative(t *testing.T) {
	h := hierarchies{own: map[uint32]string{1: "/a/b"}}
	for path, want := range map[string]string{
		"/a/b": "/", "/a/b/c": "/c", "/a": "/..", "/a/bc": "/../bc", "/x/y": "/../../x/y", "/": "/../..",
	} {
		if got := h.relativePath(1, path); got != want {
			t.Errorf("%s seen from /a/b is %s, want %s", path, got, want)
		}
	}
	if got := h.relativePath(2, "/a/b"); got != "/a/b" {
		t.Errorf("without a namespace: %s", got)
	}
}

// FuzzRecords feeds the parsers of what the kernel writes.
func FuzzRecords(f *testing.F) {
	f.Add(process(tasksProcess{Kind: kindProcess, Pid: 3, Flags: 0xffff}))
	f.Add(thread(tasksThread{Kind: kindThread, Pid: 3}))
	f.Add(process(tasksProcess{Kind: kindExit, Pid: 3, Peak: math.MaxUint64}))
	f.Add([]byte("\x05\x00\x00\x00\x04\x00\x00\x00AAAAAAAA\x02\x00\x00\x00\x03\x00\x00\x00a\x00b"))
	f.Add([]byte(strings.Repeat("\x01\x00\x00\x00", 4)))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(make([]byte, 0, len(b)+8), b...)
		s := bare()
		for range 2 {
			_ = play(s, b)
			s.keepEnding()
			s.table.freeLeft()
			s.handleRecord(b)
			for _, w := range s.table.rows {
				if q := &w.process; q.Comm[15] != 0 {
					t.Errorf("a name of 16 bytes: %q", q.Comm)
				}
			}
		}
		for _, c := range s.sets {
			for _, path := range c.paths {
				if !strings.HasPrefix(path.Path, "/") {
					t.Errorf("path %q", path.Path)
				}
			}
		}
	})
}

// FuzzRing feeds a ring with any contents: it never reads beyond it and always ends.
func FuzzRing(f *testing.F) {
	f.Add([]byte("\x08\x00\x00\x00\x00\x00\x00\x00AAAAAAAA\x04\x00\x00\x40\x00\x00\x00\x00BBBB"), uint64(0), uint64(32))
	f.Add([]byte{0, 0, 0, 0x80}, uint64(8), uint64(64))
	f.Fuzz(func(t *testing.T, content []byte, at, end uint64) {
		const size = 4096
		back := make([]uint64, 2*size/8) // aligned as the kernel's
		data := unsafe.Slice((*byte)(unsafe.Pointer(&back[0])), 2*size)
		copy(data, content)
		copy(data[size:], data[:size])
		positions := []uint64{at &^ 7, at&^7 + end%size}
		r := &ring{data: data, size: size,
			consumer: unsafe.Slice((*byte)(unsafe.Pointer(&positions[0])), 8),
			producer: unsafe.Slice((*byte)(unsafe.Pointer(&positions[1])), 8)}
		r.drain(func(b []byte) { _ = recordKind(b) })
	})
}

// TestExplain tests that every way to fail reports what it is and what to do.
func TestExplain(t *testing.T) {
	root := t.TempDir()
	for _, c := range []struct {
		err    error
		reason string
	}{
		{fmt.Errorf("map: %w", unix.EPERM), "no permission"},
		{fmt.Errorf("call: %w", unix.ENOSYS), "no BPF"},
		{fmt.Errorf("load program: %w:\n0: R1=ctx()\n", unix.EINVAL), "task iterator"},
	} {
		err := explainLoad(c.err, root)
		var u *sensor.UnavailableError
		if !errors.As(err, &u) || !strings.Contains(u.Reason, c.reason) || u.Fix == "" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	if err := os.MkdirAll(root+"/sys/kernel/security", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/sys/kernel/security/lockdown", []byte("none integrity [confidentiality]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := explainLoad(unix.EINVAL, root); !strings.Contains(err.Error(), "lockdown") {
		t.Error(err)
	}
}

func TestPossibleCPUs(t *testing.T) {
	root := t.TempDir()
	dir := root + "/sys/devices/system/cpu"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]uint32{"0\n": 1, "0-127\n": 128, "0-3,8-11\n": 12, "": uint32(runtime.NumCPU()), "x": uint32(runtime.NumCPU())} {
		if err := os.WriteFile(dir+"/possible", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := bpf.PossibleCPUs(root); got != want {
			t.Errorf("%q are %d processors, want %d", text, got, want)
		}
	}
}
