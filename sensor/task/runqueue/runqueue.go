// Package runqueue measures the distribution of the time that the threads of each process wait for a processor. A BPF program runs when
// the scheduler switches threads.
//
// A delay begins when a thread becomes ready (woken, created, or preempted by another) and ends when it gets a processor. These are the
// delays that /proc/PID/schedstat adds up; they include throttling of a control group by its quota. The upper end of their distribution
// determines the response time of interactive work. A delay is counted when the thread leaves the processor again. If the thread moves to
// the queue of another processor meanwhile, the delay counts from there.
//
// It needs BTF, CAP_BPF with CAP_PERFMON, and Linux 5.9 with CONFIG_SCHED_INFO. Sources: sched_info_arrive of kernel/sched/stats.h,
// Documentation/scheduler/sched-stats.rst. A [Source] is used from one goroutine.
package runqueue

import (
	"errors"
	"fmt"
	"unsafe"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

//go:generate bash ../bpf/build runqueue record

// Spec describes the measurements.
var Spec = &sensor.TallySpec{Name: "runqueue", Sets: []sensor.TallySet{{Series: []sensor.TallySeries{{
	Desc: &metric.Desc{
		Name: "reckon_workload_run_queue_seconds", Kind: metric.NativeHistogram, Unit: metric.Seconds,
		Help: "How long threads of the workload waited for a processor, one observation for each wait. The upper end of the " +
			"distribution is the delay of interactive work.",
		Labels: sensor.Charged(),
	},
	Figure: &sensor.TallyFigure{Name: "run_queue_seconds", Source: "scheduler", Lacks: []sensor.Lack{sensor.LackUnderWay}},
}}}}}

// Options configures the measurement.
type Options struct {
	// Root is the directory with /proc and /sys of this machine, "" for "/".
	Root string
	// Types are the kernel's types, shared with other loaders; nil parses them here.
	Types *bpf.Types

	accounts uint32 // how many processes there is room for; for tests
}

// Source measures delays while it is open.
type Source struct {
	accounts *bpf.Accounts
	clock    bpf.Clock
	take     func([]byte) (uint32, bool)
	pass     *sensor.TallyPass // that is being read
	unowned  processDelays     // so far
	missed   uint64            // so far
}

// Open loads the programs. If the kernel or the permissions do not allow it, the error matches [sensor.ErrUnavailable]
// and gives the reason.
func Open(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	a, err := bpf.OpenAccounts(bpf.AccountsSpec{
		Root: o.Root, Types: o.Types, Load: loadRunqueue, Record: int(unsafe.Sizeof(runqueueRecord{})), Buffer: 100, Room: o.accounts,
		Attach: []string{runqueueProgEnded, runqueueProgSwitched}, Otherwise: "the kernel does not let switches of threads be traced",
		Fix: "use Linux 5.9 or later with CONFIG_SCHED_INFO",
	})
	if err != nil {
		return nil, err
	}
	s := &Source{accounts: a, clock: bpf.OwnClock()}
	s.take = s.readRecord
	return s, nil
}

// Spec describes the measurements.
func (s *Source) Spec() *sensor.TallySpec { return Spec }

// Missed returns the number of events that interrupted a program and were therefore not counted.
func (s *Source) Missed() uint64 { return s.accounts.Missed() }

// Close unloads the programs. Calling it again does nothing.
func (s *Source) Close() error {
	if s.accounts == nil {
		return nil
	}
	err := s.accounts.Close()
	s.accounts = nil
	return err
}

// Read appends the measurements since the last call.
func (s *Source) Read(p *sensor.TallyPass) error {
	if s.accounts == nil {
		return errors.New("read run queue delays: the source is closed")
	}
	s.pass = p
	if err := s.accounts.Read(s.take); err != nil {
		return fmt.Errorf("read run queue delays: %w", err)
	}
	return nil
}

func (s *Source) readRecord(b []byte) (key uint32, ended bool) {
	r := (*runqueueRecord)(unsafe.Pointer(&b[0]))
	d := processDelays{r.Delays.Nanos, r.Delays.Octaves}
	if r.Pid == 0 {
		more := d
		more.nanos -= s.unowned.nanos
		for i := range more.octaves {
			more.octaves[i] -= s.unowned.octaves[i]
		}
		s.addDelays(0, 0, &more)
		s.pass.Unowned = s.pass.Unowned || more.nanos > 0
		s.unowned = d
		if missed := r.Start; missed > s.missed { // switches that were not reported: a delay is lost with each
			s.pass.Lost += missed - s.missed
			s.missed = missed
		}
		return 0, false
	}
	s.addDelays(max(r.Pid, 0), s.clock.Here(r.Start), &d)
	return r.Tgid, r.Ended != 0
}

// processDelays sums the delays of a process, with their distribution.
type processDelays struct {
	nanos   uint64
	octaves [sensor.TallyOctaves]uint64
}

func (s *Source) addDelays(pid int32, start uint64, d *processDelays) {
	s.pass.Add(pid, start, 0, d.nanos)
	for i, n := range d.octaves {
		if n != 0 {
			s.pass.Rows = append(s.pass.Rows, sensor.TallyRow{PID: pid, Start: start, Bound: uint8(i + 1), Amount: n})
		}
	}
}

var _ sensor.Tally = (*Source)(nil)
