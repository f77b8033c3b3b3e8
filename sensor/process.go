package sensor

import "slices"

// Fields is the set of figures in a record that the source could read. A figure without its bit is
// unknown, not zero.
type Fields uint32

// The groups of figures.
const (
	FieldWait     Fields = 1 << iota // WaitNanos
	FieldSwitches                    // Voluntary, Involuntary
	FieldFaults                      // MinorFaults, MajorFaults
	FieldMemory                      // Anon, File, Shmem
	FieldSwap                        // Swap
	FieldPeak                        // PeakBytes
	FieldIO                          // ReadBytes, WriteBytes
	FieldCgroup                      // Cgroup
	FieldGroup                       // PGID, SID
	FieldThreads                     // Threads
	FieldParent                      // PPID
	FieldCPUSplit                    // UserNanos and SystemNanos separately; otherwise all is in UserNanos
	FieldChildren                    // ChildUserNanos, ChildSystemNanos
	FieldTurns                       // Turns
)

// Process is one process (a thread group) as read by a source. Counters cover its whole life,
// including live threads, ended threads and the leader.
type Process struct {
	PID, PPID, PGID, SID int32
	UID                  uint32
	// Start is the start of the process in nanoseconds since boot (CLOCK_BOOTTIME). Sources differ
	// in resolution: 1 ns with eBPF, a clock tick (10 ms) with procfs, up to 1 s in taskstats. See
	// [SameStart].
	Start uint64
	// Life is the lifetime of an ended process in nanoseconds, which some sources know more exactly
	// than its start. It is 0 for a living process and if unknown.
	Life uint64
	// Cgroup is an opaque number that is equal for processes in the same set of cgroups and changes
	// when a process moves; 0 if unknown. See [CgroupNamer].
	Cgroup uint64
	Have   Fields
	State  byte // as in /proc/PID/stat: R S D Z T I X ...
	Kernel bool // a kernel thread
	// Partial are the figures without the use of threads that ended before the source could count it.
	Partial Fields
	// OOMKilled reports that the OOM killer ended the process. Sources without this information leave it false.
	OOMKilled bool
	// Blank reports that its memory was refused: see [Pass.RefuseMemory].
	Blank bool `json:"-"`
	Comm  Comm

	Threads uint32

	UserNanos, SystemNanos uint64 // CPU time
	// CPU time of the children that it has waited for, including their own waited-for children.
	ChildUserNanos, ChildSystemNanos uint64
	WaitNanos                        uint64 // runnable but not running
	Voluntary, Involuntary           uint64 // context switches
	Turns                            uint64 // how often it got a processor, of a process that has only ever had one thread
	MinorFaults                      uint64
	MajorFaults                      uint64

	Anon, File, Shmem, Swap uint64 // resident memory by type and swapped memory, bytes
	Huge                    uint64 // memory in explicit huge pages (hugetlbfs), not resident memory, bytes
	// Space is the number of its address space, 0 if unknown. Of the processes that share one, the
	// first has all of its memory, the others have none.
	Space     uint64
	PeakBytes uint64 // highest resident size so far (VmHWM), bytes

	ReadBytes, WriteBytes uint64 // storage I/O, bytes
	// CancelledBytes is the size of data that it deleted or cut off before they reached storage, written by itself or by others.
	CancelledBytes uint64
}

// SharedMemory is the resident memory of a process in bytes. Resident counts each page in full. Proportional divides
// each page by the number of processes that map it (proportional set size).
type SharedMemory struct {
	Resident, Proportional uint64
	// The anonymous part of both, if HasAnon is set: kernels before 5.4 report the sums only.
	Anon, AnonProportional uint64
	HasAnon                bool
}

// Comm is a program name as the kernel stores it, with up to 15 bytes and a NUL. It may contain any other byte.
// [Comm.String] returns a printable form.
type Comm [16]byte

// CommOf returns the first 15 bytes of name.
func CommOf(name []byte) (c Comm) {
	copy(c[:15], name)
	return c
}

// SameStart reports whether two start times, in nanoseconds since boot, may be those of one process. Times from
// different sources differ by up to a second, and the kernel does not reuse a process id within a second.
func SameStart(a, b uint64) bool {
	d := int64(a - b)
	return d > -1_500_000_000 && d < 1_500_000_000
}

// Pass is the result of one reading of the task table. The next reading reuses its memory.
type Pass struct {
	// Boot is the beginning of the pass, in nanoseconds since boot (CLOCK_BOOTTIME).
	Boot uint64
	// Live are the processes that exist, zombies included (State 'Z').
	Live []Process
	// Exited are processes that ended since the previous pass, each once and with its final
	// figures, even if no pass saw it alive.
	Exited []Process
	// Opens are the GPU device nodes opened since the previous pass. The opening process may be
	// missing from Live and Exited. It is empty if the source cannot see opens.
	Opens []Open
	// Joined means that Live and Exited come from one source, so that their cgroup numbers can be compared.
	Joined bool
	// Lost counts exit records that the source could not deliver (a full buffer).
	Lost uint64
	// Lacks lists the figures that the sources of the records cannot count, the same in every pass; see reckon/sensor/task.Lacks.
	Lacks []Lack
}

// Complete reports whether Exited has every process that ended, with its whole use, except those counted in Lost.
func (p *Pass) Complete() bool {
	return !slices.Contains(p.Lacks, LackEndedProcesses) && !slices.Contains(p.Lacks, LackLastMoments)
}

// Reset empties p and keeps its memory.
func (p *Pass) Reset() {
	p.Boot, p.Lost, p.Lacks = 0, 0, p.Lacks[:0]
	p.Live, p.Exited, p.Opens = p.Live[:0], p.Exited[:0], p.Opens[:0]
}

// Open is a node of a GPU that a process opened. It does not state that the process computes there.
type Open struct {
	PID  int32
	Node uint32 // number of the device, see [Node]
}

// Node returns the kernel's number of a device file, 0 if there is none.
func Node(major, minor uint32) uint32 { return major<<20 | minor&(1<<20-1) }

// TaskSource reads the task table.
type TaskSource interface {
	// Name is the name of the source in flags and reports: "ebpf", "procfs", "replay".
	Name() string
	// Read fills p, which the caller has reset. It is called from one goroutine and
	// does not allocate after warm-up.
	Read(p *Pass) error
	Close() error
}

// ExitSource returns the records of ended processes.
type ExitSource interface {
	Name() string
	// Drain appends to p.Exited the processes that ended since the previous call and adds
	// to p.Lost. It does not block.
	Drain(p *Pass) error
	Close() error
}

// CgroupNamer is implemented by task sources that can resolve the Cgroup number of a process that no longer exists.
type CgroupNamer interface {
	// CgroupPaths returns the cgroups of number n, or false if it is unknown.
	CgroupPaths(n uint64) ([]CgroupPath, bool)
}

// CgroupPath is one line of /proc/PID/cgroup.
type CgroupPath struct {
	// Controllers is the list in the kernel's format ("cpu,cpuacct", "name=systemd"). It is empty
	// for the unified hierarchy.
	Controllers string
	// Path is relative to the root of the hierarchy and begins with a slash.
	Path string
}
