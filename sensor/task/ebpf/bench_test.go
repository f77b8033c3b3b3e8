package ebpf

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// idle starts n processes that do nothing: forks of a shell that wait for input.
func idle(b *testing.B, n int) {
	b.Helper()
	if n == 0 {
		return
	}
	hold, end, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	c := exec.Command("sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do (read x <&3) & i=$((i+1)); done; echo ready; read x <&3", n))
	c.ExtraFiles = []*os.File{hold}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Skip(err)
	}
	_ = hold.Close()
	b.Cleanup(func() {
		_ = end.Close()
		_ = unix.Kill(-c.Process.Pid, unix.SIGKILL)
		_ = c.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		b.Skipf("start %d processes: %v", n, err)
	}
}

func used() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRead reports the CPU time of a pass; the budget is 0.5 µs for each process, however
// many there are.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{0, 1000, 5000, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, Options{})
			idle(b, n)
			var p sensor.Pass
			for range 3 {
				read(b, s, &p)
			}
			b.ReportAllocs()
			// On a machine that does something else meanwhile the median reports more than the mean.
			var passes []float64
			for b.Loop() {
				before := used()
				read(b, s, &p)
				passes = append(passes, float64((used()-before).Nanoseconds())/float64(len(p.Live)))
			}
			slices.Sort(passes)
			b.ReportMetric(float64(len(p.Live)), "processes")
			b.ReportMetric(passes[len(passes)/2], "cpu-ns/process")
			b.ReportMetric(passes[0], "least-ns/process")
		})
	}
}

// BenchmarkNew shows what it takes to load the programs.
func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		s := open(b, Options{})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkThreadEnd shows what the program at the end of a thread takes; the budget is 150 ns more than without: the clock of
// the kernel for programs, by which a program that only returns takes some 20 ns.
func BenchmarkThreadEnd(b *testing.B) {
	s := openExits(b)
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		b.Skip("not available here: ", err)
	}
	defer stats.Close()
	of := func() (runs uint64, took time.Duration) {
		for _, p := range s.kernel.programs {
			info, err := p.Info()
			if err != nil {
				b.Fatal(err)
			}
			if st, err := p.Stats(); err == nil && info.Name == tasksProgEnded {
				return st.RunCount, st.Runtime
			}
		}
		return 0, 0
	}
	runs, took := of()
	for b.Loop() {
		ended := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(ended)
		}()
		<-ended
	}
	r, t := of()
	b.ReportMetric(float64((t-took).Nanoseconds())/float64(r-runs), "kernel-ns/end")
}
