// Package waits measures for how long the threads of each process sleep until storage has
// answered, by programs of BPF at the scheduler's trace points.
//
// It needs BTF and CAP_BPF with CAP_PERFMON (Linux 5.12). It does not need delay accounting
// (kernel.task_delayacct), which is off on most machines, and never switches it on.
//
// What counts is the kernel's own mark of a thread that waits for I/O (in_iowait): reading what is not
// in the page cache, direct I/O, writing back, swapping in, on disks and NFS alike. The time
// ends when the thread is woken; what it then waits for a processor is not in it. Asynchronous I/O counts while
// somebody waits for it in the kernel; who waits in io_uring_enter(2) counts as waiting for I/O by the
// kernel's rule, even where the ring holds sockets only. A wait is counted when it is over.
//
// The disk of a wait is the one that had served a request when the thread was woken: whose completion woke it, on the same processor
// and in the same context, at most 50 µs before. Where something else woke it, such as a worker that finishes writes for the file
// system, it is the disk to which the thread itself had passed I/O, or which it had written too much to, since it slept before. Of
// a stack of devices it is the lowest that serves requests. What is left has no disk: network and FUSE file systems, waits
// for pages that others write back, io_uring.
//
// Sources: io_schedule and try_to_wake_up of kernel/sched/core.c; include/trace/events/sched.h;
// Documentation/accounting/delay-accounting.rst for the figure that this stands for. A [Source]
// is used from one goroutine.
package waits

import (
	"errors"
	"fmt"
	"unsafe"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

// Options says how to measure.
type Options struct {
	// Root is where /proc and /sys of this machine are mounted, "" for "/".
	Root string
	// Types are those of the kernel, shared with others who load programs; nil to parse them here.
	Types *bpf.Types

	accounts uint32 // how many processes there is room for; for tests
}

// Source measures waits while it is open.
type Source struct {
	accounts *bpf.Accounts
	clock    bpf.Clock
	take     func([]byte) (uint32, bool)
	names    names
	missing  error            // why disks are not known, nil if they are
	pass     *sensor.WaitPass // that is being read
	unowned  sensor.Wait      // so far
}

//go:generate bash ../bpf/build waits record

// Open loads the programs. It fails with [sensor.ErrUnavailable] where the kernel or the
// permissions do not allow it, and says which.
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
	s := &Source{accounts: a, clock: bpf.OwnClock(), names: names{root: o.Root}, missing: missing}
	s.take = s.record
	return s, nil
}

// Name returns "waits".
func (s *Source) Name() string { return "waits" }

// Missing is why the disks of waits are not known, nil if they are.
func (s *Source) Missing() error { return s.missing }

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

// ReadWaits appends what was counted since the last call.
func (s *Source) ReadWaits(p *sensor.WaitPass) error {
	if s.accounts == nil {
		return errors.New("read waits: the source is closed")
	}
	s.pass = p
	if err := s.accounts.Read(s.take); err != nil {
		return fmt.Errorf("read waits: %w", err)
	}
	return nil
}

func (s *Source) record(b []byte) (key uint32, ended bool) {
	r := (*waitsRecord)(unsafe.Pointer(&b[0]))
	w := sensor.Wait{Nanos: r.Nanos, Waits: r.Waits}
	if r.Pid == 0 {
		s.pass.Unowned.Nanos += w.Nanos - s.unowned.Nanos
		s.pass.Unowned.Waits += w.Waits - s.unowned.Waits
		s.unowned = w
		return 0, false
	}
	if w != (sensor.Wait{}) {
		s.pass.Waited = append(s.pass.Waited, sensor.Waited{PID: max(r.Pid, 0), Start: s.clock.Here(r.Start), IO: w})
	}
	for i := range r.Uses {
		if u := &r.Uses[i]; u.Nanos != 0 {
			d := sensor.DiskWaited{PID: max(r.Pid, 0), Start: s.clock.Here(r.Start), Disk: s.names.of(u.Disk.Name), Nanos: u.Nanos}
			if d.Disk != "" {
				s.pass.Disks = append(s.pass.Disks, d)
			}
		}
	}
	return r.Tgid, r.Ended != 0
}

var _ sensor.WaitSource = (*Source)(nil)
