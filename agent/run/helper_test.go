package run

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/task/taskstats"
)

// The test binary is its own load: with RECKON_LOAD set it does what that reports, and ends.
func TestMain(m *testing.M) {
	if load := os.Getenv("RECKON_LOAD"); load != "" {
		// Whatever goes wrong, a load neither multiplies nor stays.
		if depth() > 2 {
			os.Exit(98)
		}
		time.AfterFunc(3*time.Minute, func() { os.Exit(97) })
		os.Exit(doLoad(strings.Fields(load)))
	}
	os.Exit(m.Run())
}

func doLoad(words []string) int {
	arg := func(i int) int { n, _ := strconv.Atoi(words[i]); return n }
	switch words[0] {
	case "busy": // busy MILLISECONDS
		busy(time.Duration(arg(1)) * time.Millisecond)
	case "threads": // threads N MILLISECONDS
		var wg sync.WaitGroup
		for range arg(1) {
			wg.Add(1)
			go func() {
				defer wg.Done()
				runtime.LockOSThread()
				spinThread(time.Duration(arg(2)) * time.Millisecond)
			}()
		}
		wg.Wait()
	case "alloc": // alloc MEBIBYTES, held until a line comes on standard input or 300 ms have gone
		hold := touch(arg(1))
		time.Sleep(300 * time.Millisecond)
		runtime.KeepAlive(hold)
	case "memfd": // memfd MEBIBYTES: written to shared memory that is not mapped
		fd, err := unix.MemfdCreate("load", 0)
		if err != nil {
			return 1
		}
		block := bytes.Repeat([]byte{1}, 1<<20)
		for range arg(1) {
			if _, err := unix.Write(fd, block); err != nil {
				return 1
			}
		}
		time.Sleep(300 * time.Millisecond)
	case "write": // write MEBIBYTES FILE
		f, err := os.Create(words[2])
		if err != nil {
			return 1
		}
		block := bytes.Repeat([]byte{1}, 1<<20)
		for range arg(1) {
			if _, err := f.Write(block); err != nil {
				return 1
			}
		}
		if f.Sync() != nil || f.Close() != nil {
			return 1
		}
	case "ignore": // ignore N MILLISECONDS FILE: children that nobody waits for
		signal.Ignore(syscall.SIGCHLD)
		for range arg(1) {
			child("busytell "+words[2]+" "+words[3], nil)
		}
		for { // returns when there is no child left
			if _, err := unix.Wait4(-1, nil, 0, nil); err != unix.EINTR {
				return 0
			}
		}
	case "busytell": // busytell MILLISECONDS FILE: reports the kernel's own figure for it
		busy(time.Duration(arg(1)) * time.Millisecond)
		tell(words[2])
	case "daemon": // daemon MILLISECONDS FILE: a grandchild in a session of its own, parent gone
		child("daemon2 "+words[1]+" "+words[2], &syscall.SysProcAttr{Setsid: true})
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
			if b, _ := os.ReadFile(words[2]); len(b) > 0 {
				return 0
			}
			time.Sleep(10 * time.Millisecond)
		}
		return 1
	case "daemon2":
		child("busytell "+words[1]+" "+words[2], nil)
	case "survivor": // survivor MILLISECONDS: leaves a daemon behind and ends
		child("sleep "+words[1], &syscall.SysProcAttr{Setsid: true})
	case "sleep":
		time.Sleep(time.Duration(arg(1)) * time.Millisecond)
	case "signal": // signal FILE: states that it is ready, ends with 7 on SIGUSR1
		ch := make(chan os.Signal, 1)
		signal.Notify(ch, syscall.SIGUSR1)
		if os.WriteFile(words[1], []byte("ready"), 0o600) != nil {
			return 1
		}
		select {
		case <-ch:
			return 7
		case <-time.After(2 * time.Minute):
			return 1
		}
	default:
		return 99
	}
	return 0
}

