// Package runqueue measures how long threads wait for a processor, as a distribution for each process, by a
// program of BPF where the scheduler switches threads.
//
// A delay lasts from when a thread becomes ready (woken, created, or interrupted by another) until it gets a processor. These are
// the delays that /proc/PID/schedstat adds up; a control group that is held back by its quota is among them. Response
// time of interactive work is the upper end of their distribution. A delay is counted when the thread leaves the processor
// again; one that is moved to the queue of another processor meanwhile counts from there.
//
// It needs BTF, CAP_BPF with CAP_PERFMON, and Linux 5.9 with CONFIG_SCHED_INFO. Sources: sched_info_arrive of
// kernel/sched/stats.h, Documentation/scheduler/sched-stats.rst. A [Source] is used from one goroutine.
package runqueue

import (
	"errors"
	"fmt"
	"unsafe"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

//go:generate bash ../bpf/build runqueue record

// Options says how to measure.
type Options struct {
	// Root is where /proc and /sys of this machine are mounted, "" for "/".
	Root string
	// Types are those of the kernel, shared with others who load programs; nil to parse them here.
	Types *bpf.Types

	accounts uint32 // how many processes there is room for; for tests
}

// Source measures delays while it is open.
type Source struct {
	accounts *bpf.Accounts
	clock    bpf.Clock
	take     func([]byte) (uint32, bool)
	pass     *sensor.QueuePass // that is being read
	unowned  sensor.Queue      // so far
	missed   uint64            // so far
}

// Open loads the programs. It fails with [sensor.ErrUnavailable] where the kernel or the
// permissions do not allow it, and says which.
func Open(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	a, err := bpf.OpenAccounts(bpf.AccountsSpec{
		Root: o.Root, Types: o.Types, Load: loadRunqueue, Record: int(unsafe.Sizeof(runqueueRecord{})), Buffer: 100, Room: o.accounts,
		Attach: []string{runqueueProgEnded, runqueueProgSwitched}, Otherwise: "the kernel does not let switches of threads be traced", Fix: "use Linux 5.9 or later with CONFIG_SCHED_INFO",
	})
	if err != nil {
		return nil, err
	}
	s := &Source{accounts: a, clock: bpf.OwnClock()}
	s.take = s.record
	return s, nil
}

// Name returns "runqueue".
func (s *Source) Name() string { return "runqueue" }

// Missed is how many events interrupted a program and were therefore not counted.
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

// ReadQueue appends what was counted since the last call.
func (s *Source) ReadQueue(p *sensor.QueuePass) error {
	if s.accounts == nil {
		return errors.New("read run queue delays: the source is closed")
	}
	s.pass = p
	if err := s.accounts.Read(s.take); err != nil {
		return fmt.Errorf("read run queue delays: %w", err)
	}
	return nil
}

func (s *Source) record(b []byte) (key uint32, ended bool) {
	r := (*runqueueRecord)(unsafe.Pointer(&b[0]))
	q := sensor.Queue{Nanos: r.Delays.Nanos, Octaves: r.Delays.Octaves}
	if r.Pid == 0 {
		more := q
		more.Nanos -= s.unowned.Nanos
		for i := range more.Octaves {
			more.Octaves[i] -= s.unowned.Octaves[i]
		}
		s.pass.Unowned.Add(&more)
		s.unowned = q
		if now := r.Start; now > s.missed {
			s.pass.Missed += now - s.missed
			s.missed = now
		}
		return 0, false
	}
	if q != (sensor.Queue{}) {
		s.pass.Queued = append(s.pass.Queued, sensor.Queued{PID: max(r.Pid, 0), Start: s.clock.Here(r.Start), Delay: q})
	}
	return r.Tgid, r.Ended != 0
}

var _ sensor.QueueSource = (*Source)(nil)
