package counters

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// software is a plan of events that every machine has: the path of the counters is the same.
func software() *eventPlan {
	return &eventPlan{events: []perfEvent{
		{Cycles, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK},
		{Instructions, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS},
	}}
}

// TestMain is also the programs that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "work" {
		if err := work(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "touch" {
		touch(3000)
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "pong" {
		pong()
		return
	}
	os.Exit(m.Run())
}

// work enters control groups, starts processes that touch memory one after another, and prints the ids of all.
func work(groups, processes string) error {
	for dir := range strings.SplitSeq(groups, ":") {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return err
		}
	}
	n, err := strconv.Atoi(processes)
	if err != nil {
		return err
	}
	fmt.Println(os.Getpid())
	for range n {
		c := exec.Command("/proc/self/exe", "touch")
		if err := c.Run(); err != nil {
			return err
		}
		fmt.Println(c.Process.Pid)
	}
	return nil
}

// touch writes to pages of memory again and again, each for the first time, and computes.
func touch(pages int) {
	for range 3 {
		memory, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return
		}
		_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE)
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
		for end := time.Now().Add(10 * time.Millisecond); time.Now().Before(end); {
		}
		_ = unix.Munmap(memory)
	}
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

// group makes a control group with a file in it, removed at the end.
func group(t *testing.T, name string, parents ...string) string {
	for _, parent := range parents {
		dir := filepath.Join(parent, fmt.Sprintf("reckon-counters-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return dir
		}
	}
	t.Skipf("no control groups with %s here", name)
	return ""
}

// field is a number of a file of lines "name number", or its only number.
func field(t *testing.T, file, name string) float64 {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) > 0 && (len(words) == 1 || words[0] == name) {
			v, _ := strconv.ParseFloat(words[len(words)-1], 64)
			return v
		}
	}
	t.Fatalf("no %s in %s", name, file)
	return 0
}

// TestAgainstCgroup: what the counters of whole processors counted while the processes of a control group ran is what the group's own
// counters report, to 1 %: page faults and processor time, of processes that all ended between two readings. Where switches were missed, a part
// is nobody's. No run may have more page faults than the group. Processor time of the group leaves out interrupts
// and what the host of a virtual machine took, so that ours may have as much more; what a host takes without saying so stretches
// either clock between two readings. One run of ten therefore has to agree, or to lack no more than is nobody's.
func TestAgainstCgroup(t *testing.T) {
	s := open(t, Options{plan: software()})
	memory := group(t, "memory.stat", "/sys/fs/cgroup/memory", "/sys/fs/cgroup")
	cpu, cpuFile, unit := group(t, "cpuacct.usage", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/memory"), "cpuacct.usage", 1.0
	var p sensor.TallyPass
	explained := false
	for range 10 {
		read(t, s, &p)
		p.Reset()
		faults, used := field(t, memory+"/memory.stat", "pgfault"), field(t, filepath.Join(cpu, cpuFile), "")*unit
		before := taken(t)
		out, err := exec.Command("/proc/self/exe", "work", memory+":"+cpu, "20").Output()
		if err != nil {
			t.Fatalf("run the processes of the control group: %v", err)
		}
		faults, used = field(t, memory+"/memory.stat", "pgfault")-faults, field(t, filepath.Join(cpu, cpuFile), "")*unit-used
		more := taken(t) - before
		read(t, s, &p)
		var ours []int32
		for _, word := range strings.Fields(string(out)) {
			pid, _ := strconv.Atoi(word)
			ours = append(ours, int32(pid))
		}
		sum := func(c Counter, of ...int32) float64 { return float64(sensortest.Sum(&p, int(c), of...)) }
		clock, events := sum(Cycles, ours...), sum(Instructions, ours...)
		t.Logf("faults %.0f of %.0f (%+.2f %%), processor time %.1f of %.1f ms (%+.2f %%; interrupts and the host took %.0f ms), nobody's %v", events, faults, 100*(events/faults-1), clock/1e6, used/1e6, 100*(clock/used-1), more/1e6, sum(Cycles, 0))
		if near(events, faults) && clock > 0.99*used && clock < 1.01*used+more {
			return
		}
		restFaults, restClock := sum(Instructions, 0), sum(Cycles, 0)
		if events > 1.01*faults {
			t.Errorf("%.0f page faults more than the group had", events-faults)
		}
		missed := events < 0.99*faults || clock < 0.99*used
		explained = explained || missed && events+restFaults > 0.99*faults && clock+restClock > 0.99*used
	}
	if !explained {
		t.Error("no run of ten agrees to 1 %, or lacks no more than what is nobody's")
	}
}

// taken is the time that interrupts and the host took from the processors since boot, to a tick of 10 ms each, nanoseconds
// (proc(5), /proc/stat).
func taken(t *testing.T) (nanos float64) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(strings.SplitN(string(text), "\n", 2)[0])
	for _, i := range []int{6, 7, 8} { // irq, softirq, steal
		if i < len(words) {
			n, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			nanos += n * 1e7
		}
	}
	return nanos
}

