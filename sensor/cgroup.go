package sensor

// Direction is the direction of the payload, as the process sees it.
type Direction uint8

// The directions.
const (
	Receive Direction = iota
	Transmit
	Directions int = iota
)

// String returns the value of the label direction.
func (d Direction) String() string { return [...]string{"receive", "transmit"}[d] }

// CgroupFields are the figures of a [Cgroup] that its controllers provide.
type CgroupFields uint32

// The groups of figures of a cgroup.
const (
	CgroupCPU          CgroupFields = 1 << iota // UsageNanos
	CgroupCPUSplit                              // UserNanos, SystemNanos
	CgroupThrottle                              // ThrottledNanos, ThrottledPeriods
	CgroupMemory                                // Current, Anon, File, Shmem
	CgroupSwap                                  // Swap
	CgroupPeak                                  // Peak
	CgroupEvents                                // OOMKills
	CgroupIO                                    // ReadBytes, WriteBytes
	CgroupPIDs                                  // PIDs
	CgroupPressure                              // CPUWaitNanos, MemoryStallNanos, IOStallNanos
	CgroupMemoryMax                             // MemoryMax: a limit is set
	CgroupCPUMax                                // CPUMax: a limit is set
	CgroupShmem                                 // Shmem is separate from File; otherwise shared memory is in File
	CgroupKernel                                // Kernel
	CgroupKernelBound                           // Kernel is an upper bound: it includes reclaimable slab
	CgroupRefaults                              // RefaultAnon, RefaultFile
	CgroupMemoryEvents                          // MaxEvents, OOMEvents
	CgroupInactive                              // InactiveFile
	CgroupPeriods                               // Periods
	CgroupFaults                                // Faults, MajorFaults
	CgroupHuge                                  // HugeBytes
	CgroupNodes                                 // NodeBytes
	CgroupIOLimits                              // IOLimits
	CgroupFilled                                // Filled
)

// MaxNodes is the number of NUMA nodes that are distinguished; of a machine with more, memory by node is not read.
const MaxNodes = 16

// IOLimit is the limit on I/O of a control group with a block device. 0 means no limit. Index [Receive] of an array is
// the limit on reads, and [Transmit] that on writes.
type IOLimit struct {
	Device     string    // as in /sys/block
	Bytes      [2]uint64 // a second
	Operations [2]uint64 // a second
}

// Cgroup holds the figures of one control group including its descendants.
//
// Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of the kernel.
type Cgroup struct {
	Have CgroupFields

	UsageNanos, UserNanos, SystemNanos uint64
	ThrottledNanos, ThrottledPeriods   uint64
	Periods                            uint64 // of the CPU bandwidth controller in which something ran

	Current, Anon, File, Shmem, Swap uint64 // bytes
	Peak                             uint64 // highest Current so far, bytes
	InactiveFile                     uint64 // page cache not used recently, bytes
	// Kernel is unreclaimable kernel memory in bytes: stacks, page tables, sockets, unreclaimable
	// slab. Version 1 reports only the total of kernel memory, which is then an upper bound.
	Kernel uint64
	// RefaultAnon and RefaultFile are memory that was reclaimed and soon needed again, bytes.
	RefaultAnon, RefaultFile uint64
	// Faults are page faults of all kinds; MajorFaults are the faults that waited for storage.
	Faults, MajorFaults uint64
	// Filled is an upper bound in bytes of the anonymous and mapped memory filled since the group began: by page faults
	// or, in version 1, by page charges. It excludes data written to files in memory.
	Filled    uint64
	HugeBytes uint64 // memory in transparent huge pages, bytes; version 1 counts anonymous memory only
	// NodeBytes is anonymous and file memory in bytes by NUMA node. It is read occasionally, and
	// only on machines with several nodes; nil before that.
	NodeBytes *[MaxNodes]uint64
	// IOLimits are the limits of the group itself on block devices, read now and then; nil if it has none.
	IOLimits *[]IOLimit
	// MaxEvents counts how often the limit was reached and memory had to be reclaimed, OOMEvents
	// how often that failed, OOMKills the killed processes.
	MaxEvents, OOMEvents, OOMKills uint64

	ReadBytes, WriteBytes uint64
	PIDs                  uint64

	// Pressure stall totals ("some"), nanoseconds (Documentation/accounting/psi.rst).
	CPUWaitNanos, MemoryStallNanos, IOStallNanos uint64

	MemoryMax uint64  // limit, bytes
	CPUMax    float64 // limit, cores
}

// Needed returns the bytes of memory that the processes of the group need: anonymous, shared and unreclaimable kernel
// memory. The rest of Current is page cache and slab, which the kernel reclaims under pressure.
func (c *Cgroup) Needed() uint64 { return c.Anon + c.Shmem + c.Kernel }

// CgroupReader reads control groups of any version.
type CgroupReader interface {
	// Open returns a handle on the cgroup with the given paths, one per hierarchy, and keeps its
	// descriptors open. The error matches fs.ErrNotExist if the cgroup is gone.
	Open(paths []CgroupPath) (CgroupHandle, error)
	Close() error
}

// CgroupHandle reads one cgroup repeatedly without allocating.
type CgroupHandle interface {
	// Read fills c. After the cgroup was removed, the error matches fs.ErrNotExist and c keeps the
	// previous reading.
	Read(c *Cgroup) error
	Close() error
}

// CgroupRester is a [CgroupHandle] that need not be read while its group rests.
type CgroupRester interface {
	// Rest is called instead of Read if no process of the group has run since the last Read. It reports whether that
	// reading is still recent enough; otherwise Read is due. It makes no system call.
	Rest() bool
}
