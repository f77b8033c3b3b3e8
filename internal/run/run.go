package run

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// Options is what to run and how to watch it.
type Options struct {
	Args                  []string // the program and its arguments
	Stdin, Stdout, Stderr *os.File // of the command; nil is ours
	// Wait goes on until every descendant has ended, those that daemonised too.
	Wait bool
	// NoCgroup and NoPerf leave out a source.
	NoCgroup, NoPerf bool
	// Exits are the exit records of the machine, or nil. Run does not close it.
	Exits sensor.ExitSource
	// Row is given each window of the profile as it ends, or nil.
	Row func(Row)
}

// Run starts the command, watches it and its descendants until it ends, and returns
// what they used. The error is a [*StartError] when the command could not be started;
// signals that reach us meanwhile are passed on to it.
func Run(o Options) (*Report, error) {
	if len(o.Args) == 0 {
		return nil, &StartError{2, errors.New("no command to run")}
	}
	for slot, std := range map[**os.File]*os.File{&o.Stdin: os.Stdin, &o.Stdout: os.Stdout, &o.Stderr: os.Stderr} {
		if *slot == nil {
			*slot = std
		}
	}
	path, err := lookUp(o.Args[0])
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a child subreaper: %w (Linux 3.4 or newer is needed)", err)
	}
	r := &runner{o: o, self: selfCPU()}
	defer r.close()
	signals, stop := catch()
	defer stop()
	if err := r.start(path); err != nil {
		return nil, err
	}
	r.watch(signals)
	return r.report(), nil
}

// runner is one run.
type runner struct {
	o       Options
	own     []hierarchy
	group   *group
	meter   *meter
	pid     int
	began   time.Time // wall clock
	status  unix.WaitStatus
	end     float64 // when the command, or with Wait the last descendant, ended
	notes   []string
	self    float64
	living  uint64 // CPU time of what outlived the command, ns
	settled <-chan struct{}
}

func (r *runner) start(path string) error {
	r.own, _ = ownCgroups("/proc")
	if !r.o.NoCgroup {
		// That there can be no group is the rule without privilege, not worth a word.
		r.group, _ = openGroup(r.own, groupPrefix+strconv.Itoa(os.Getpid()))
	}
	m := &meter{group: r.group, tree: newTree(os.Getpid(), "/proc")}
	m.tree.disown()
	if r.o.Exits != nil {
		m.exits = &exitFeed{source: r.o.Exits}
		r.drainOld()
	}
	var perfErr error
	f, err := start(&r.o, path, r.group, func() {
		if !r.o.NoPerf {
			m.perf, perfErr = openPerf("/sys")
		}
	})
	r.settled = f.settled
	if err != nil {
		if m.perf != nil {
			m.perf.Close()
		}
		return err
	}
	r.meter, r.pid = m, f.pid
	r.began, m.begin, m.main = f.begin, f.begin, f.pid
	m.tree.start = f.begin
	m.tree.byEvents = m.perf != nil
	m.tree.add(int32(f.pid), m.tree.self)
	// Until its exec the child had our memory, and the kernel remembers that as its peak.
	m.floor = highWater("/proc/self/status")
	if perfErr != nil && m.exits == nil {
		r.note("short processes can not be told apart by name: %v", perfErr)
	}
	return nil
}

// drainOld throws away the exit records of before.
func (r *runner) drainOld() {
	var p sensor.Pass
	if err := r.o.Exits.Drain(&p); err != nil {
		r.note("exit records: %v", err)
	}
}

func (r *runner) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// ended is a child that can be waited for.
type ended struct {
	pid int
	at  time.Time
}

// listen reports each child that has ended, one at a time: the next follows when the
// last was reaped and acknowledged.
func listen(out chan<- ended, ack <-chan struct{}) {
	defer close(out)
	for {
		pid, err := waitable(0)
		if err != nil {
			return
		}
		out <- ended{pid, time.Now()}
		if _, ok := <-ack; !ok {
			return
		}
	}
}

