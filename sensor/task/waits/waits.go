// Package waits measures the time that the threads of each process sleep while waiting for storage, by BPF programs at
// the scheduler's trace points.
//
// It needs BTF and CAP_BPF with CAP_PERFMON (Linux 5.12). It does not need delay accounting (kernel.task_delayacct),
// which is off on most machines, and never switches it on.
//
// A thread waits for I/O if the kernel marks it so (in_iowait): when it reads data that is not in the page cache, and
// for direct I/O, write-back and swapping in, on disks and NFS. The time ends when the thread is woken, so it does not
// include the following wait for a processor. Asynchronous I/O counts while a thread waits for it in the kernel. By the
// kernel's rule, a wait in io_uring_enter(2) is a wait for I/O even if the ring holds only sockets. A wait is counted
// when it is over.
//
// The disk of a wait is the one with a completed request that woke the thread, on the same processor and in the same
// context, at most 50 µs before. If another event woke it, such as a worker that finishes writes for the file system,
// it is the disk that the thread itself had sent I/O to, or written too much to, since its previous sleep. In a stack
// of devices, it is the lowest one that serves requests. Other waits have no disk: network and FUSE file systems, pages
// that other threads write back, and io_uring.
//
// Sources: io_schedule and try_to_wake_up of kernel/sched/core.c; include/trace/events/sched.h;
// Documentation/accounting/delay-accounting.rst for the figure that this stands for. A [Source] is used from one
// goroutine.
package waits

import (
	"errors"
	"fmt"
	"unsafe"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

// diskSet is the index of the sets of disks.
const diskSet = 1

// Spec describes the measurements.
var Spec = &sensor.TallySpec{Name: "waits", Sets: []sensor.TallySet{
	{Series: []sensor.TallySeries{{
		Desc: &metric.Desc{
			Name: "reckon_workload_io_wait_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
			Help: "Time that threads of the workload slept for storage (disks, network file systems, swap), summed over threads. It " +
				"counts what the kernel marks as waiting for I/O.",
			Labels: sensor.Charged(),
		},
		Always: true, Weight: sensor.WeightActive,
		Total: metric.NewDesc("reckon_node_io_wait_seconds_total", metric.Counter, metric.Seconds, nil,
			"Time that threads of the node slept for storage since the agent began: workloads, short work and other together."),
		Figure: &sensor.TallyFigure{Name: "io_wait_seconds", Source: "scheduler", Lacks: []sensor.Lack{sensor.LackUnderWay}},
	}}},
	diskSet: {Labels: 1, Most: 8, Series: []sensor.TallySeries{{
		Desc: &metric.Desc{
			Name: "reckon_workload_disk_wait_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
			Help: "Time that threads of the workload slept for a disk, summed over threads. This is the part of " +
				"reckon_workload_io_wait_seconds_total with a known disk.",
			Labels: sensor.Charged("device"),
		},
		Always: true,
	}}},
}}

// Options configures the measurement.
type Options struct {
	// Root is the directory with /proc and /sys of this machine, "" for "/".
	Root string
	// Types are the kernel's types, shared with other loaders; nil parses them here.
	Types *bpf.Types

	accounts uint32 // how many processes there is room for; for tests
}

// Source measures waits while it is open.
type Source struct {
	accounts *bpf.Accounts
	clock    bpf.Clock
	take     func([]byte) (uint32, bool)
	names    diskNames
	missing  error             // why disks are not known, nil if they are
	pass     *sensor.TallyPass // that is being read
	unowned  [2]uint64         // so far: nanoseconds, and waits
}

//go:generate bash ../bpf/build waits record

// Open loads the programs. If the kernel or the permissions do not allow it, the error matches [sensor.ErrUnavailable]
// and gives the reason.
func Open(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	spec := bpf.AccountsSpec{
		Root: o.Root, Types: o.Types, Load: loadWaits, Record: int(unsafe.Sizeof(waitsRecord{})), Buffer: 100, Room: o.accounts,
		Attach:    []string{waitsProgEnded, waitsProgCompleted, waitsProgQueued, waitsProgThrottled, waitsProgWoken, waitsProgAsleep},
		Otherwise: "the kernel does not let waits be traced", Fix: "use Linux 5.12 or later",
	}
	a, missing := bpf.OpenAccounts(spec)
	if missing != nil {
		var err error
		spec.Attach = []string{waitsProgEnded, waitsProgWoken, waitsProgAsleep}
		if a, err = bpf.OpenAccounts(spec); err != nil {
			return nil, err
		}
	}
	s := &Source{accounts: a, clock: bpf.OwnClock(), names: diskNames{root: o.Root}, missing: missing}
	s.take = s.readRecord
	return s, nil
}

// Spec describes the measurements.
func (s *Source) Spec() *sensor.TallySpec { return Spec }

// Missing returns why the disks of waits are not known, nil if they are.
func (s *Source) Missing() (name string, err error) {
	return "waits-disks", sensor.RefusedAny("the disks that processes wait for are not known", s.missing)
}

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
		return errors.New("read waits: the source is closed")
	}
	s.pass = p
	if err := s.accounts.Read(s.take); err != nil {
		return fmt.Errorf("read waits: %w", err)
	}
	return nil
}

func (s *Source) readRecord(b []byte) (key uint32, ended bool) {
	r := (*waitsRecord)(unsafe.Pointer(&b[0]))
	if r.Pid == 0 {
		was := s.unowned
		s.unowned = [2]uint64{r.Nanos, r.Waits}
		s.pass.Unowned = s.pass.Unowned || s.unowned != was // waits without time have an unknown duration
		s.pass.Add(0, 0, 0, r.Nanos-was[0])
		return 0, false
	}
	pid, start := max(r.Pid, 0), s.clock.Here(r.Start)
	s.pass.Add(pid, start, 0, r.Nanos)
	for i := range r.Uses {
		u := &r.Uses[i]
		if u.Nanos == 0 {
			continue
		}
		if disk := s.names.diskName(u.Disk.Name); disk != "" {
			name := s.pass.Named(sensor.TallyName{Set: diskSet, Labels: [2]string{disk}})
			s.pass.Rows = append(s.pass.Rows, sensor.TallyRow{PID: pid, Start: start, Name: name, Amount: u.Nanos})
		}
	}
	return r.Tgid, r.Ended != 0
}

var _ sensor.Tally = (*Source)(nil)
