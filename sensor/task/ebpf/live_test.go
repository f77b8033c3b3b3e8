package ebpf

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// TestMain is also the programs that the tests start: the first argument reports which.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		child(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

func child(what string) {
	switch what {
	case "threads": // 8 threads of 20 ms that end, then one that stays
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { burn(20 * time.Millisecond) })
		}
		all.Wait()
		burn(20 * time.Millisecond)
	case "leaderless": // the leader ends, another thread works on
		runtime.GOMAXPROCS(4) // the leader takes a processor of the runtime with it
		runtime.LockOSThread()
		go func() {
			runtime.LockOSThread()
			burn(30 * time.Millisecond)
			held, _ := unix.Mmap(-1, 0, 32<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON) // no collector: it would wait for the leader
			for i := 0; i < len(held); i += os.Getpagesize() {
				held[i] = 1
			}
			fmt.Println("alone")
			wait()
			unix.Exit(0)
		}()
		if unix.Gettid() == unix.Getpid() {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
		select {}
	case "open": // the same file three times
		for range 3 {
			if fd, err := unix.Open(os.Args[3], unix.O_RDONLY, 0); err == nil {
				_ = unix.Close(fd)
			}
		}
	case "exec": // a thread that is not the leader becomes another program
		burn(20 * time.Millisecond)
		done := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			_ = unix.Exec("/proc/self/exe", []string{"child", "child", "hold"}, nil)
			close(done)
		}()
		<-done
	case "churn": // many threads that sleep, and others that end all the time
		debug.SetMaxThreads(20000)
		for range 1000 {
			go func() {
				runtime.LockOSThread()
				unix.Nanosleep(&unix.Timespec{Sec: 1000}, nil)
			}()
		}
		for range 8 {
			go func() {
				for {
					ended := make(chan struct{})
					go func() {
						runtime.LockOSThread()
						close(ended)
					}()
					<-ended
				}
			}()
		}
		fmt.Println("begun")
		wait()
		unix.Exit(0)
	case "pool":
		pool(os.Args[3], 200)
	case "crowd":
		crowd()
	case "hold":
		fmt.Println(unix.Getpid())
		wait()
	}
}

// wait returns when the test closes our input.
func wait() { _, _ = os.Stdin.Read(make([]byte, 1)) }

// burn uses CPU time on a thread that ends afterwards.
func burn(d time.Duration) {
	runtime.LockOSThread()
	var begin, now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &begin)
	for now = begin; now.Nano()-begin.Nano() < int64(d); {
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	}
}