// waitable returns a child that has ended, without reaping it; 0 if there is none and
// flags has WNOHANG.
func waitable(flags int) (int, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|flags, nil)
		if err == unix.EINTR {
			continue
		}
		// si_pid follows three ints, aligned as a pointer (include/uapi/asm-generic/siginfo.h).
		offset := (12 + unsafe.Sizeof(uintptr(0)) - 1) &^ (unsafe.Sizeof(uintptr(0)) - 1)
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), offset))), err
	}
}

// watch samples until the end.
func (r *runner) watch(signals <-chan os.Signal) {
	m := r.meter
	children, ack := make(chan ended), make(chan struct{})
	defer close(ack)
	go listen(children, ack)
	var full <-chan struct{} // stays nil, and silent, without perf
	if m.perf != nil {
		stop := make(chan struct{})
		defer close(stop)
		full = m.perf.wakeups(stop)
	}
	second := 1.0
	m.look()
	timer := time.NewTimer(0)
	defer timer.Stop()
	over := false
	for {
		left := time.Duration((second - m.now()) * float64(time.Second))
		timer.Reset(max(min(m.pause(m.now()), left), 0))
		select {
		case s := <-signals:
			if over { // the command is gone, and we are asked to go too
				return
			}
			if sig, ok := s.(unix.Signal); ok && !sentByTerminal(s) {
				_ = unix.Kill(r.pid, sig)
			}
		case c, ok := <-children:
			if !ok {
				r.end = max(r.end, m.now())
				return
			}
			status, err := m.reap(c.pid)
			if err == nil {
				r.end = c.at.Sub(m.begin).Seconds()
			}
			if c.pid == r.pid {
				r.status, over = status, true
				if !r.o.Wait {
					r.reapRest()
					return
				}
			}
			if over && len(m.tree.foreign) > 0 { // those we do not wait for
				if m.look(); m.tree.empty() {
					return
				}
			}
			ack <- struct{}{}
		case <-full:
			at := m.now()
			m.follow(at)
			if m.exits != nil {
				m.exits.drain(m.tree, at)
			}
			m.tree.sweep(m.ready(at))
		case <-timer.C:
			at := m.now()
			if at >= second || m.studyDue(at) {
				m.study()
			}
			m.look()
			if at >= second {
				r.row(at)
				for second <= at {
					second++
				}
			}
		}
	}
}

func (r *runner) row(at float64) {
	row := r.meter.row(at)
	if r.o.Row != nil {
		r.o.Row(row)
	}
}

// reapRest takes in what ended with the command.
func (r *runner) reapRest() {
	for {
		pid, err := waitable(unix.WNOHANG)
		if err != nil || pid == 0 {
			return
		}
		if _, err := r.meter.reap(pid); err != nil {
			return
		}
	}
}

func (r *runner) close() {
	if r.meter != nil && r.meter.perf != nil {
		r.meter.perf.Close()
	}
	if r.settled != nil {
		<-r.settled
	}
	// Only processes that go on running keep the group in place; the report names them.
	_ = r.group.close()
}

// report closes the books.
func (r *runner) report() *Report {
	m, t := r.meter, r.meter.tree
	m.finish(r.end)
	m.study()
	for range 50 { // what has ended is a zombie within moments
		if !t.leaving() {
			break
		}
		time.Sleep(time.Millisecond)
		r.reapRest()
		m.tree.look(m.now())
		m.study()
	}
	survivors := r.survivors()
	t.sweep(func(*proc) bool { return true })
	for _, p := range t.order {
		if p.pid != 0 { // still running: what they used until now
			r.living += p.cpu() + p.stat.cuser + p.stat.csys
			t.fold(p)
		}
	}
	rep := &Report{Command: r.o.Args, Start: r.began, WallSeconds: r.end, Survivors: survivors,
		Sources: map[string]string{}, Machine: machine("/proc", r.own)}
	rep.ExitCode = r.status.ExitStatus()
	if r.status.Signaled() {
		rep.ExitCode, rep.Signal = 128+int(r.status.Signal()), unix.SignalName(r.status.Signal())
	}
	r.fillCPU(rep)
	if r.end > m.profile.start {
		r.row(r.end)
	}
	if r.end > 0 {
		rep.Cores = summarise(m.profile.cores, rep.CPU.Total/r.end)
	}
	r.fillMemory(rep)
	r.fillRest(rep)
	rep.Commands = breakdown(t.commands, m.last.cpu, rep.Processes)
	rep.Rows = m.profile.rows
	rep.Source = sourceWord(rep.Sources)
	rep.OverheadCPUSeconds = selfCPU() - r.self
	rep.Notes = r.notes
	rep.Judgement = Judge(rep)
	return rep
}

