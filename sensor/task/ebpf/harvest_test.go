package ebpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// pool is a process that waits for a child, with many threads that then end and compete for the processors and write.
// It prints what they waited (ns) and wrote (bytes), by their own files in /proc, each time when it is asked, and ends when its input is closed.
func pool(dir string, threads int) {
	_ = exec.Command("/bin/true").Run()
	var waited, written uint64
	said := make([][2][1024]byte, threads) // what the files in /proc of each thread show last
	round := func() {
		clear(said)
		var workers sync.WaitGroup
		for i := range threads {
			workers.Go(func() {
				burn(2 * time.Millisecond) // this thread ends with the function
				if i%8 == 0 {
					f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
					if err == nil {
						_, _ = f.Write(make([]byte, 256<<10))
						_ = f.Sync()
						_ = f.Close()
					}
				}
				for k, name := range []string{"/proc/thread-self/io", "/proc/thread-self/schedstat"} {
					fd, _ := unix.Open(name, unix.O_RDONLY, 0)
					_, _ = unix.Read(fd, said[i][k][:])
					_ = unix.Close(fd)
				}
			})
		}
		workers.Wait()
		for i := range said {
			var ran, wait, w uint64
			for line := range strings.Lines(string(said[i][0][:])) {
				_, _ = fmt.Sscanf(line, "write_bytes: %d", &w)
			}
			_, _ = fmt.Sscan(string(said[i][1][:]), &ran, &wait)
			waited, written = waited+wait, written+w
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e8}, nil) // until they have ended
		all, living := waited, uint64(0)
		files, _ := filepath.Glob("/proc/self/task/*/schedstat")
		for _, name := range files {
			var ran uint64
			text, _ := os.ReadFile(name)
			if _, err := fmt.Sscan(string(text), &ran, &living); err == nil {
				all += living
			}
		}
		fmt.Println(all, written)
	}
	for round(); ; round() {
		if n, _ := os.Stdin.Read(make([]byte, 1)); n == 0 {
			os.Exit(0)
		}
	}
}

// startPool starts the program pool in a folder on a disk.
func startPool(t *testing.T) (pid int, truth func() (waited, written uint64), again, end func()) {
	t.Helper()
	dir := t.TempDir()
	c := exec.Command("/proc/self/exe", "child", "pool", dir)
	in, _ := c.StdinPipe()
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	end = sync.OnceFunc(func() { _ = in.Close(); _ = c.Wait() })
	t.Cleanup(end)
	truth = func() (waited, written uint64) {
		if _, err := fmt.Fscan(out, &waited, &written); err != nil {
			t.Fatal(err)
		}
		return waited, written
	}
	return c.Process.Pid, truth, func() { _, _ = in.Write([]byte{1}) }, end
}

// settled reads until the process has no thread that ends.
func settled(t *testing.T, s *Source, p *sensor.Pass, pid int) *sensor.Process {
	t.Helper()
	var was sensor.Process
	for range 100 {
		unix.Nanosleep(&unix.Timespec{Nsec: 2e7}, nil)
		read(t, s, p)
		q := live(p, pid)
		if q == nil {
			t.Fatalf("%d is not reported", pid)
		}
		if q.Threads == was.Threads && q.WaitNanos == was.WaitNanos {
			break
		}
		was = *q
	}
	return live(p, pid)
}

