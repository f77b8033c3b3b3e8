package run

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// Options configures the command and how to measure it.
type Options struct {
	Args                  []string // the program and its arguments
	Stdin, Stdout, Stderr *os.File // of the command; nil is ours
	// Wait waits until every descendant has ended, including daemons.
	Wait bool
	// NoCgroup and NoPerf leave out a source.
	NoCgroup, NoPerf bool
	// Exits are the exit records of the machine, or nil. Run does not close it.
	Exits sensor.ExitSource
	// GPUs opens the sensors of GPUs, beside the command; nil for none. Run closes them.
	GPUs func() []sensor.Sensor
	// Row is given each window of the profile as it ends, or nil.
	Row func(Row)
}

// Run starts the command, watches it and its descendants until it ends, and returns their use. It
// returns a [*StartError] if the command could not be started. Signals received meanwhile are
// forwarded to the command.
func Run(o Options) (*Report, error) {
	if len(o.Args) == 0 {
		return nil, &StartError{2, errors.New("no command to run")}
	}
	for slot, std := range map[**os.File]*os.File{&o.Stdin: os.Stdin, &o.Stdout: os.Stdout, &o.Stderr: os.Stderr} {
		if *slot == nil {
			*slot = std
		}
	}
	path, err := findProgram(o.Args[0])
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a child subreaper: %w (Linux 3.4 or newer is needed)", err)
	}
	r := &runner{o: o, self: selfCPU()}
	defer r.close()
	signals, stop := catchSignals()
	defer stop()
	if err := r.start(path); err != nil {
		return nil, err
	}
	r.watchUntilEnd(signals)
	return r.buildReport(), nil
}

// runner is the state of one run.
type runner struct {
	o       Options
	own     []hierarchy
	group   *privateGroup
	meter   *meter
	pid     int
	began   time.Time // wall clock
	status  unix.WaitStatus
	end     float64 // when the command, or with Wait the last descendant, ended
	notes   []string
	self    float64
	living  uint64 // CPU time of processes that outlived the command, ns
	hidden  bool   // more was waited for than processes were reported
	settled <-chan struct{}
}

func (r *runner) start(path string) error {
	r.own, _ = ownCgroups()
	if !r.o.NoCgroup {
		// That there can be no group is the rule without privilege, not worth a word.
		r.group, _ = openGroup(r.own, groupPrefix+strconv.Itoa(os.Getpid()))
	}
	m := &meter{group: r.group, tree: newTree(os.Getpid(), "/proc")}
	m.tree.machine.meminfo = "/proc/meminfo"
	m.tree.machine.before = readKilobytes(m.tree.machine.meminfo, "Shmem:")
	m.gpus = openGPUs(r.o.GPUs)
	m.tree.ignoreExisting()
	if r.o.Exits != nil {
		m.exits = &exitFeed{source: r.o.Exits}
		if err := r.o.Exits.Drain(new(sensor.Pass)); err != nil { // of before
			r.addNote("exit records: %v", err)
		}
	}
	var perfErr error
	f, err := forkCommand(&r.o, path, r.group, func() {
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
	m.tree.addProcess(int32(f.pid), m.tree.self)
	// Until its exec the child had our memory, and the kernel remembers that as its peak.
	m.floor = m.tree.files.PeakResident(int32(os.Getpid()))
	if perfErr != nil && m.exits == nil {
		r.addNote("short processes cannot be distinguished by name: %v", perfErr)
	}
	return nil
}

func (r *runner) addNote(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// endedChild is a child that has ended and can be reaped.
type endedChild struct {
	pid int
	at  time.Time
}

// forwardExits sends each ended child to out. It waits until a child is reaped and acknowledged before it sends the next.
func forwardExits(out chan<- endedChild, ack <-chan struct{}) {
	defer close(out)
	for {
		pid, err := nextEnded(0)
		if err != nil {
			return
		}
		out <- endedChild{pid, time.Now()}
		if _, ok := <-ack; !ok {
			return
		}
	}
}

// nextEnded returns an ended child without reaping it, or 0 if there is none and flags has WNOHANG.
func nextEnded(flags int) (int, error) {
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

// watchUntilEnd takes readings until the command and its descendants have ended.
func (r *runner) watchUntilEnd(signals <-chan os.Signal) {
	m := r.meter
	children, ack := make(chan endedChild), make(chan struct{})
	defer close(ack)
	go forwardExits(children, ack)
	var full <-chan struct{} // stays nil, and silent, without perf
	if m.perf != nil {
		stop := make(chan struct{})
		defer close(stop)
		full = m.perf.wakeups(stop)
	}
	second := 1.0
	m.sampleMemory()
	timer := time.NewTimer(0)
	defer timer.Stop()
	over := false
	for {
		left := time.Duration((second - m.secondsSinceStart()) * float64(time.Second))
		timer.Reset(max(min(m.nextPause(m.secondsSinceStart()), left), 0))
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
				r.end = max(r.end, m.secondsSinceStart())
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
				if m.sampleMemory(); m.tree.isEmpty() {
					return
				}
			}
			ack <- struct{}{}
		case <-full:
			at := m.secondsSinceStart()
			m.readEvents(at)
			if m.exits != nil {
				m.exits.readRecords(m.tree, at)
			}
			m.tree.foldReady(m.canFold(at))
		case <-timer.C:
			at := m.secondsSinceStart()
			if at >= second || at-m.studied >= min(max(100*m.costStudy.Seconds(), at/10, 0.1), 1) {
				m.sampleExpensive()
			}
			m.sampleMemory()
			if at >= second {
				r.emitRow(at)
				for second <= at {
					second++
				}
			}
		}
	}
}

func (r *runner) emitRow(at float64) {
	row := r.meter.closeWindow(at)
	if r.o.Row != nil {
		r.o.Row(row)
	}
}

// reapRest records processes that ended with the command.
func (r *runner) reapRest() {
	for {
		pid, err := nextEnded(unix.WNOHANG)
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

// selfCPU returns the CPU time of this process in seconds.
func selfCPU() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
