package counters

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BenchmarkSwitch: what a switch of threads costs more while the counters are read at it, with one to eight events. Two processes on one
// processor hand a byte to and fro; blocks with and without the source follow each other, and the median difference of the CPU time of
// both is reported. The events are software events: reading a counter of the hardware comes on top (an rdpmc each).
func BenchmarkSwitch(b *testing.B) {
	for _, n := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) { benchmarkSwitch(b, n) })
	}
}

const trips = 20_000 // of a block: two switches each

func benchmarkSwitch(b *testing.B, events int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, one unix.CPUSet
	one.Set(0)
	if unix.SchedGetaffinity(0, &old) != nil || unix.SchedSetaffinity(0, &one) != nil {
		b.Skip("the processor can not be chosen")
	}
	defer func() { _ = unix.SchedSetaffinity(0, &old) }()
	ours, theirs := pipe(b), pipe(b)
	c := exec.Command("/proc/self/exe", "pong")
	c.ExtraFiles = []*os.File{ours[0], theirs[1]}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = ours[1].Close(); _ = c.Wait() }()
	_ = ours[0].Close()
	in, out := int(theirs[0].Fd()), int(ours[1].Fd())
	block := func() float64 {
		before := cpuTime(b, c.Process.Pid)
		for range trips {
			if !hand(out, unix.SYS_WRITE) || !hand(in, unix.SYS_READ) {
				b.Fatal("the other side has gone")
			}
		}
		return (cpuTime(b, c.Process.Pid) - before) / (2 * trips)
	}
	block()
	plan := eventPlan{}
	for i := range events {
		plan.events = append(plan.events, perfEvent{Counter(i), unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS})
	}
	var without, more []float64
	for b.Loop() {
		s := open(b, Options{plan: &plan})
		with := block()
		_ = s.Close()
		bare := block()
		without, more = append(without, bare), append(more, with-bare)
	}
	slices.Sort(without)
	slices.Sort(more)
	b.ReportMetric(without[len(without)/2], "ns/switch")
	b.ReportMetric(more[len(more)/2], "more-ns/switch")
	b.ReportMetric(more[len(more)/4], "more-ns-p25")
	b.ReportMetric(more[3*len(more)/4], "more-ns-p75")
}

// pong answers each byte of file 3 with one on file 4.
func pong() {
	runtime.LockOSThread()
	for hand(3, unix.SYS_READ) && hand(4, unix.SYS_WRITE) {
	}
}

// hand reads or writes one byte, without the scheduler of Go.
func hand(fd int, call uintptr) bool {
	var one [1]byte
	n, _, err := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&one)), 1)
	return n == 1 && err == 0
}

func pipe(b *testing.B) [2]*os.File {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return [2]*os.File{r, w}
}

// cpuTime is the CPU time of this thread and of a process, nanoseconds (clock_getcpuclockid(3)).
func cpuTime(b *testing.B, pid int) (nanos float64) {
	b.Helper()
	for _, clock := range []int32{unix.CLOCK_THREAD_CPUTIME_ID, ^int32(pid)<<3 | 2} {
		var t unix.Timespec
		if err := unix.ClockGettime(clock, &t); err != nil {
			b.Fatalf("clock of process %s: %v", strconv.Itoa(pid), err)
		}
		nanos += float64(t.Nano())
	}
	return nanos
}
