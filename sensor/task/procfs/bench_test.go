package procfs

import (
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// spawn starts n processes that sleep, and reaps them when the test ends.
func spawn(tb testing.TB, n int) []int32 {
	tb.Helper()
	var pids []int32
	for range n {
		c := exec.Command("sleep", "600")
		if err := c.Start(); err != nil {
			tb.Skipf("start a process: %v", err)
		}
		pids = append(pids, int32(c.Process.Pid))
		tb.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
	}
	return pids
}

func open(tb testing.TB, o Options) *Source {
	tb.Helper()
	s, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// threadCPU is the CPU time of the calling thread.
func threadCPU() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

// BenchmarkPass reads a table with 1,000 processes that sleep. The metric cpu-ms/op is the CPU time of
// the reading thread, which a busy machine does not change.
func BenchmarkPass(b *testing.B) {
	spawn(b, 1000)
	for _, c := range []struct {
		name string
		o    Options
		all  string
	}{
		{"idle", Options{}, ""},
		{"without-clock", Options{NoClock: true}, ""},
		{"all-run", Options{}, "run"},       // each has run, and grown
		{"all-refreshed", Options{}, "due"}, // each is read again as once a minute
	} {
		b.Run(c.name, func(b *testing.B) {
			s := open(b, c.o)
			var p sensor.Pass
			for range 3 {
				p.Reset()
				if err := s.Read(&p); err != nil {
					b.Fatal(err)
				}
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			b.ReportAllocs()
			began := threadCPU()
			for b.Loop() {
				p.Reset()
				for _, e := range s.entries {
					switch c.all {
					case "run":
						e.clock--
						e.rss++
					case "due":
						e.due = 0
					}
				}
				if err := s.Read(&p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(threadCPU()-began)/1e6/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(len(p.Live)), "processes")
		})
	}
}
