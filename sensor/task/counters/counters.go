// Package counters reads the performance counters of the processors and charges them to the running
// process: cycles, instructions, branch and cache misses, and floating-point instructions by width
// if the processor counts them separately.
//
// One event of perf_event_open(2) per counter and processor counts all the time. A BPF program
// reads the events when the scheduler switches threads. A process that stays on a processor is
// charged at the second reading at the latest. Interrupts count for the interrupted process. If
// more events are open than a processor has counters, the kernel multiplexes them; such counts are
// reported separately, with the times to scale them by.
//
// It needs BTF, CAP_BPF with CAP_PERFMON, Linux 5.11, and a processor with counters that the kernel
// may use: most virtual machines have none. It does not suit every machine, because each thread
// switch costs some counter reads, and other users of counters (perf, profilers) have fewer left.
// Sources: perf_event_open(2), bpf_perf_event_read_value of bpf-helpers(7). A [Source] is used from
// one goroutine.
package counters

import (
	"errors"
	"fmt"
	"os"
	"structs"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

//go:generate bash ../bpf/build counters record

// maxEvents is the number of events per processor for which the programs have room.
const maxEvents = len(eventMaps)

// eventMaps are the maps that hold the events.
var eventMaps = [...]string{countersMapEvents0, countersMapEvents1, countersMapEvents2, countersMapEvents3,
	countersMapEvents4, countersMapEvents5, countersMapEvents6, countersMapEvents7}

// Options configures the counting.
type Options struct {
	// Root is the directory with /proc and /sys of this machine, "" for "/".
	Root string
	// Types are the kernel's types, shared with other loaders; nil parses them here.
	Types *bpf.Types

	accounts uint32     // how many processes there is room for; for tests
	plan     *eventPlan // plan replaces the processor's own events in tests.
}

// Source counts while it is open.
type Source struct {
	root     string
	plan     eventPlan
	accounts *bpf.Accounts
	clock    bpf.Clock
	take     func([]byte) (uint32, bool)
	pass     *sensor.TallyPass // that is being read
	unowned  processCounts     // so far
	have     uint64

	online  *os.File // the processors that are online
	text    []byte   // content of online, and of the previous reading
	was     []byte
	stints  *ebpf.Memory // of the programs, by processor
	size    int64        // of a stint
	since   []uint64     // when each processor was read last
	flush   *ebpf.Program
	scratch [16]byte
}

// Open opens the processor events and loads the programs. If the machine has no counters, or the kernel or the
// permissions do not allow their use, the error matches [sensor.ErrUnavailable] and gives the reason.
func Open(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	s := &Source{root: o.Root, clock: bpf.OwnClock()}
	if o.plan != nil {
		s.plan = *o.plan
	} else {
		s.plan = planForMachine(o.Root)
	}
	cpus, err := s.readOnline()
	if err == nil {
		err = s.probeEvents(cpus[0])
	}
	if err == nil {
		err = s.load(&o, cpus)
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// load loads the programs and sets the events of some processors.
func (s *Source) load(o *Options, cpus []int) (err error) {
	processors := bpf.PossibleCPUs(o.Root)
	s.accounts, err = bpf.OpenAccounts(bpf.AccountsSpec{
		Root: o.Root, Types: o.Types, Record: int(unsafe.Sizeof(countersRecord{})), Buffer: 50, Room: o.accounts,
		Load:   func() (*ebpf.CollectionSpec, error) { return s.spec(processors) },
		Attach: []string{countersProgEnded, countersProgSwitched}, Also: []string{countersProgFlush},
		Otherwise: "the kernel does not let counters be read where threads are switched",
		Fix:       "use Linux 5.11 or later with CONFIG_SCHED_INFO",
	})
	if err != nil {
		return err
	}
	s.take, s.flush = s.readRecord, s.accounts.Program(countersProgFlush)
	stints := s.accounts.MapNamed(countersMapStints)
	s.size, s.since = int64(stints.ValueSize()), make([]uint64, processors)
	if s.stints, err = stints.Memory(); err == nil {
		err = s.openEvents(cpus)
	}
	if err != nil {
		return fmt.Errorf("open performance counters: %w", err)
	}
	return nil
}

// spec returns the programs for the events of the plan.
func (s *Source) spec(processors uint32) (*ebpf.CollectionSpec, error) {
	spec, err := loadCounters()
	if err != nil {
		return nil, err
	}
	spec.Maps[countersMapStints].MaxEntries = processors
	return spec, spec.Variables[countersVarOpened].Set(uint32(len(s.plan.events)))
}

// probeEvents drops events that the machine does not have. Without the first there is nothing to count.
func (s *Source) probeEvents(cpu int) error {
	kept := s.plan.events[:0:0]
	for i, e := range s.plan.events {
		fd, err := e.open(s.root, cpu)
		if err == nil {
			_ = unix.Close(fd)
			kept = append(kept, e)
			s.have |= 1 << e.counter
			if e.counter == CacheMisses && s.plan.line > 0 {
				s.have |= 1 << Memory
			}
			continue
		}
		if i == 0 {
			reason, fix := sysfs.PerfRefusal(err, s.root, "performance counters of processors")
			return sensor.Unavailable(reason, fix, fmt.Errorf("perf_event_open: %w", err))
		}
	}
	s.plan.events = kept
	if s.have&(1<<CacheMisses) == 0 {
		s.plan.line = 0
	}
	return nil
}

// openEvents opens the events of some processors and stores them in the map of the programs.
func (s *Source) openEvents(cpus []int) error {
	for _, cpu := range cpus {
		if cpu >= len(s.since) {
			continue
		}
		for i, e := range s.plan.events {
			fd, err := e.open(s.root, cpu)
			switch {
			case err == nil:
				err = s.accounts.MapNamed(eventMaps[i]).Put(uint32(cpu), uint32(fd))
				_ = unix.Close(fd)
				if err != nil {
					return err
				}
			case i == 0 && err != unix.ENODEV: // else it went offline meanwhile
				return err
			}
		}
	}
	return nil
}

// Spec describes the counts.
func (s *Source) Spec() *sensor.TallySpec { return Spec }

// Missed returns the number of events that interrupted a program and were therefore not counted.
func (s *Source) Missed() uint64 { return s.accounts.Missed() }

// Close unloads the programs and closes the events. Calling it again does nothing.
func (s *Source) Close() error {
	var errs []error
	if s.accounts != nil {
		errs = append(errs, s.accounts.Close())
	}
	if s.online != nil {
		errs = append(errs, s.online.Close())
	}
	s.accounts, s.online, s.stints = nil, nil, nil
	return errors.Join(errs...)
}

// Read appends the counts since the last call.
func (s *Source) Read(p *sensor.TallyPass) error {
	if s.accounts == nil {
		return errors.New("read performance counters: the source is closed")
	}
	p.Have = s.have
	gaps, err := s.followOnline()
	p.Gaps = gaps
	s.flushLong()
	s.pass = p
	if err := errors.Join(err, s.accounts.Read(s.take)); err != nil {
		return fmt.Errorf("read performance counters: %w", err)
	}
	return nil
}

// processCounts holds the counts of a process, for each event. If the event shared a hardware counter with others, Part
// is its raw count, to be scaled by the times Enabled and Running.
type processCounts = [maxEvents]struct {
	_       structs.HostLayout
	Whole   uint64
	Part    uint64
	Enabled uint64
	Running uint64
}

func (s *Source) readRecord(b []byte) (key uint32, ended bool) {
	r := (*countersRecord)(unsafe.Pointer(&b[0]))
	u := processCounts(r.Counts)
	if r.Pid == 0 {
		for i := range u {
			c, was := &u[i], s.unowned[i]
			s.unowned[i] = *c
			c.Whole, c.Part, c.Enabled, c.Running = c.Whole-was.Whole, c.Part-was.Part, c.Enabled-was.Enabled, c.Running-was.Running
		}
		s.pass.Unowned = s.pass.Unowned || u != processCounts{}
		s.addProcess(0, 0, &u)
		return 0, false
	}
	s.addProcess(max(r.Pid, 0), s.clock.Here(r.Start), &u)
	return r.Tgid, r.Ended != 0
}

// addProcess appends the counts of a process.
func (s *Source) addProcess(pid int32, start uint64, u *processCounts) {
	for i, e := range s.plan.events {
		c := &u[i]
		s.addCount(pid, start, sensor.TallyRow{Series: uint8(e.counter), Amount: c.Whole})
		s.addCount(pid, start, sensor.TallyRow{Series: uint8(e.counter), Amount: c.Part, Enabled: c.Enabled, Running: c.Running})
		if e.counter == CacheMisses && s.plan.line > 0 {
			s.addCount(pid, start, sensor.TallyRow{Series: uint8(Memory), Amount: c.Whole * s.plan.line})
			s.addCount(pid, start, sensor.TallyRow{Series: uint8(Memory), Amount: c.Part * s.plan.line, Enabled: c.Enabled,
				Running: c.Running})
		}
	}
}

func (s *Source) addCount(pid int32, start uint64, row sensor.TallyRow) {
	if row.Amount != 0 || row.Enabled != 0 {
		row.PID, row.Start = pid, start
		s.pass.Rows = append(s.pass.Rows, row)
	}
}

var _ sensor.Tally = (*Source)(nil)