// eventSource names what tells of processes that ended.
func (r *runner) eventSource() string {
	switch {
	case r.meter.perf != nil:
		return "perf"
	case r.meter.exits != nil:
		return r.meter.exits.source.Name()
	}
	return "/proc samples"
}

func (r *runner) survivors() []Survivor {
	var out []Survivor
	for _, p := range r.meter.tree.order {
		if p.pid == 0 || p.dead || p.stat.state == 'Z' || p.stat.state == 'X' {
			continue
		}
		out = append(out, Survivor{PID: int(p.pid), Name: p.comm.String(), CPUSeconds: seconds(p.cpu() + p.stat.cuser + p.stat.csys), MemoryBytes: p.rss})
	}
	return out
}

// fillCPU settles the CPU time. A private group counts everything; rusage all but the
// children of parents that ignore SIGCHLD, which the events still tell of.
func (r *runner) fillCPU(rep *Report) {
	m := r.meter
	source := "wait4"
	total := m.reaped.user + m.reaped.system
	total += r.living
	waited := total
	user, system := m.last.user, m.last.system
	if g, u, s, ok := m.group.cpu(); ok && g >= total {
		total, source = g, "cgroup"
		if user+system == 0 {
			user, system = u, s
		}
	} else if m.tree.unwaited > 0 {
		total, source = total+m.tree.unwaited, "wait4, and what nobody waited for by "+r.eventSource()
		if m.perf == nil && m.exits == nil {
			r.note("a program ignored SIGCHLD: the kernel forgot its children, they count as last seen (%.2f s of CPU)", seconds(m.tree.unwaited))
		}
	}
	if m.perf != nil && waited > m.tree.foldedCPU+waited/10+50e6 {
		m.perf.lost++ // a program that changed its user took its subtree out of our sight
	}
	m.last.cpu = total
	rep.CPU.Total = seconds(total)
	if user+system > 0 {
		rep.CPU.User = rep.CPU.Total * float64(user) / float64(user+system)
	} else {
		rep.CPU.User = rep.CPU.Total
	}
	rep.CPU.System = max(0, rep.CPU.Total-rep.CPU.User)
	rep.Sources["cpu"] = source
}

// fillMemory settles peak and mean. Each figure at hand is a lower bound of the peak:
// the highest sample, the largest process, and the peak of the group less the page
// cache and kernel memory it held beside; the group's peak bounds it from above.
func (r *runner) fillMemory(rep *Report) {
	m := r.meter
	largest := max(m.largest, m.tree.largestEnded)
	source := "/proc samples"
	if m.reaped.maxRSS > m.floor {
		largest = max(largest, m.reaped.maxRSS)
		source = "/proc samples and ru_maxrss"
	}
	if largest > 0 {
		rep.MemoryLargestBytes = &largest
	}
	peak := m.sampled
	if charged, ok := m.group.memoryPeak(); ok {
		rep.MemoryCgroupPeakBytes = &charged
		if m.sampled == 0 { // gone before the first look
			peak = charged
		} else if charged > m.beyond {
			peak = max(peak, charged-m.beyond)
		}
		peak = min(peak, charged)
		source = "cgroup peak less page cache and kernel memory"
	}
	if peak = max(peak, largest); peak == 0 {
		return
	}
	rep.MemoryPeakBytes = &peak
	rep.Sources["memory"] = source
	if m.areaTime > 0 {
		mean := min(uint64(m.area/m.areaTime), peak)
		rep.MemoryMeanBytes = &mean
	} else if m.sampled > 0 {
		mean := min(m.sampled, peak)
		rep.MemoryMeanBytes = &mean
	}
}

