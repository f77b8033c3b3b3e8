// Package ebpf reads the task table by a BPF program that walks the list of processes (Linux 6.7), or else through a
// BPF task iterator. It reads the final totals of ended processes through two trace points of the scheduler, and opens
// of GPUs if the kernel's functions can be traced. It opens no file of /proc.
//
// It needs Linux 5.8 with BTF (/sys/kernel/btf/vmlinux) and CAP_BPF with CAP_PERFMON. The kernel's side is
// bpf/task.bpf.c; layouts that differ between kernels are found by CO-RE relocations and existence checks, never by
// version numbers. The programs are committed in compiled form; `go generate` makes them anew and needs clang.
//
// Sources: Documentation/bpf/bpf_iterators.rst, ringbuf.rst and btf.rst; kernel/exit.c and kernel/sched/cputime.c for
// where the totals of threads go. Times are nanoseconds, memory is bytes.
//
// # What the figures mean
//
//   - CPU time is the scheduler's (sum_exec_runtime), precise to the last switch or clock tick
//     of a running thread. Its split into user and system is sampled at clock ticks, and
//     done here as the kernel does it for /proc and getrusage(2).
//   - A pass by the list is one critical section of RCU: on a kernel that does not preempt itself the processor does
//     nothing else for some milliseconds where there are 20,000 processes.
//   - Threads that ended are in the totals of their process (signal_struct), but not what they
//     waited for a processor, and their I/O only until the process has waited for a child, whose I/O
//     goes to the same place. A program at the end of each thread keeps both. Partial names
//     what lacks threads that ended before that program ran, or had no room for.
//   - CancelledBytes were written and then deleted or cut off before they reached storage; the kernel
//     charges them to who did that, which may be another process than the one that wrote.
//   - A process that has not run since the last pass (by the iterator: a process with a single thread)
//     is reported unchanged. Changes by others to its memory (reclaim, swap) are seen when it is read
//     again, after at most 32 passes.
//   - Resident memory is exact even if each processor keeps a part of the count (since
//     Linux 6.2). Of processes that share an address space (Space), as between vfork(2) and exec(2), the one
//     that began first has all of it, and the others none. Where the first thread has ended, another one reports it.
//     Huge is what explicit huge pages take (hugetlbfs), which the kernel does not count as resident.
//   - PeakBytes is the high-water mark of the address space. Of a process that ended it is, before
//     Linux 6.16, the one of getrusage(2), which remembers what it was before an exec.
//   - Ids are ids of the pid namespace of the reader, and processes outside it are not reported.
//   - UID is the real user id. Memory of kernel threads and zombies is 0.
//   - Opens of GPUs are opens of /dev/nvidia0 and up and of /dev/dri, each once a pass, successful or not.
//   - A zombie is reported alive; its exit record comes when it has been waited for, with the CPU time of
//     its last moments. A process that was waited for while it was being read stays
//     in the table, as a zombie, for one pass.
//   - Cgroup mixes the ids of all its cgroups, in every hierarchy. The kernel does not
//     reuse such ids. Their paths come with the first process that is seen in them.
//
// A [Source] is used from one goroutine.
package ebpf

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"reckon/internal/cgpath"
	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

// Options configures the reading.
type Options struct {
	// Root is the directory with /proc and /sys of this machine, "" for "/".
	Root string
	// Types are the kernel's types, shared with other loaders; nil parses them here.
	Types *bpf.Types
	// NoExits leaves out the records of processes that ended.
	NoExits bool

	harvest uint32 // maximum number of processes with ended threads; 0 derives it from the machine
}

// Source is the task table of the running kernel.
type Source struct {
	kernel  *loadedPrograms
	ring    *ring
	opens   *ring // nil if opens of GPUs are not traced
	onEvent func([]byte)
	opened  []sensor.Open
	onOpen  func([]byte)
	buf     []byte
	page    uint64
	clock   bpf.Clock

	table    taskTable
	threads  []tasksThread
	done     []sensor.Process // exit records that no pass has reported yet
	held     []endedProcess
	claimed  map[int32]claimedProcess // by process id
	lost     uint64
	reported uint64 // of lost, how many were reported
	shut     uint64 // opens that found no room
	full     uint64 // ended threads that left no record
	swept    uint64 // full when room was made
	level    uint32 // depth of our pid namespace

	sets    map[uint64]*cgroupSet
	names   hierarchies
	pass    uint64
	exitErr error

	afterWalk func() // for tests
}

// New loads the programs and reads the process table once. If the kernel or the permissions do not allow it, the error
// matches [sensor.ErrUnavailable] and gives the reason.
func New(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	k, err := loadPrograms(o)
	if err != nil {
		return nil, err
	}
	s := &Source{
		kernel: k, page: uint64(unix.Getpagesize()), clock: bpf.OwnClock(), buf: make([]byte, 32<<10),
		sets: make(map[uint64]*cgroupSet), claimed: make(map[int32]claimedProcess), exitErr: k.exits,
	}
	if s.exitErr != nil && !errors.Is(s.exitErr, errNotRequested) {
		s.exitErr = sensor.RefusedError("the kernel does not let the end of processes be traced", "", bpf.Cause(s.exitErr))
	}
	s.onEvent, s.onOpen, s.table.harvests = s.handleRecord, s.recordOpen, k.exits == nil
	s.names.root, s.names.origin = o.Root, cgpath.FindOrigin(o.Root)
	if s.ring, err = openRing(k.events.FD(), int(k.events.MaxEntries())); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("map the ring of events: %w", err)
	}
	if k.opens != nil {
		if s.opens, err = openRing(k.opens.FD(), int(k.opens.MaxEntries())); err != nil {
			_ = s.Close()
			return nil, fmt.Errorf("map the ring of opens: %w", err)
		}
	}
	if err := s.Read(new(sensor.Pass)); err != nil {
		_ = s.Close()
		if errors.Is(err, unix.EPERM) {
			err = sensor.Unavailable("no permission to read the task iterator", "grant CAP_BPF and CAP_PERFMON", err)
		}
		return nil, err
	}
	s.findOwn()
	return s, nil
}

// Name returns "ebpf".
func (s *Source) Name() string { return "ebpf" }

// Exits returns nil if the source reports processes that ended, and else why not.
func (s *Source) Exits() error { return s.exitErr }

// Opens reports whether opens of GPUs are reported.
func (s *Source) Opens() bool { return s.opens != nil }

// Missed returns the number of events that were not recorded. These are ends of processes that interrupted the same
// program, and ends of threads and opens of GPUs for which a table had no room.
func (s *Source) Missed() uint64 {
	if s.kernel == nil {
		return 0
	}
	return bpf.Missed(s.kernel.programs...) + s.full + s.shut
}

// Close unloads the programs. Calling it again does nothing.
func (s *Source) Close() error {
	if s.kernel == nil {
		return nil
	}
	s.kernel.close()
	s.kernel = nil
	return errors.Join(s.ring.close(), s.opens.close())
}

var _ interface {
	sensor.TaskSource
	sensor.ExitSource
	sensor.CgroupNamer
} = (*Source)(nil)
