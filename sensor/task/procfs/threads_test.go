package procfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// ownWait sums the wait of our own threads that live.
func ownWait(t *testing.T) uint64 {
	t.Helper()
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	sum := uint64(0)
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil {
			if _, wait, _, err := parseSchedstat(text); err == nil {
				sum += wait
			}
		}
	}
	if sum == 0 {
		t.Skip("the kernel does not account waiting")
	}
	return sum
}

// TestThreadsWait sums what the threads of a process waited. None of them ends, so the
// figure lies between our own sums before and after.
func TestThreadsWait(t *testing.T) {
	s := open(t, Options{})
	var p sensor.Pass
	stop := make(chan struct{})
	var ready, all sync.WaitGroup
	for range 40 { // more than are read at each pass
		ready.Add(1)
		all.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-stop
			runtime.UnlockOSThread()
		})
	}
	ready.Wait()
	defer func() { close(stop); all.Wait() }()
	before := ownWait(t)
	if err := s.Read(&p); err != nil {
		t.Fatal(err)
	}
	after := ownWait(t)
	q := find(&p, int32(os.Getpid()))
	if q.Have&sensor.FieldWait == 0 || q.WaitNanos < before || q.WaitNanos > after {
		t.Errorf("waited %d ns, want %d to %d", q.WaitNanos, before, after)
	}
	if q.Have&sensor.FieldSwitches != 0 {
		t.Error("context switches of one thread are reported for all")
	}
	stale, fresh := 0, 0 // readings without the threads, and with them
	for range 3 * 40 / threadBatch * 8 {
		p.Reset()
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		if q = find(&p, int32(os.Getpid())); q.Partial&sensor.FieldWait != 0 {
			stale++
		} else {
			fresh++
		}
	}
	ended := false // threads of other tests
	for _, e := range s.entries {
		ended = ended || e.p.PID == int32(os.Getpid()) && e.threads.ended
	}
	if stale < 10 || fresh < 10 && !ended {
		t.Errorf("the wait may lack some at %d readings, and does not at %d", stale, fresh)
	}
	if q.WaitNanos < after || q.WaitNanos > ownWait(t) {
		t.Errorf("later %d ns, want %d to %d", q.WaitNanos, after, ownWait(t))
	}
	for _, e := range s.entries {
		if e.p.PID == int32(os.Getpid()) && len(e.threads.list) < 40 {
			t.Errorf("%d threads are read", len(e.threads.list))
		}
	}
}

// TestThreadsIO tests that a process which has waited for children is still charged with
// what its own threads write, the ended ones included when they were seen.
func TestThreadsIO(t *testing.T) {
	if err := exec.Command("true").Run(); err != nil {
		t.Skip("not available here: ", err)
	}
	s := open(t, Options{})
	var p sensor.Pass
	read := func() *sensor.Process {
		p.Reset()
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		return find(&p, int32(os.Getpid()))
	}
	before := read()
	if before.Have&sensor.FieldIO == 0 {
		t.Skip("I/O is not reported here")
	}
	was, kernel := before.WriteBytes, ownWritten(t)
	const size = 4 << 20
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if ownWritten(t) < kernel+size {
		t.Skip("the kernel adds nothing here: a file system in memory")
	}
	grew := uint64(0)
	for range threadBatch { // it has its turn when it has run
		if grew = read().WriteBytes - was; grew >= size {
			break
		}
	}
	if grew < size || grew > size+1<<20 {
		t.Errorf("%d bytes more, wrote %d", grew, size)
	}
}

func ownWritten(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip("not available here: ", err)
	}
	io, err := parseIO(text)
	if err != nil {
		t.Skip("not available here: ", err)
	}
	return io.write
}

