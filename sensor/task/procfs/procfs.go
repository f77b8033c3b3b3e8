// Package procfs reads the task table from /proc, for kernels and users without the eBPF task
// iterator. It needs no privilege. Figures that are denied (the I/O of other users' processes) are
// left out of [sensor.Process.Have] and never reported as zero.
//
// Sources: Documentation/filesystems/proc.rst and proc(5). Times are nanoseconds, memory is bytes.
//
// # What a pass costs
//
// Formatting /proc/PID/stat takes the kernel about 4 µs and status 9 µs, opening a file as much
// again. Asking for the CPU clock of a process (clock_getcpuclockid(3)) takes 0.2 µs, needs no
// permission, counts all threads, the ended ones included, and has a resolution of 1 ns. A process
// with a clock that stands still has not run, so nothing that it does itself can have changed, and
// none of its files is read. What others do to it without its running is seen later: memory that is
// reclaimed or swapped out, a move to another cgroup, a new process group. All of that is read
// again when the process is 1, 2, 4 ... 32 seconds old and then every 60 s, spread evenly over the
// passes. A process whose parent ended is read again at once. Where the clock cannot be asked,
// because the tree is not of our own process id namespace, stat is read at each pass and the rest
// when it changed.
//
// /proc itself is listed when the kernel has given out a process id since the last pass (last field
// of /proc/loadavg), and at every eighth pass.
//
// # What the figures mean
//
//   - UserNanos + SystemNanos is the CPU clock of the process, to the nanosecond; only its
//     split is known to 10 ms (stat). Without the clock both come from stat.
//   - WaitNanos is the sum over threads of run_delay (schedstat). What a thread waited
//     after it was last read and before it ended is lost: Partial reports it of a process some of
//     whose threads have ended, even if none of them was seen (the process used more than its threads).
//   - Voluntary, Involuntary and Turns are known for processes of one thread only.
//   - ReadBytes and WriteBytes are the process's own: the kernel adds to /proc/PID/io what
//     waited-for children did, which would count it twice, so for a process that
//     has waited for children the files of its threads are read instead. Those of ended threads are
//     missing, according to Partial.
//   - UID is the real user id.
//   - Memory comes from status. Kernels 6.2 to 6.16 keep these counters per processor, and
//     may be off by some dozens of pages on machines with many processors. Where the first thread has
//     ended, the status of another is read. Of processes that share an address space (kcmp(2)) the first has all of it.
//
// A [Source] is used from one goroutine; [Proc] from any.
package procfs

import (
	"fmt"
	"hash/maphash"
	"path/filepath"

	"golang.org/x/sys/unix"

	"reckon/internal/cgpath"
	"reckon/sensor"
)

// Options controls the place to read from.
type Options struct {
	// Root is the directory with the machine's file tree, "" for "/".
	Root string
	// Descriptors is the number of files kept open between passes for active processes; each also
	// holds a page of kernel memory. 0 means a quarter of the soft limit (RLIMIT_NOFILE), at most
	// 8192. The limit itself is not changed, because the Go runtime has already raised it to the
	// hard limit for this process.
	Descriptors int
	// NoClock reads stat at each pass instead of asking for CPU clocks.
	NoClock bool
}

// Source is the task table as /proc shows it.
type Source struct {
	dir   int    // descriptor of /proc
	name  string // path of /proc
	buf   []byte
	path  []byte
	list  pidLister
	files fileBudget

	clock  bool   // CPU clocks of processes can be asked for
	hertz  uint64 // clock ticks per second
	page   uint64 // bytes
	passes uint64

	loadavg  file
	lastPID  uint64
	pids     []int32
	entries  []*processEntry // by process id
	spare    []*processEntry // the other half of a merge
	free     []*processEntry
	gone     []int32       // process ids that ended, for their children
	young    []spaceSharer // processes that this pass was the first to read
	sharers  []spaceSharer
	tids     pidLister
	tidBuf   []int32
	stat     stat
	status   status
	inode    unix.Stat_t
	seed     maphash.Seed
	cgroups  map[uint64]*cgroupSet
	origin   cgpath.Origin
	firstErr error // of the last pass
}

// New opens /proc under the root. It returns [sensor.ErrUnavailable] if there is none.
func New(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	s := &Source{
		name: filepath.Join(o.Root, "proc"),
		buf:  make([]byte, 16<<10), path: make([]byte, 0, 64),
		hertz: ticksPerSecond(), page: uint64(unix.Getpagesize()),
		seed: maphash.MakeSeed(), cgroups: make(map[uint64]*cgroupSet),
		loadavg: fileClosed, origin: cgpath.FindOrigin(o.Root),
	}
	dir, err := unix.Open(s.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, sensor.Unavailable("no process table at "+s.name, "mount procfs there", err)
	}
	s.dir = dir
	s.list.init(dir)
	s.tids.init(-1)
	s.files = newBudget(o.Descriptors)
	if err := s.probeTree(o); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// probeTree determines the kind of the tree.
func (s *Source) probeTree(o Options) error {
	pids, err := s.list.read(nil)
	if err != nil {
		return fmt.Errorf("list %s: %w", s.name, err)
	}
	if len(pids) == 0 {
		return sensor.Unavailable("no processes in "+s.name, "mount procfs there", nil)
	}
	s.clock = !o.NoClock && s.sameNamespace()
	if s.clock {
		s.loadavg, _ = s.open("loadavg")
	}
	return nil
}

// Name returns "procfs".
func (s *Source) Name() string { return "procfs" }

// Close closes all descriptors. Calling it again does nothing.
func (s *Source) Close() error {
	if s.dir < 0 {
		return nil
	}
	for _, e := range s.entries {
		s.releaseEntry(e)
	}
	s.entries, s.free = nil, nil
	s.loadavg.close()
	err := unix.Close(s.dir)
	s.dir = -1
	return err
}