func child(load string, attr *syscall.SysProcAttr) {
	// The first of two equal names counts, so ours must be the only one: a child that
	// took its parent's for its own would start children without end.
	env := []string{"RECKON_LOAD=" + load}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "RECKON_") {
			env = append(env, e)
		}
	}
	env = append(env, "RECKON_DEPTH="+strconv.Itoa(depth()+1))
	if _, err := syscall.ForkExec("/proc/self/exe", []string{"load"}, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: attr}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// depth is the number of loads that are above this process.
func depth() int {
	n, err := strconv.Atoi(os.Getenv("RECKON_DEPTH"))
	if err != nil {
		return 0
	}
	return n
}

// tell appends the CPU time of this process, ns, to a file.
func tell(path string) {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		os.Exit(1)
	}
	fmt.Fprintln(f, u.Utime.Nano()+u.Stime.Nano())
	f.Close()
}

func told(t *testing.T, path string) (sum float64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range strings.Fields(string(b)) {
		n, err := strconv.ParseFloat(w, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n / 1e9
	}
	return sum
}

func busy(d time.Duration) { spin(unix.CLOCK_PROCESS_CPUTIME_ID, d) }

func spinThread(d time.Duration) { spin(unix.CLOCK_THREAD_CPUTIME_ID, d) }

func spin(clock int32, d time.Duration) {
	var ts unix.Timespec
	for {
		_ = unix.ClockGettime(clock, &ts)
		if time.Duration(ts.Nano()) >= d {
			return
		}
		x := uint64(1)
		for range 1000 {
			x = x*2862933555777941757 + 3037000493
		}
		sink.Store(x)
	}
}

var sink atomic.Uint64

func touch(mib int) []byte {
	b, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		os.Exit(1)
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// load runs a load under Run and returns the report, and the CPU time that the kernel
// charged for children waited for meanwhile, seconds.
func load(t *testing.T, o Options, words string) (*Report, float64) {
	t.Helper()
	t.Setenv("RECKON_LOAD", words)
	o.Args = []string{"/proc/self/exe"}
	return measure(t, o)
}

func measure(t *testing.T, o Options) (*Report, float64) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if o.Stdout == nil {
		o.Stdout = null
	}
	if o.Stdin == nil {
		o.Stdin = null
	}
	before := childrenCPU()
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r, childrenCPU() - before
}

// waitForAll waits for daemons that a report left alone.
func waitForAll() {
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && err != unix.EINTR {
			return
		}
	}
}

func childrenCPU() float64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// near fails unless got is within 1 % (and 3 ms, the work of starting and ending that one
// counter holds and the other does not) of what the kernel reports.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	d := got - want
	if d < 0 {
		d = -d
	}
	if d > want*0.01+0.003 {
		t.Errorf("%s: %.4f s, the kernel says %.4f s (%+.2f %%)", what, got, want, 100*(got-want)/want)
	}
	t.Logf("%s: %.4f s, kernel %.4f s (%+.2f %%)", what, got, want, 100*(got-want)/want)
}

// everySource runs a test with each combination of sources that this machine has, and
// again without privilege when we are root.
func everySource(t *testing.T, f func(t *testing.T, o Options)) {
	t.Run("all", func(t *testing.T) { f(t, Options{}) })
	t.Run("no cgroup", func(t *testing.T) { f(t, Options{NoCgroup: true}) })
	t.Run("taskstats", func(t *testing.T) {
		f(t, Options{NoCgroup: true, NoPerf: true, Exits: exitRecords(t)})
	})
	t.Run("all and taskstats", func(t *testing.T) { f(t, Options{Exits: exitRecords(t)}) })
	t.Run("procfs", func(t *testing.T) { f(t, Options{NoCgroup: true, NoPerf: true}) })
}

func exitRecords(t *testing.T) sensor.ExitSource {
	t.Helper()
	s, err := taskstats.New(taskstats.Options{})
	if err != nil {
		t.Skip("not available here: ", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestUnprivileged runs this package's tests as nobody.
func TestUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: the other tests have no privilege already")
	}
	dir := t.TempDir()
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	bin := dir + "/run.test"
	if err := os.WriteFile(bin, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != "/" && d != os.TempDir(); d = d[:strings.LastIndex(d, "/")] {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bin, "-test.run=^TestRun", "-test.short")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}
