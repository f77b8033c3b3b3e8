package disks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/metric"
	"reckon/sensor"
)

func open(t testing.TB, o Options) *Sensor {
	t.Helper()
	s, err := Open(o)
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// loop is a block device with a file behind it.
func loop(t testing.TB) string {
	t.Helper()
	file := t.TempDir() + "/image"
	if err := os.WriteFile(file, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Skipf("a loop device: %v: %s", err, out)
	}
	path := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "-d", path).CombinedOutput(); err != nil {
			t.Errorf("detach %s: %v: %s", path, err, out)
		}
	})
	return strings.TrimPrefix(path, "/dev/")
}

// direct reads or writes blocks of 64 KiB past the page cache.
func direct(t testing.TB, name string, blocks int, write bool) {
	t.Helper()
	fd, err := unix.Open("/dev/"+name, unix.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		t.Skip("not available here: ", err)
	}
	defer unix.Close(fd)
	memory, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	call := uintptr(unix.SYS_PREAD64)
	if write {
		call = unix.SYS_PWRITE64
	}
	for i := range blocks {
		if _, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&memory[0])), 64<<10, uintptr(i)<<16, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
	}
}

// kernelTimes are the requests of a disk and the milliseconds that they took, reads and writes, by /proc/diskstats.
func kernelTimes(t testing.TB, name string) (v [4]float64) {
	t.Helper()
	text, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 11 && f[2] == name {
			for i, k := range []int{3, 6, 7, 10} {
				_, _ = fmt.Sscan(f[k], &v[i])
			}
		}
	}
	return v
}

func times(t testing.TB, s *Sensor, name, operation string) metric.Histogram {
	t.Helper()
	var b metric.Batch
	if err := s.Read(&b); err != nil {
		t.Fatal(err)
	}
	var found metric.Histogram
	n := 0
	for _, v := range b.Samples {
		if v.Series.Values[0] == name && v.Series.Values[1] == operation {
			n++
			found.Merge(v.Histogram)
		}
	}
	if n > 1 {
		t.Errorf("%d series of %s %s", n, name, operation)
	}
	return found
}

// The requests of a disk and their time are the kernel's own statistics, counted by either program, but for those
// that interrupted the program, which the kernel counts.
func TestAgainstDiskstats(t *testing.T) {
	for _, program := range []string{disksProgDone, disksProgCompleted} {
		t.Run(program, func(t *testing.T) {
			s := open(t, Options{loops: true, attach: program})
			name := loop(t)
			before, hidden := kernelTimes(t, name), s.Missed()
			reads, writes := times(t, s, name, "read"), times(t, s, name, "write")
			direct(t, name, 100, false)
			direct(t, name, 60, true)
			after := kernelTimes(t, name)
			r, w := times(t, s, name, "read"), times(t, s, name, "write")
			n := [4]float64{float64(r.Count - reads.Count), 1e3 * (r.Sum - reads.Sum), float64(w.Count - writes.Count), 1e3 * (w.Sum - writes.Sum)}
			t.Logf("counted %v, by the kernel before %v and after %v", n, before, after)
			missed := float64(s.Missed() - hidden)
			// The kernel rounds the sum down to a millisecond, here at both ends.
			for i, slack := range []float64{missed, 2 + missed, missed, 2 + missed} {
				of := 0.02 * n[i] // of times alone
				if i%2 == 0 {
					of = 0
				}
				if d := n[i] - (after[i] - before[i]); d < -of-slack || d > of+slack {
					t.Errorf("counted %v, the kernel %v to %v", n, before, after)
					break
				}
			}
			if n[0] < 100-missed || n[2] < 60-missed || r.Quantile(1) <= 0 {
				t.Errorf("counted %v for 100 reads and 60 writes", n)
			}
		})
	}
}

// A reading allocates nothing, and loop devices have no series but in tests.
func TestRead(t *testing.T) {
	s := open(t, Options{})
	name := loop(t)
	direct(t, name, 10, false)
	var b metric.Batch
	for range 3 {
		b.Reset(time.Time{})
		if err := s.Read(&b); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range b.Samples {
		if v.Series.Values[0] == name {
			t.Errorf("%s has a series", name)
		}
	}
	if n := testing.AllocsPerRun(20, func() { b.Reset(time.Time{}); _ = s.Read(&b) }); n > 0 {
		t.Errorf("a reading allocates %v times", n)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Read(&b); err == nil {
		t.Error("a sensor that is closed was read")
	}
}