func near(a, b float64) bool { return a > 0.99*b && a < 1.01*b }

// TestLong: a thread that nothing takes off its processor is charged when it is read, and a processor that comes back counts again.
func TestLong(t *testing.T) {
	s := open(t, Options{plan: software()})
	var p sensor.TallyPass
	read(t, s, &p)
	_, before := s.runningThread(0)
	runOn(s.flush.FD(), 0)
	if _, after := s.runningThread(0); after <= before {
		t.Error("the counters of processor 0 were not read there")
	}
	s.was = []byte("1024\n") // as if all of today's came online now
	p.Reset()
	read(t, s, &p)
	if !p.Gaps {
		t.Error("processors that came online were not noticed")
	}
	c := exec.Command("/proc/self/exe", "touch")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	p.Reset()
	read(t, s, &p)
	own, rest := sensortest.Sum(&p, int(Instructions), int32(c.Process.Pid)), sensortest.Sum(&p, int(Instructions), 0)
	if own < 4500 || own+rest <= 9000 || p.Gaps { // on a busy machine the first faults of a process may be nobody's
		t.Errorf("the faults of process %d were not counted with events that were opened again: %+v", c.Process.Pid, p.Rows)
	}
}

// TestNoRoom: what cannot be charged is in the pass as nobody's.
func TestNoRoom(t *testing.T) {
	s := open(t, Options{plan: software(), accounts: 1})
	var p sensor.TallyPass
	for range 2 {
		if err := exec.Command("/proc/self/exe", "touch").Run(); err != nil {
			t.Fatal(err)
		}
	}
	read(t, s, &p)
	if n := sensortest.Sum(&p, int(Instructions), 0); n < 9000 || !p.Unowned {
		t.Errorf("two processes and room for one: %d faults are nobody's", n)
	}
}

// TestUnavailable: a machine without counters, or one that locks them, reports it in words.
func TestUnavailable(t *testing.T) {
	s, err := Open(Options{})
	var none *sensor.UnavailableError
	switch {
	case err == nil:
		t.Cleanup(func() { _ = s.Close() })
		if s.have&1 == 0 {
			t.Error("it is open and counts no cycles")
		}
	case !errors.As(err, &none) || none.Reason == "" || none.Fix == "":
		t.Errorf("%v", err)
	default:
		t.Log(err)
	}
	unknown := eventPlan{events: []perfEvent{{Cycles, 4095, 1}}}
	extra := eventPlan{events: append(software().events, unknown.events...), line: 64}
	extra.events[2].counter = CacheMisses
	s = open(t, Options{plan: &extra})
	var p sensor.TallyPass
	if read(t, s, &p); p.Have != 1<<Cycles|1<<Instructions {
		t.Errorf("without cache misses it has %b", p.Have)
	}
	if _, err := Open(Options{plan: &unknown}); !errors.As(err, &none) || !strings.Contains(none.Reason, "no performance counters") {
		t.Errorf("of an event that no machine has: %v", err)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	s := open(t, Options{plan: software()})
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
	s := open(t, Options{plan: software()})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Read(new(sensor.TallyPass)); err == nil {
		t.Error("a source that is closed was read")
	}
}
