package waits

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// TestMain is also the program that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "read" {
		if err := directly(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// directly reads a file past the page cache, a block at a time, and returns for how long it was
// neither on a processor nor waiting for one, by the kernel's figures of its thread.
func directly(name, blocks string) error {
	runtime.LockOSThread()
	n, err := strconv.Atoi(blocks)
	if err != nil {
		return err
	}
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	memory, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	began, used := time.Now(), ran()
	for i := range n {
		if _, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&memory[0])), block, uintptr(i)*block, 0, 0); errno != 0 {
			return errno
		}
	}
	fmt.Println((time.Since(began) - (ran() - used)).Nanoseconds())
	return nil
}

// ran is for how long the thread was on a processor or waited for one (schedstat of
// Documentation/scheduler/sched-stats.rst).
func ran() time.Duration {
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	if err != nil {
		return 0
	}
	var on, queued int64
	_, _ = fmt.Sscan(string(text), &on, &queued)
	return time.Duration(on + queued)
}

func open(t testing.TB, o Options) *Source {
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

func read(t testing.TB, s *Source, p *sensor.TallyPass) {
	t.Helper()
	if err := s.Read(p); err != nil {
		t.Fatal(err)
	}
}

// wait is for how long, and how often, a process waited.
type wait struct{ Nanos, Waits uint64 }

// waits counts the waits of each process from now on.
func (s *Source) waits() map[int32]uint64 {
	all := make(map[int32]uint64)
	s.take = func(b []byte) (uint32, bool) {
		r := (*waitsRecord)(unsafe.Pointer(&b[0]))
		all[r.Pid] += r.Waits
		return s.readRecord(b)
	}
	return all
}

// block is how much is read at once, bytes. Between the wakeup and the place in the queue of a processor that sleeps lie 10 µs in a virtual
// machine, which nobody counts: a wait has to be long beside that.
const block = 1 << 20

// onDisk is a file of some blocks that is not in the page cache for those who read
// directly.
func onDisk(t *testing.T, blocks int) string {
	t.Helper()
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC { // since Linux 6.6 they take reads past the page cache, too
		t.Skip("temporary files are in memory here, no disk is waited for")
	}
	name := dir + "/file"
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	for range blocks {
		_, _ = w.Write(make([]byte, block))
	}
	if err := errors.Join(w.Flush(), f.Sync()); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestReader: what a process waited that only reads, and ends between two readings, is the time in
// which it was neither on a processor nor waiting for one. Its own clocks count what the host of a
// virtual machine takes as well, so one quiet run of five has to agree.
func TestReader(t *testing.T) {
	s := open(t, Options{})
	const blocks = 60
	name := onDisk(t, blocks)
	agrees := false
	var pids []int
	for range 5 {
		counted, own, pid := readBlocks(t, s, name, blocks)
		pids = append(pids, pid)
		// Some of what it waited is the start of the program, read from disk on a cold machine.
		t.Logf("%v in %d waits, by its own clocks %v", time.Duration(counted.Nanos), counted.Waits, time.Duration(own))
		if agrees = counted.Waits >= blocks/4 && float64(counted.Nanos) >= 0.9*float64(own) && float64(counted.Nanos) <= 1.1*float64(own)+50e6; agrees {
			break
		}
	}
	if !agrees {
		t.Error("no run of five agrees with its own clocks")
	}
	var p sensor.TallyPass
	for range 3 {
		p.Reset()
		read(t, s, &p)
	}
	var key uint32
	var value []byte
	for it := s.accounts.Map.Iterate(); it.Next(&key, &value); {
		if slices.Contains(pids, int(key)) {
			t.Error("the account of a process that ended is still there")
		}
	}
}

// readBlocks reads a file past the page cache in a process of its own, and returns what was counted
// of it and what it waited by its own clocks, in nanoseconds.
func readBlocks(t *testing.T, s *Source, name string, blocks int) (counted wait, own int64, pid int) {
	t.Helper()
	var p sensor.TallyPass
	waits := s.waits()
	read(t, s, &p)
	p.Reset()
	c := exec.Command("/proc/self/exe", "read", name, strconv.Itoa(blocks))
	out, err := c.Output()
	if err != nil {
		t.Skipf("read past the page cache: %v", err)
	}
	if own, err = strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64); err != nil {
		t.Fatal(err)
	}
	read(t, s, &p)
	counted = wait{sensortest.Sum(&p, 0, int32(c.Process.Pid)), waits[int32(c.Process.Pid)]}
	return counted, own, c.Process.Pid
}

// loopDisk is the directory of an ext4 file system on a loop device, with the name of the device.
func loopDisk(t *testing.T) (dir, device string) {
	t.Helper()
	image, dir := t.TempDir()+"/image", t.TempDir()
	run := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).Output()
		if err != nil {
			t.Skipf("%s %v: %v", name, args, err)
		}
		return strings.TrimSpace(string(out))
	}
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 128<<20)); err != nil {
		t.Fatal(err)
	}
	run("mkfs.ext4", "-q", image)
	run("mount", "-o", "loop", image, dir) // the kernel releases the device with the last mount, also where a copy of it is in another namespace
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return dir, filepath.Base(run("findmnt", "-n", "-o", "SOURCE", dir))
}

