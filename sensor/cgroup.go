package sensor

// CgroupFields says which figures of a [Cgroup] its controllers gave.
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
	CgroupShmem                                 // Shmem is apart from File; else shared memory is in File
	CgroupKernel                                // Kernel
	CgroupKernelBound                           // Kernel is an upper bound: reclaimable slab is in it
	CgroupRefaults                              // RefaultAnon, RefaultFile
	CgroupMemoryEvents                          // MaxEvents, OOMEvents
	CgroupInactive                              // InactiveFile
	CgroupPeriods                               // Periods
	CgroupFaults                                // Faults, MajorFaults
	CgroupHuge                                  // HugeBytes
)

// Cgroup holds the figures of one control group, its descendants included.
//
// Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of the kernel.
type Cgroup struct {
	Have CgroupFields

	UsageNanos, UserNanos, SystemNanos uint64
	ThrottledNanos, ThrottledPeriods   uint64
	Periods                            uint64 // of the CPU bandwidth controller in which something ran

	Current, Anon, File, Shmem, Swap uint64 // bytes
	Peak                             uint64 // highest Current so far, bytes
	InactiveFile                     uint64 // of the page cache, what was not used lately, bytes
	// Kernel is memory of the kernel that can not be reclaimed, bytes: stacks, page tables,
	// sockets, unreclaimable slab. Version 1 knows only all of the kernel's memory, which
	// is then an upper bound.
	Kernel uint64
	// RefaultAnon and RefaultFile are memory that was reclaimed and soon needed again, bytes.
	RefaultAnon, RefaultFile uint64
	// Faults are page faults of all kinds; MajorFaults are those of them that waited for storage.
	Faults, MajorFaults uint64
	HugeBytes           uint64 // memory in transparent huge pages, bytes; version 1 counts anonymous memory only
	// MaxEvents counts how often the limit was reached and memory had to be reclaimed,
	// OOMEvents how often that was in vain, OOMKills the processes killed.
	MaxEvents, OOMEvents, OOMKills uint64

	ReadBytes, WriteBytes uint64
	PIDs                  uint64

	// Pressure stall totals ("some"), nanoseconds (Documentation/accounting/psi.rst).
	CPUWaitNanos, MemoryStallNanos, IOStallNanos uint64

	MemoryMax uint64  // limit, bytes
	CPUMax    float64 // limit, cores
}

// Needed returns the memory that can not be given back without loss: anonymous, shared and
// unreclaimable kernel memory, bytes. The rest of Current is page cache and slab, which the
// kernel takes back when others need it.
func (c *Cgroup) Needed() uint64 { return c.Anon + c.Shmem + c.Kernel }

// CgroupReader reads control groups of any version.
type CgroupReader interface {
	// Open returns a handle on the cgroup that has the given paths, one for each
	// hierarchy, with its descriptors kept open. It fails with an error matching
	// fs.ErrNotExist when the cgroup is gone.
	Open(paths []CgroupPath) (CgroupHandle, error)
	Close() error
}

// CgroupHandle reads one cgroup again and again without allocating.
type CgroupHandle interface {
	// Read fills c. After the cgroup was removed it returns an error matching
	// fs.ErrNotExist, and c keeps what was read before it.
	Read(c *Cgroup) error
	Close() error
}
