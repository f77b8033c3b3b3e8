package taskstats

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// TestMain is also the program that the tests start: threads that end, and one that stays.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "threads" {
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() { burn(25 * time.Millisecond) })
		}
		all.Wait()
		return
	}
	os.Exit(m.Run())
}

func burn(d time.Duration) {
	runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
	var begin, now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &begin)
	for now = begin; now.Nano()-begin.Nano() < int64(d); {
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	}
}

func open(t testing.TB) *Source {
	t.Helper()
	s, err := New(Options{})
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("again: %v", err)
		}
	})
	return s
}

func drain(t testing.TB, s *Source, p *sensor.Pass) {
	t.Helper()
	p.Reset()
	if err := s.Drain(p); err != nil {
		t.Fatal(err)
	}
}

func of(p *sensor.Pass, pid int) *sensor.Process {
	for i := range p.Exited {
		if p.Exited[i].PID == int32(pid) {
			return &p.Exited[i]
		}
	}
	return nil
}

func TestThreadsBecomeOneProcess(t *testing.T) {
	s := open(t)
	// The kernel sends the record of a thread after it has decided which one is the last of its process. A
	// thread that loses its processor in between comes after that, and its faults are not in the sum.
	for try := range 5 {
		if q := threadsBecomeOneProcess(t, s); t.Failed() || q.Have&sensor.FieldFaults != 0 {
			if !t.Failed() && q.MinorFaults == 0 {
				t.Errorf("no page fault")
			}
			return
		} else if q.MinorFaults != 0 {
			t.Errorf("try %d: %d page faults, which are said to be unknown", try, q.MinorFaults)
		}
	}
	t.Error("faults are unknown, five times")
}

func threadsBecomeOneProcess(t *testing.T, s *Source) *sensor.Process {
	t.Helper()
	var p sensor.Pass
	before := readClock(unix.CLOCK_BOOTTIME)
	c := exec.Command("/proc/self/exe", "threads")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	drain(t, s, &p)
	q := of(&p, c.Process.Pid)
	if q == nil {
		t.Fatalf("%d is not among the %d that ended", c.Process.Pid, len(p.Exited))
	}
	cpu := time.Duration(q.UserNanos + q.SystemNanos)
	want := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	// Each thread may lack its last tick.
	if cpu > want+10*time.Millisecond || cpu < want-80*time.Millisecond || cpu < 100*time.Millisecond {
		t.Errorf("CPU time %v, wait4 says %v", cpu, want)
	}
	if q.PPID != int32(os.Getpid()) || q.UID != uint32(os.Getuid()) || !sensor.SameStart(q.Start, before) || q.State != 'X' {
		t.Errorf("%+v", q)
	}
	if q.PeakBytes < 1<<20 {
		t.Errorf("peak %d", q.PeakBytes)
	}
	n := 0
	for i := range p.Exited {
		if p.Exited[i].Comm == q.Comm && p.Exited[i].PPID == q.PPID {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d records of one process", n)
	}
	return q
}

// TestThreadsOfTheLiving tests that threads of a process that lives, such as ours, are not reported as ended.
func TestThreadsOfTheLiving(t *testing.T) {
	s := open(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { burn(time.Millisecond) })
	}
	all.Wait()
	var p sensor.Pass
	for range 5 { // the threads end some µs after their goroutines
		drain(t, s, &p)
		if q := of(&p, os.Getpid()); q != nil {
			t.Errorf("we are reported as ended: %+v", q)
		}
		for i := range p.Exited {
			if p.Exited[i].PPID == int32(os.Getppid()) && p.Exited[i].Comm == sensor.CommOf([]byte("taskstats.test")) {
				t.Errorf("a thread of ours is reported as a process: %+v", p.Exited[i])
			}
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
}

// TestStorm tests how near 1,000 processes of some ms come to what getrusage(2) reports. The kernel counts
// before the last slice, so this is not exact; see the comment of the package.
func TestStorm(t *testing.T) {
	s := open(t)
	n := 1000
	if testing.Short() {
		n = 100
	}
	var p, all sensor.Pass
	before := children()
	for i := range n {
		if err := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt "+strconv.Itoa(300+2*i)+" ]; do i=$((i+1)); done").Run(); err != nil {
			t.Fatal(err)
		}
		if i%100 == 99 {
			drain(t, s, &p)
			all.Exited = append(all.Exited, p.Exited...)
			if p.Lost != 0 {
				t.Errorf("%d lost", p.Lost)
			}
		}
	}
	want := children() - before
	var sum time.Duration
	told := 0
	for i := range all.Exited {
		if q := &all.Exited[i]; q.PPID == int32(os.Getpid()) {
			sum += time.Duration(q.UserNanos + q.SystemNanos)
			told++
		}
	}
	t.Logf("%d processes of %v each: %v told, getrusage says %v (%+.2f %%)", told, want/time.Duration(n), sum, want, 100*(float64(sum)/float64(want)-1))
	if told != n {
		t.Errorf("%d processes are reported, want %d", told, n)
	}
	if float64(sum) < 0.5*float64(want) || float64(sum) > 1.2*float64(want) {
		t.Errorf("CPU time %v, getrusage says %v", sum, want)
	}
}

func children() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