// TestHarvest tests that what ended threads waited, read and wrote is counted, in a process that has waited for a child: against
// what each thread reads of itself, while the process lives, and when it has ended.
func TestHarvest(t *testing.T) {
	s := openExits(t)
	var p sensor.Pass
	read(t, s, &p)
	pid, truth, again, end := startPool(t)
	var waited, written uint64
	for range 2 {
		waited, written = truth()
		q := settled(t, s, &p, pid)
		if q.Partial != 0 {
			t.Errorf("partial %b: all of its threads ended before our eyes", q.Partial)
		}
		if q.WaitNanos < waited || q.WaitNanos > waited+waited/10+5e8 {
			t.Errorf("waited %.3f s, the threads say %.3f", float64(q.WaitNanos)/1e9, float64(waited)/1e9)
		}
		if written == 0 {
			t.Log("the folder is not on a disk: no I/O to be counted")
		}
		if q.WriteBytes < written || q.WriteBytes > written+written/50+1<<20 {
			t.Errorf("%d bytes written, the threads say %d", q.WriteBytes, written)
		}
		again()
	}
	waited, written = truth()
	end()
	for range 500 {
		if read(t, s, &p); gonePID(&p, pid) != nil {
			break
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	q := gonePID(&p, pid)
	if q == nil || q.WaitNanos < waited || q.WaitNanos > waited+waited/10+5e8 || q.WriteBytes < written || q.WriteBytes > written+written/50+1<<20 || q.Partial != 0 {
		t.Errorf("at its end %+v, the threads say %d ns and %d bytes", q, waited, written)
	}
	for range 500 { // the kernel frees it some time after its end
		found := false
		var of tasksLife
		var kept tasksKept
		for all := s.kernel.harvest.Iterate(); all.Next(&of, &kept); {
			found = found || int(of.Tgid) == pid
		}
		if !found {
			return
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	t.Error("what its threads did is kept after its end")
}

// TestHarvestBegun tests a source that begins while threads have ended already: their share is missing and marked, and what they
// wrote is not lost again later.
func TestHarvestBegun(t *testing.T) {
	pid, truth, again, _ := startPool(t)
	truth()
	unix.Nanosleep(&unix.Timespec{Nsec: 3e8}, nil)
	s := openExits(t)
	var p sensor.Pass
	q := settled(t, s, &p, pid)
	if q.Partial != sensor.FieldWait|sensor.FieldIO {
		t.Errorf("partial %b", q.Partial)
	}
	before := *q
	again()
	truth()
	q = settled(t, s, &p, pid)
	if q.Partial != sensor.FieldWait|sensor.FieldIO {
		t.Errorf("partial %b after more have ended", q.Partial)
	}
	if written := q.WriteBytes - before.WriteBytes; before.WriteBytes > 0 && written == 0 || q.WaitNanos <= before.WaitNanos {
		t.Errorf("then %d bytes written and %d ns waited", written, q.WaitNanos-before.WaitNanos)
	}
}

// TestHarvestFull tests that processes for which there is no room are marked, and others are not.
func TestHarvestFull(t *testing.T) {
	s := open(t, Options{harvest: 1})
	if s.Exits() != nil {
		t.Skip(s.Exits())
	}
	var p sensor.Pass
	read(t, s, &p)
	marked, counted := 0, 0
	var pids []int
	for range 3 {
		pid, truth, _, _ := startPool(t)
		truth()
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		if settled(t, s, &p, pid).Partial == 0 {
			counted++
		} else {
			marked++
		}
	}
	if marked < 2 || s.Missed() == 0 { // the one entry may be another's on this machine
		t.Errorf("%d are marked, %d are not, %d ends are counted as missed", marked, counted, s.Missed())
	}
}

// TestHarvestOfTheKilled tests processes with threads that all end at once: none is counted twice, and none is lost.
func TestHarvestOfTheKilled(t *testing.T) {
	s := openExits(t)
	var p sensor.Pass
	read(t, s, &p)
	for range 20 {
		c, out, end := start(t, "crowd", nil)
		line(t, out)
		_ = c.Process.Signal(unix.SIGSTOP) // so that the reading has all that they waited
		unix.Nanosleep(&unix.Timespec{Nsec: 1e8}, nil)
		read(t, s, &p)
		begun := time.Now()
		last := live(&p, c.Process.Pid)
		wait, threads := last.WaitNanos, uint64(last.Threads)
		_ = c.Process.Kill()
		end()
		var q *sensor.Process
		for range 500 {
			if read(t, s, &p); gonePID(&p, c.Process.Pid) != nil {
				q = gonePID(&p, c.Process.Pid)
				break
			}
			unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
		}
		most := wait + threads*uint64(time.Since(begun)) // no thread waits longer than time passes
		if q == nil || q.WaitNanos < wait || q.WaitNanos > most || q.Partial != 0 {
			t.Fatalf("it waited %d ns at its last reading, at its end %+v (at most %d)", wait, q, most)
		}
	}
}

// crowd is a process of many threads that all work.
func crowd() {
	for range 32 {
		go func() {
			runtime.LockOSThread()
			for n := 0; n >= 0; n++ { // until it is killed
			}
		}()
	}
	unix.Nanosleep(&unix.Timespec{Nsec: 1e8}, nil)
	fmt.Println("begun")
	select {}
}
