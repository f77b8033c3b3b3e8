package sensortest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// ownCPU returns the CPU time of this process, all threads included, in nanoseconds.
func ownCPU() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts)
	return uint64(ts.Nano())
}

// burnCPU uses CPU time of about d on each of n threads. It returns after the threads have ended, because a source may
// report old figures of a thread that is ending.
func burnCPU(n int, d time.Duration) {
	var all sync.WaitGroup
	threads := make([]int, n)
	for i := range n {
		all.Go(func() {
			runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
			threads[i] = unix.Gettid()
			var begin, now unix.Timespec
			_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &begin)
			for now = begin; now.Nano()-begin.Nano() < int64(d); {
				_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
			}
		})
	}
	all.Wait()
	for _, id := range threads {
		for id != os.Getpid() && unix.Tgkill(os.Getpid(), id, 0) == nil { // the first thread never ends
			unix.Nanosleep(&unix.Timespec{Nsec: 1e5}, nil)
		}
	}
}

// testCPUTime tests that the CPU time of live and ended threads is counted exactly. The figure must lie between two
// readings of the test itself, before and after the pass.
func testCPUTime(b *taskReader, o TaskOptions) {
	for range 3 {
		burnCPU(8, 10*time.Millisecond)
		before := ownCPU()
		p := b.mustRead(os.Getpid())
		after := ownCPU()
		got := p.UserNanos + p.SystemNanos
		if got+o.CPUResolution < before || got > after+o.CPUResolution {
			b.t.Errorf("CPU time %d ns, want %d to %d within %d", got, before, after, o.CPUResolution)
		}
	}
}

// testMemory tests that 64 MiB more of anonymous memory are measured.
func testMemory(b *taskReader, _ TaskOptions) {
	const size = 64 << 20
	p := b.mustRead(os.Getpid())
	if p.Have&sensor.FieldMemory == 0 {
		b.t.Skip("the source does not tell memory by type")
	}
	before, peak := p.Anon, p.PeakBytes
	block, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		b.t.Skipf("64 MiB of memory: %v", err)
	}
	for i := 0; i < size; i += 4096 {
		block[i] = 1
	}
	burnCPU(1, 10*time.Millisecond)
	p = b.mustRead(os.Getpid())
	if p.Anon < before+size*9/10 {
		b.t.Errorf("anonymous memory went from %d to %d with %d more", before, p.Anon, size)
	}
	high := p.Anon
	if err := unix.Munmap(block); err != nil {
		b.t.Fatal(err)
	}
	// a process with a clock that stands still since it was read is not read again, and the kernel sets it by ticks
	burnCPU(1, 10*time.Millisecond)
	p = b.mustRead(os.Getpid())
	if p.Anon > high-size*9/10 {
		b.t.Errorf("anonymous memory is %d after %d of %d were given back", p.Anon, size, high)
	}
	if p.Have&sensor.FieldPeak != 0 && (p.PeakBytes < peak || p.PeakBytes < high) {
		b.t.Errorf("peak %d, was %d, and %d were in use", p.PeakBytes, peak, high)
	}
}

// findProgram finds a small program.
func findProgram(t *testing.T, name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no program to start: %v", err)
	}
	return path
}

// startSleeper starts a child that waits until it is killed.
func startSleeper(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	c := exec.Command(path, "600")
	if err := c.Start(); err != nil {
		t.Skipf("start %s: %v", path, err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

// testChildren tests the start, the exit, the zombie state and the removal of a process.
func testChildren(b *taskReader, o TaskOptions) {
	t := b.t
	b.read()
	c := startSleeper(t, findProgram(t, "sleep"))
	pid := c.Process.Pid
	p := b.mustRead(pid)
	if p.Have&sensor.FieldParent != 0 && p.PPID != int32(os.Getpid()) {
		t.Errorf("the parent of our child is %d, not %d", p.PPID, os.Getpid())
	}
	if p.Start+o.StartResolution < b.mustRead(os.Getpid()).Start {
		t.Error("our child began before us")
	}
	if own := b.find(os.Getpid()); b.find(pid).Cgroup != own.Cgroup {
		t.Errorf("our child is in cgroup %d, we in %d", b.find(pid).Cgroup, own.Cgroup)
	}
	start := p.Start
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if p := b.mustRead(pid); p.State != 'Z' {
		t.Errorf("a zombie has the state %c", p.State)
	} else if p.Start != start {
		t.Errorf("its start went from %d to %d when it ended", start, p.Start)
	}
	_ = c.Wait()
	b.read()
	if b.find(pid) != nil {
		t.Error("a process that was waited for is still told")
	}
}

// hostileNames are names of programs that are hard to parse. The kernel keeps the first 15 bytes.
var hostileNames = []string{
	"a b", ") R 1 1 1 (", "((", "))", "new\nline", "tab\tand\\back", "ünïcödé-名前-😀",
	"\xff\xfe\x80", "0123456789abcdef", `"quoted"{}`, " ", "\x01\x1b[31m", "-",
}

// testNames tests programs with such names.
func testNames(b *taskReader) {
	t := b.t
	sleep := findProgram(t, "sleep")
	for _, name := range hostileNames {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(sleep, link); err != nil {
			t.Fatal(err)
		}
		c := startSleeper(t, link)
		p, want := b.mustRead(c.Process.Pid), sensor.CommOf([]byte(name))
		for range 1000 { // it gets its name a moment after exec has closed our pipe
			if p.Comm == want {
				break
			}
			time.Sleep(time.Millisecond)
			p = b.mustRead(c.Process.Pid)
		}
		if p.Comm != want {
			t.Errorf("name %q, want %q", p.Comm.Bytes(), want.Bytes())
		}
		if p.PPID != int32(os.Getpid()) || p.State == 0 {
			t.Errorf("%q: parent %d, state %q", name, p.PPID, p.State)
		}
	}
}

// testShortLives tests that processes that start and end during a pass disturb nothing.
func testShortLives(b *taskReader) {
	path := findProgram(b.t, "true")
	stop := make(chan struct{})
	done := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
				if exec.Command(path).Run() == nil {
					n++
				}
			}
		}
	}()
	for range 30 {
		b.mustRead(os.Getpid())
		time.Sleep(2 * time.Millisecond)
	}
	close(stop)
	if n := <-done; n == 0 {
		b.t.Error("no process was started: nothing was tested")
	}
}

// testChildCPU tests that the CPU time of a parent excludes its children. Their time is in the children's own records, and
// would be counted twice.
func testChildCPU(b *taskReader, o TaskOptions) {
	sh := findProgram(b.t, "sh")
	own := ownCPU()
	before := b.mustRead(os.Getpid())
	was := before.UserNanos + before.SystemNanos
	c := exec.Command(sh, "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	if err := c.Run(); err != nil {
		b.t.Fatal(err)
	}
	child := uint64(c.ProcessState.UserTime() + c.ProcessState.SystemTime())
	after := b.mustRead(os.Getpid())
	got, used := after.UserNanos+after.SystemNanos-was, ownCPU()-own
	if child < 3*o.CPUResolution {
		b.t.Skipf("the child used %d ns: too little to tell", child)
	}
	if got > used+o.CPUResolution {
		b.t.Errorf("%d ns were added, %d ns used ourselves, %d ns by the child", got, used, child)
	}
}