func open(t testing.TB, o Options) *Source {
	t.Helper()
	s, err := New(o)
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openExits(t testing.TB) *Source {
	s := open(t, Options{})
	if s.Exits() != nil {
		t.Skip(s.Exits())
	}
	return s
}

func read(t testing.TB, s *Source, p *sensor.Pass) {
	t.Helper()
	p.Reset()
	if err := s.Read(p); err != nil {
		t.Fatal(err)
	}
}

func live(p *sensor.Pass, pid int) *sensor.Process {
	for i := range p.Live {
		if p.Live[i].PID == int32(pid) {
			return &p.Live[i]
		}
	}
	return nil
}

func gonePID(p *sensor.Pass, pid int) *sensor.Process {
	for i := range p.Exited {
		if p.Exited[i].PID == int32(pid) {
			return &p.Exited[i]
		}
	}
	return nil
}

// start starts one of the programs of child; end closes its input and waits for it.
func start(t *testing.T, what string, attr *syscall.SysProcAttr) (c *exec.Cmd, output *os.File, end func()) {
	t.Helper()
	c = exec.Command("/proc/self/exe", "child", what)
	c.SysProcAttr = attr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout = w
	if err := c.Start(); err != nil {
		t.Skipf("start a child: %v", err)
	}
	_ = w.Close()
	end = sync.OnceFunc(func() {
		_ = in.Close()
		_ = c.Wait()
		_ = r.Close()
	})
	t.Cleanup(end)
	return c, r, end
}

func line(t *testing.T, f *os.File) string {
	t.Helper()
	b := make([]byte, 64)
	n, err := f.Read(b)
	if err != nil {
		t.Fatalf("the child said nothing: %v", err)
	}
	return strings.TrimSpace(string(b[:n]))
}

func cpu(p *sensor.Process) time.Duration { return time.Duration(p.UserNanos + p.SystemNanos) }

func TestContract(t *testing.T) {
	o := sensortest.TaskOptions{Want: sensor.FieldSwitches | sensor.FieldFaults | sensor.FieldMemory | sensor.FieldPeak |
		sensor.FieldCgroup | sensor.FieldGroup | sensor.FieldThreads | sensor.FieldParent | sensor.FieldCPUSplit | sensor.FieldSwap}
	sensortest.RunTasks(t, func(t *testing.T) sensor.TaskSource { return open(t, Options{}) }, o)
}

// TestExitOnce tests that every child is reported once when it has ended, with what wait4(2)
// reports about it, whether it was seen alive or not.
func TestExitOnce(t *testing.T) {
	s := openExits(t)
	var p sensor.Pass
	for _, seen := range []bool{false, true} {
		c, _, end := start(t, "threads", nil)
		if seen {
			read(t, s, &p)
			if live(&p, c.Process.Pid) == nil {
				t.Errorf("%d is not reported alive", c.Process.Pid)
			}
		}
		end()
		found := 0
		for range 200 { // its record may come with the next passes
			read(t, s, &p)
			if q := live(&p, c.Process.Pid); q != nil && q.State != 'Z' {
				t.Errorf("%d is reported alive (%c) after it was waited for", c.Process.Pid, q.State)
			}
			q := gonePID(&p, c.Process.Pid)
			if q == nil {
				if found > 0 {
					break
				}
				unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
				continue
			}
			found++
			state := c.ProcessState
			within(t, "CPU time", float64(cpu(q)), float64(state.UserTime()+state.SystemTime()), 1e-3)
			usage := state.SysUsage().(*syscall.Rusage)
			if q.MinorFaults != uint64(usage.Minflt) || q.MajorFaults != uint64(usage.Majflt) {
				t.Errorf("page faults %d and %d, want %d and %d", q.MinorFaults, q.MajorFaults, usage.Minflt, usage.Majflt)
			}
			// The last switch away from the dead is counted, and its parent may have been reported before.
			if q.Voluntary-uint64(usage.Nvcsw) > 1 || q.Involuntary != uint64(usage.Nivcsw) {
				t.Errorf("switches %d and %d, want %d and %d", q.Voluntary, q.Involuntary, usage.Nvcsw, usage.Nivcsw)
			}
			if q.PPID != int32(os.Getpid()) || q.PGID != int32(unix.Getpgrp()) || q.UID != uint32(os.Getuid()) {
				t.Errorf("parent %d group %d user %d", q.PPID, q.PGID, q.UID)
			}
			own := live(&p, os.Getpid())
			if q.Cgroup != own.Cgroup {
				t.Errorf("cgroup %x, ours is %x", q.Cgroup, own.Cgroup)
			}
		}
		if found != 1 {
			t.Errorf("seen alive %v: told as ended %d times", seen, found)
		}
	}
}

// TestThreadsThatEndAllTheTime tests that a process in which threads end during each pass is not reported as it was
// in the last one that none ended in.
func TestThreadsThatEndAllTheTime(t *testing.T) {
	s := openExits(t)
	c, r, end := start(t, "churn", nil)
	defer end()
	line(t, r)
	var p sensor.Pass
	behind := 0
	for i := range 30 {
		unix.Nanosleep(&unix.Timespec{Nsec: 1e8}, nil)
		before := clockOf(t, c.Process.Pid)
		read(t, s, &p)
		after := clockOf(t, c.Process.Pid)
		q := live(&p, c.Process.Pid)
		if q == nil {
			t.Fatal("the child is not in the table")
		}
		// The clock of a running thread is the scheduler's last tick, and a thread that ends meanwhile is missing.
		const slack = 30 * time.Millisecond
		if cpu(q) > after+slack {
			t.Errorf("CPU time %v, the process has used %v", cpu(q), after)
		}
		if i > 0 && cpu(q) < before-slack {
			behind++
		}
	}
	if behind > 6 { // a thread may end while the totals are read, too
		t.Errorf("%d of 30 passes are behind", behind)
	}
}

// clockOf is the CPU clock of a process (clock_getcpuclockid(3)).
func clockOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|2, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

func within(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if want == 0 || got < want*(1-part)-2000 || got > want*(1+part)+2000 {
		t.Errorf("%s is %.0f, want %.0f (%+.3f %%)", what, got, want, (got/want-1)*100)
	}
}

// TestStorm tests that 2,000 processes of some ms add up to what getrusage(2) reports about our children.
func TestStorm(t *testing.T) {
	s := openExits(t)
	n := 2000
	if testing.Short() {
		n = 200
	}
	var p sensor.Pass
	_ = exec.Command("/bin/true").Run() // with the first, os/exec starts one more to try something out
	for range 5 {
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
		read(t, s, &p)
	}
	before := children()
	pids := make(map[int32]uint64)
	reported := 0
	take := func() {
		read(t, s, &p)
		if p.Lost != 0 {
			t.Errorf("%d records lost", p.Lost)
		}
		for i := range p.Exited {
			if q := &p.Exited[i]; q.PPID == int32(os.Getpid()) {
				if _, twice := pids[q.PID]; twice {
					t.Errorf("%d is reported twice", q.PID)
				}
				pids[q.PID] = uint64(cpu(q))
				reported++
			}
		}
	}
	for i := range n {
		if err := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt "+strconv.Itoa(300+i)+" ]; do i=$((i+1)); done").Run(); err != nil {
			t.Fatal(err)
		}
		if i%250 == 0 {
			take()
		}
	}
	for range 300 {
		if take(); reported >= n {
			break
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	var sum uint64
	for _, v := range pids {
		sum += v
	}
	want := children() - before
	t.Logf("%d processes of %v each: %v told, getrusage says %v", reported, want/time.Duration(n), time.Duration(sum), want)
	if reported != n {
		t.Errorf("%d processes are reported, want %d", reported, n)
	}
	within(t, "CPU time of all", float64(sum), float64(want), 0.01)
}

func children() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestFailedPass tests that a pass which failed after the kernel had reported it all is made up for:
// the kernel goes on from what it reported, which is not known here.
func TestFailedPass(t *testing.T) {
	s := open(t, Options{})
	var p sensor.Pass
	read(t, s, &p)
	s.table.forgetAll()
	read(t, s, &p)
	whole := len(p.Live)
	c, _, end := start(t, "hold", nil)
	defer end()
	if s.table.holes || live(&p, os.Getpid()) == nil || os.Getppid() != 0 && live(&p, os.Getppid()) == nil { // 0: it is outside our pid namespace
		t.Errorf("%d processes are reported after a failure", whole)
	}
	read(t, s, &p)
	if live(&p, c.Process.Pid) == nil || len(p.Live) < whole/2 {
		t.Errorf("%d processes are reported, before %d", len(p.Live), whole)
	}
}

// TestLeaderless tests a process with a leader that is a zombie while another thread lives on.
func TestLeaderless(t *testing.T) {
	s := openExits(t)
	c, out, end := start(t, "leaderless", nil)
	if got := line(t, out); got != "alone" {
		t.Fatalf("the child said %q", got)
	}
	var p sensor.Pass
	read(t, s, &p)
	q := live(&p, c.Process.Pid)
	if q == nil {
		t.Fatal("it is not reported")
	}
	if cpu(q) < 30*time.Millisecond {
		t.Errorf("CPU time %v, want at least the 30ms of its other thread", cpu(q))
	}
	if q.Threads < 2 {
		t.Errorf("%d threads", q.Threads)
	}
	if q.Anon < 32<<20 || q.Have&sensor.FieldMemory == 0 {
		t.Errorf("%d bytes of memory, want those of its other thread", q.Anon)
	}
	end()
	read(t, s, &p)
	if q := gonePID(&p, c.Process.Pid); q != nil && cpu(q) < 30*time.Millisecond {
		t.Errorf("CPU time at the end %v", cpu(q))
	}
}

// TestExecByThread tests a process with a thread, not the leader, that runs exec(2): it
// stays the same process, and keeps its CPU time.
func TestExecByThread(t *testing.T) {
	s := open(t, Options{})
	c, out, end := start(t, "exec", nil)
	defer end()
	if got := line(t, out); got != strconv.Itoa(c.Process.Pid) {
		t.Fatalf("the child said %q", got)
	}
	var p sensor.Pass
	read(t, s, &p)
	q := live(&p, c.Process.Pid)
	if q == nil {
		t.Fatal("it is not reported")
	}
	if cpu(q) < 20*time.Millisecond {
		t.Errorf("CPU time %v, it used 20ms before", cpu(q))
	}
	if q.Kernel || q.PPID != int32(os.Getpid()) {
		t.Errorf("%+v", q)
	}
}

// TestOtherNamespace tests a process in a pid namespace of its own: we see it under our number.
func TestOtherNamespace(t *testing.T) {
	s := openExits(t)
	c, out, end := start(t, "hold", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID})
	if got := line(t, out); got != "1" {
		t.Fatalf("the child calls itself %q", got)
	}
	var p sensor.Pass
	read(t, s, &p)
	if q := live(&p, c.Process.Pid); q == nil || q.PPID != int32(os.Getpid()) {
		t.Errorf("%d in a pid namespace: %+v", c.Process.Pid, q)
	}
	end()
	read(t, s, &p)
	if q := live(&p, c.Process.Pid); q != nil && q.State != 'Z' {
		t.Errorf("it is reported alive: %+v", q)
	}
}

