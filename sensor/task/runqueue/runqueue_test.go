package runqueue

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// TestMain is also the program that the tests start: threads that share one processor.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "share" {
		if err := share(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// startOnOne starts a program with threads that never leave the first processor: what one that is moved to another queue waited before, and
// what the clocks of two processors differ by, is in the kernel's sum and not in ours.
func startOnOne(c *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	one.Set(0)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	c.Env = append(os.Environ(), "GOMAXPROCS=4") // the kernel, not the runtime, shares the processor
	return errors.Join(c.Start(), unix.SchedSetaffinity(0, &all))
}

// share has two threads compute on one processor for a time, and prints what all threads of the process waited for one and how
// often they got one, by the kernel's figures (Documentation/scheduler/sched-stats.rst).
func share(span string) error {
	long, err := time.ParseDuration(span)
	if err != nil {
		return err
	}
	done, leave := make(chan bool), make(chan bool)
	for range 2 {
		go func() {
			runtime.LockOSThread()
			for end := time.Now().Add(long); time.Now().Before(end); {
			}
			done <- true
			<-leave // a thread that ended would be missing in the sum
		}()
	}
	<-done
	<-done
	tasks, err := filepath.Glob("/proc/self/task/*/schedstat")
	var delay, stints uint64
	for _, name := range tasks {
		var v [3]uint64
		if text, err := os.ReadFile(name); err == nil {
			_, _ = fmt.Sscan(string(text), &v[0], &v[1], &v[2])
		}
		delay, stints = delay+v[1], stints+v[2]
	}
	fmt.Println(delay, stints)
	_, _ = os.Stdin.Read(make([]byte, 1)) // the parent reads meanwhile
	return err
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

// add adds what the pass has of a process.
func (d *processDelays) add(p *sensor.TallyPass, pid int32) {
	for i := range p.Rows {
		switch r := &p.Rows[i]; {
		case r.PID != pid:
		case r.Bound == 0:
			d.nanos += r.Amount
		default:
			d.octaves[r.Bound-1] += r.Amount
		}
	}
}

// Two threads on one processor wait for each other: the sum of their delays and the number of
// times that they got the processor are the kernel's.
func TestShare(t *testing.T) {
	s := open(t, Options{})
	var p sensor.TallyPass
	read(t, s, &p)
	p.Reset()
	c := exec.Command("/proc/self/exe", "share", "400ms")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := startOnOne(c); err != nil {
		t.Fatal(err)
	}
	var delay, stints float64
	if _, err := fmt.Fscan(out, &delay, &stints); err != nil {
		t.Fatal(err)
	}
	if stints == 0 || delay == 0 {
		t.Skip("no figures of threads")
	}
	// A delay is counted when its thread leaves the processor, which the one that printed may not have done.
	var got processDelays
	var n uint64
	for end := time.Now().Add(2 * time.Minute); float64(n) < stints && time.Now().Before(end); {
		p.Reset()
		read(t, s, &p)
		got.add(&p, int32(c.Process.Pid))
		n = 0
		for _, v := range got.octaves {
			n += v
		}
	}
	_ = in.Close()
	_ = c.Wait()
	var long uint64
	for _, v := range got.octaves[11:] {
		long += v // above 1 ms
	}
	t.Logf("%v in %d delays, %d of them above 1 ms; by the threads' own figures %v in %v", time.Duration(got.nanos), n, long, time.Duration(delay), stints)
	// The kernel reads its clock before a hook reads it, and a host may take the processor in between; the main thread goes on until it
	// has printed.
	between := 100e3 * float64(n)
	if float64(got.nanos) < 0.98*delay-between || float64(got.nanos) > 1.02*delay+40e6 || float64(n) < stints || long == 0 {
		t.Errorf("counted %+v", got)
	}
	for range 3 {
		p.Reset()
		read(t, s, &p)
	}
	var key uint32
	var value []byte
	for it := s.accounts.Map.Iterate(); it.Next(&key, &value); {
		if int(key) == c.Process.Pid {
			t.Error("the account of a process that ended is still there")
		}
	}
}

// What cannot be charged to a process is in the pass as nobody's.
func TestNoRoom(t *testing.T) {
	s := open(t, Options{accounts: 1})
	var p sensor.TallyPass
	for range 3 {
		if err := exec.Command("/proc/self/exe", "share", "1ms").Run(); err != nil {
			t.Fatal(err)
		}
	}
	read(t, s, &p)
	var before, after processDelays
	before.add(&p, 0)
	if before.nanos == 0 || before.octaves == [sensor.TallyOctaves]uint64{} || !p.Unowned {
		t.Errorf("%+v is nobody's", before)
	}
	p.Reset()
	read(t, s, &p)
	if after.add(&p, 0); after.nanos > before.nanos {
		t.Errorf("%d ns are nobody's in a short time, after %d ns in a long one: the total is reported again", after.nanos, before.nanos)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	s := open(t, Options{})
	p := sensor.TallyPass{Rows: make([]sensor.TallyRow, 0, 1<<17)} // others may begin many meanwhile
	for range 20 {
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