// TestNumberTakenAgain gives an entry another process under the same number.
func TestNumberTakenAgain(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "proc/7")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(comm string, utime, start int) {
		t.Helper()
		stat := "7 (" + comm + ") S 1 7 7 0 -1 0 5 0 0 0 " + strconv.Itoa(utime) + " 0 0 0 20 0 1 0 " + strconv.Itoa(start) + " 0 0\n"
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := open2(t, root, write)
	var p sensor.Pass
	for _, c := range []struct {
		comm         string
		utime, start int
	}{{"old", 500, 100}, {"old", 600, 100}, {"new", 3, 900}, {"new", 4, 900}} {
		write(c.comm, c.utime, c.start)
		p.Reset()
		if err := s.Read(&p); err != nil || len(p.Live) != 1 {
			t.Fatalf("%v, %d processes", err, len(p.Live))
		}
		q := p.Live[0]
		if q.Comm.String() != c.comm || q.UserNanos != uint64(c.utime)*1e7 || q.Start != uint64(c.start)*1e7 {
			t.Errorf("%+v: %+v", c, q)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	p.Reset()
	if err := s.Read(&p); err == nil || len(p.Live) != 0 {
		t.Errorf("nothing is left: %v, %d processes", err, len(p.Live))
	}
}

// TestGroupsOfTheExiting: the kernel shows the root groups of version 1 for a process that is exiting. The groups that it was
// in remain its own.
func TestGroupsOfTheExiting(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "proc/7")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(flags, utime int, group string) {
		t.Helper()
		stat := "7 (load) R 1 7 7 0 -1 " + strconv.Itoa(flags) + " 5 0 0 0 " + strconv.Itoa(utime) + " 0 0 0 20 0 1 0 100 0 0\n"
		for name, text := range map[string]string{"stat": stat, "status": "Uid:\t5\t5\t5\t5\n", "cgroup": "4:cpuacct:" + group + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(0, 1, "/slurm/uid_5/job_1/step_0")
	s := open(t, Options{Root: root})
	var p sensor.Pass
	for i, c := range []struct {
		flags       int
		shown, want string
	}{{0, "/slurm/uid_5/job_1/step_0", "/slurm/uid_5/job_1/step_0"}, {0, "/other", "/other"}, {exitingTask, "/", "/other"}, {exitingTask | 0x400000, "/", "/other"}} {
		write(c.flags, 2+i, c.shown)
		for _, e := range s.entries {
			e.due = 0 // it is read whole
		}
		p.Reset()
		if err := s.Read(&p); err != nil || len(p.Live) != 1 {
			t.Fatalf("%v, %d processes", err, len(p.Live))
		}
		if paths, ok := s.CgroupPaths(p.Live[0].Cgroup); !ok || len(paths) != 1 || paths[0].Path != c.want {
			t.Errorf("reading %d: %v, want %s", i, paths, c.want)
		}
	}
}

func open2(t *testing.T, root string, write func(string, int, int)) *Source {
	t.Helper()
	write("old", 1, 100)
	s := open(t, Options{Root: root})
	s.hertz = 100
	return s
}

// TestOutOfDescriptors uses up all descriptors: the source gives back its own and goes on.
func TestOutOfDescriptors(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Skip("not available here: ", err)
	}
	s := open(t, Options{NoClock: true})
	var p sensor.Pass
	for range 2 {
		p.Reset()
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
	}
	if s.files.used == 0 {
		t.Fatal("no descriptor is kept")
	}
	f, err := os.Open("/proc/self/fd")
	if err != nil {
		t.Skip("not available here: ", err)
	}
	names, _ := f.Readdirnames(-1)
	_ = f.Close()
	highest := 0
	for _, n := range names {
		v, _ := strconv.Atoi(n)
		highest = max(highest, v)
	}
	low := old
	low.Cur = uint64(highest) // all numbers below are taken, or will be by one more
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Skip("not available here: ", err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	var taken []int
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	for _, e := range s.entries {
		e.due = 0 // needs files that are not open
	}
	p.Reset()
	err = s.Read(&p)
	for _, fd := range taken {
		_ = unix.Close(fd)
	}
	if err != nil || len(p.Live) == 0 {
		t.Errorf("%v, %d processes", err, len(p.Live))
	}
}

// TestEndedThreads: once a thread has ended its wait is no more in /proc, however briefly it lived, and the process is marked as lacking it.
func TestEndedThreads(t *testing.T) {
	s := open(t, Options{})
	var p sensor.Pass
	burn := func(n int, ms int64) {
		for range n {
			done := make(chan struct{})
			go func() {
				runtime.LockOSThread()
				var now unix.Timespec
				for _ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); now.Nano() < ms*1e6; {
					_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
				}
				close(done)
			}()
			<-done
		}
	}
	if err := s.Read(&p); err != nil {
		t.Fatal(err)
	}
	burn(20, 20) // none of them is seen
	for range threadBatch {
		p.Reset()
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		if q := find(&p, int32(os.Getpid())); q.Partial&sensor.FieldWait != 0 {
			return
		}
		burn(1, 1)
	}
	t.Error("twenty threads ended between two readings, and nothing is missing")
}
