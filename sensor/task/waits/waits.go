// Package waits measures for how long the threads of each process sleep until storage has
// answered, by programs of BPF at the scheduler's trace points.
//
// It needs BTF and CAP_BPF with CAP_PERFMON (Linux 5.9). It does not need delay accounting
// (kernel.task_delayacct), which is off on most machines, and never switches it on.
//
// What counts is the kernel's own mark of a thread that waits for I/O (in_iowait): reading what is not
// in the page cache, direct I/O, writing back, swapping in, on disks and NFS alike. The time
// ends when the thread is woken; what it then waits for a processor is not in it. Asynchronous I/O counts while
// somebody waits for it in the kernel; who waits in io_uring_enter(2) counts as waiting for I/O by the
// kernel's rule, even where the ring holds sockets only. A wait is counted when it is over.
//
// Sources: io_schedule and try_to_wake_up of kernel/sched/core.c; include/trace/events/sched.h;
// Documentation/accounting/delay-accounting.rst for the figure that this stands for. A [Source]
// is used from one goroutine.
package waits

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

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
	kernel  *kernelSide
	clock   bpf.Clock
	buf     []byte
	unowned sensor.Wait // so far
	over    []uint32    // keys of processes whose end was handed on
	doomed  []uint32    // and of those who were in the pass before
}

// Open loads the programs. It fails with [sensor.ErrUnavailable] where the kernel or the
// permissions do not allow it, and says which.
func Open(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	k, err := load(o)
	if err != nil {
		return nil, err
	}
	return &Source{kernel: k, clock: bpf.OwnClock(), buf: make([]byte, 16<<10)}, nil
}

// Name returns "waits".
func (s *Source) Name() string { return "waits" }

// Close unloads the programs. Calling it again does nothing.
func (s *Source) Close() error {
	if s.kernel != nil {
		s.kernel.close()
		s.kernel = nil
	}
	return nil
}

const recordSize = int(unsafe.Sizeof(waitsRecord{}))

// ReadWaits appends what was counted since the last call.
func (s *Source) ReadWaits(p *sensor.WaitPass) error {
	if s.kernel == nil {
		return errors.New("read waits: the source is closed")
	}
	s.over = s.over[:0]
	fd, err := bpf.NewIteration(s.kernel.harvest.FD())
	if err != nil {
		return fmt.Errorf("read waits: %w", err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Read(fd, s.buf)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("read waits: %w", err)
		case n == 0:
			s.forget()
			return nil
		case n%recordSize != 0:
			return fmt.Errorf("read waits: %d bytes are no whole number of records of %d", n, recordSize)
		}
		for b := s.buf[:n]; len(b) > 0; b = b[recordSize:] {
			s.take((*waitsRecord)(unsafe.Pointer(&b[0])), p)
		}
	}
}

func (s *Source) take(r *waitsRecord, p *sensor.WaitPass) {
	w := sensor.Wait{Nanos: r.Nanos, Waits: r.Waits}
	if r.Pid == 0 {
		p.Unowned.Nanos += w.Nanos - s.unowned.Nanos
		p.Unowned.Waits += w.Waits - s.unowned.Waits
		s.unowned = w
		return
	}
	if r.Ended != 0 {
		s.over = append(s.over, r.Tgid)
	}
	if w != (sensor.Wait{}) {
		p.Waited = append(p.Waited, sensor.Waited{PID: max(r.Pid, 0), Start: s.clock.Here(r.Start), IO: w})
	}
}

// forget frees the accounts of processes whose end an earlier pass handed on, so that what was
// under way then is in this one.
func (s *Source) forget() {
	for _, key := range s.doomed {
		_ = s.kernel.accounts.Delete(key) // it is not there: it was freed before
	}
	s.doomed = s.doomed[:0]
	s.doomed, s.over = s.over, s.doomed
}

var _ sensor.WaitSource = (*Source)(nil)