// TestReaderInNamespace reads from inside a pid namespace: only its processes are reported, under
// its numbers there.
func TestReaderInNamespace(t *testing.T) {
	openExits(t)
	if os.Getenv("RECKON_TEST_INSIDE") == "" {
		// Processes that end outside while the programs are loaded inside.
		storm := exec.Command("sh", "-c", "while :; do (:); done")
		if err := storm.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = storm.Process.Kill(); _ = storm.Wait() }()
		c := exec.Command("/proc/self/exe", "-test.run=^TestReaderInNamespace$", "-test.v")
		c.Env = append(os.Environ(), "RECKON_TEST_INSIDE=1")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	var p sensor.Pass
	for range 3 { // what ends outside while the programs are loaded is not reported either
		early := openExits(t)
		for range 3 {
			read(t, early, &p)
			if len(p.Exited) > 0 {
				t.Errorf("the end of a process of outside is reported: %+v", p.Exited[0])
			}
		}
		_ = early.Close()
	}
	s := openExits(t)
	c, _, end := start(t, "hold", nil)
	read(t, s, &p)
	if len(p.Live) != 2 {
		t.Errorf("%d processes are reported, want us and our child", len(p.Live))
	}
	if q := live(&p, 1); q == nil || q.PPID != 0 {
		t.Errorf("we are %+v", q)
	}
	q := live(&p, c.Process.Pid)
	if q == nil || q.PPID != 1 {
		t.Fatalf("our child is %+v", q)
	}
	end()
	read(t, s, &p)
	if q := gonePID(&p, c.Process.Pid); q == nil || q.PPID != 1 || cpu(q) == 0 {
		t.Errorf("our child that ended is %+v", q)
	}
	for i := range p.Exited {
		if p.Exited[i].PPID > 2 {
			t.Errorf("a process of outside is reported: %+v", p.Exited[i])
		}
	}
}
