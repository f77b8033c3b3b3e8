package ebpf

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// idle starts n processes that do nothing.
func idle(b *testing.B, n int) {
	b.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		b.Skip(err)
	}
	for range n {
		c := exec.Command(sleep, "600")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
		if err := c.Start(); err != nil {
			b.Skipf("start %d processes: %v", n, err)
		}
		b.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
	}
}

func used() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRead tells the CPU time of a pass, of which the budget is 0.6 ms for 1,000 processes.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{0, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, Options{})
			idle(b, n)
			var p sensor.Pass
			for range 3 {
				read(b, s, &p)
			}
			b.ReportAllocs()
			before := used()
			passes := 0
			for b.Loop() {
				read(b, s, &p)
				passes++
			}
			cpu := used() - before
			b.ReportMetric(float64(cpu.Microseconds())/float64(passes), "cpu-µs/op")
			b.ReportMetric(float64(len(p.Live)), "processes")
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(passes)/float64(len(p.Live)), "cpu-ns/process")
		})
	}
}

// BenchmarkNew tells what it takes to load the programs.
func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		s := open(b, Options{})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