// TestDisks: the disk that a process waits for is known, whether it reads what others do not have in memory or has written and waits
// until that is on disk. Where other threads pass I/O on between a thread's own and its sleep, or the journal is slow to get a
// processor, no disk can be named: one run of five has to agree.
func TestDisks(t *testing.T) {
	s := open(t, Options{})
	if s.missing != nil {
		t.Skip(s.missing)
	}
	dir, device := loopDisk(t)
	const script = `set -e
dd if=/dev/zero of=$0/f bs=1M count=48 conv=fsync status=none
dd if=$0/f of=/dev/null bs=64k iflag=direct status=none
for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=$0/g bs=64k count=1 conv=fsync,notrunc status=none; done`
	for range 5 {
		waited, known := diskWaits(t, s, device, "sh", "-c", script, dir)
		if known > waited {
			t.Fatalf("waits of %v, of it %v for %s", waited, known, device)
		}
		if known > 0 && known >= waited*4/5 {
			return
		}
	}
	t.Errorf("in no run of five four fifths of the waits are known to be for %s", device)
}

// diskWaits runs a program and returns how long those processes waited that waited for a disk, and how long for that disk. Those of
// other pid namespaces are left out: their waits come without an id, all together.
func diskWaits(t *testing.T, s *Source, device, program string, args ...string) (waited, known time.Duration) {
	t.Helper()
	var p sensor.TallyPass
	read(t, s, &p)
	p.Reset()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
	read(t, s, &p)
	processes := map[int32]bool{}
	for _, r := range p.Rows {
		if r.Name != 0 && p.NameOf(r.Name).Labels[0] == device && r.PID != 0 {
			known += time.Duration(r.Amount)
			processes[r.PID] = true
		}
	}
	for pid := range processes {
		waited += time.Duration(sensortest.Sum(&p, 0, pid))
	}
	t.Logf("%d processes waited %v, of it for %s %v", len(processes), waited, device, known)
	return waited, known
}

// Sleeping, and waiting for others, is no wait for storage.
func TestSleeper(t *testing.T) {
	s := open(t, Options{})
	var p sensor.TallyPass
	read(t, s, &p)
	p.Reset()
	c := exec.Command("sleep", "0.3")
	if err := c.Run(); err != nil {
		t.Skip("not available here: ", err)
	}
	read(t, s, &p)
	if n := sensortest.Sum(&p, 0, int32(c.Process.Pid)); n > 250e6 {
		t.Errorf("a process that slept waited %v for storage", time.Duration(n))
	}
}

// TestNoRoom: what cannot be charged is in the pass as nobody's.
func TestNoRoom(t *testing.T) {
	s := open(t, Options{accounts: 1})
	name := onDisk(t, 50)
	var p sensor.TallyPass
	waits := s.waits()
	for range 2 {
		if err := exec.Command("/proc/self/exe", "read", name, "50").Run(); err != nil {
			t.Skip("not available here: ", err)
		}
	}
	read(t, s, &p)
	if n := sensortest.Sum(&p, 0, 0); waits[0] < 10 || n == 0 || !p.Unowned {
		t.Errorf("two readers and room for one: %d waits of %d ns are nobody's", waits[0], n)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	s := open(t, Options{})
	var p sensor.TallyPass
	for range 3 {
		p.Reset()
		read(t, s, &p)
	}
	if n := testing.AllocsPerRun(20, func() { p.Reset(); read(t, s, &p) }); n > 0 {
		t.Errorf("a reading allocates %v times", n)
	}
}

func TestClosed(t *testing.T) {
	s := open(t, Options{})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Read(new(sensor.TallyPass)); err == nil {
		t.Error("a source that is closed was read")
	}
}

// BenchmarkSwitches reports the CPU time of a switch of threads with and without us, in turns.
func BenchmarkSwitches(b *testing.B) {
	var more, alone time.Duration
	for b.Loop() {
		s := open(b, Options{})
		turn(b)
		more += turn(b)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		turn(b)
		alone += turn(b)
	}
	b.ReportMetric(float64(more-alone)/float64(b.N)/(2*trips), "more-ns/switch")
	b.ReportMetric(float64(alone)/float64(b.N)/(2*trips), "ns/switch")
}

const trips = 20000

// turn is the CPU time of sending a byte to and fro between two threads.
func turn(b *testing.B) time.Duration {
	var there, back [2]int
	if unix.Pipe(there[:]) != nil || unix.Pipe(back[:]) != nil {
		b.Skip("no pipes")
	}
	var before, after unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
	go func() {
		runtime.LockOSThread()
		buf := make([]byte, 1)
		for range trips {
			_, _ = unix.Read(there[0], buf)
			_, _ = unix.Write(back[1], buf)
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buf := make([]byte, 1)
	for range trips {
		_, _ = unix.Write(there[1], buf)
		_, _ = unix.Read(back[0], buf)
	}
	_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
	for _, fd := range []int{there[0], there[1], back[0], back[1]} {
		_ = unix.Close(fd)
	}
	return time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
}