func (r *runner) fillRest(rep *Report) {
	m, t := r.meter, r.meter.tree
	rep.IO = IO{m.last.read, m.last.write}
	if !m.reaped.callsMissing {
		calls := m.last.calls
		rep.IOCalls = &calls
	}
	rep.Sources["io"] = "wait4"
	rep.Switches = Switches{m.reaped.voluntary, m.reaped.involuntary}
	rep.Faults = Faults{m.reaped.minor, m.reaped.major}
	rep.ProcessesPeak, rep.ThreadsPeak = max(m.peakProcs, 1), max(m.peakThreads, 1)
	rep.Processes = t.started
	switch {
	case m.perf != nil && m.perf.lost == 0:
		rep.ProcessesExact = true
		rep.Sources["processes"] = "perf"
	case m.exits != nil && m.exits.whole && m.exits.lost == 0 && m.exits.err == nil:
		rep.ProcessesExact = true
		rep.Sources["processes"] = m.exits.source.Name()
	default:
		rep.Sources["processes"] = "/proc samples"
	}
	rep.Sources["commands"] = rep.Sources["processes"]
	if m.exits != nil && m.exits.taken > 0 {
		rep.Sources["commands"] = m.exits.source.Name()
	}
	if m.exits != nil && m.exits.err != nil {
		r.note("exit records: %v", m.exits.err)
	}
	r.fillWait(rep)
	if len(rep.Survivors) > 0 {
		r.note("%s", survivorNote(rep.Survivors))
	}
}

// fillWait settles the waiting, if enough of the tree was seen.
func (r *runner) fillWait(rep *Report) {
	o, cpu := r.meter.tree.observed, float64(r.meter.last.cpu)
	seen := 1.0
	if cpu > 0 {
		seen = float64(o.run) / cpu
	}
	if o.run == 0 || seen < 0.5 {
		r.note("CPU wait is unknown: its threads lived too short to be asked (%.0f %% of the CPU time was seen)", 100*seen)
		return
	}
	wait := seconds(o.wait)
	rep.Sources["wait"] = "schedstat of threads"
	if r.meter.exits != nil && r.meter.exits.taken > 0 {
		rep.Sources["wait"] = r.meter.exits.source.Name() + " and schedstat of threads"
	}
	if seen < 0.98 {
		wait /= seen
		rep.Sources["wait"] += fmt.Sprintf(" with %.0f %% of the CPU time, scaled", 100*seen)
	}
	rep.CPUWaitSeconds = &wait
}

func survivorNote(s []Survivor) string {
	var names []string
	for i, p := range s {
		if i == 5 {
			names = append(names, fmt.Sprintf("and %d more", len(s)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s (pid %d, %.2f s of CPU so far)", p.Name, p.PID, p.CPUSeconds))
	}
	verb := "processes still run and were"
	if len(s) == 1 {
		verb = "process still runs and was"
	}
	return fmt.Sprintf("%d %s left alone: %s; what they used until the command ended is counted (--wait waits for them)", len(s), verb, strings.Join(names, ", "))
}

// sourceWord joins the first words of the sources, each once.
func sourceWord(m map[string]string) string {
	var out []string
	for _, key := range []string{"cpu", "memory", "commands", "processes", "io", "wait"} {
		word, _, _ := strings.Cut(m[key], " ")
		if word == "/proc" || word == "schedstat" {
			word = "procfs"
		}
		if word != "" && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return strings.Join(out, "+")
}

// selfCPU is the CPU time of this process, seconds.
func selfCPU() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
