package sensor

// Machine holds the totals of the node that workloads are compared with.
type Machine struct {
	// Boot is the time when the reading was taken, in nanoseconds since boot (CLOCK_BOOTTIME).
	Boot uint64
	// Cores is the number of processors online.
	Cores int
	// CPU time of all processors since boot in nanoseconds, from /proc/stat. User and Nice include
	// guest time, as in the kernel.
	User, Nice, System, Idle, IOWait, IRQ, SoftIRQ, Steal uint64

	// Forks is the number of processes and threads created since boot, from /proc/stat; 0 if
	// unknown. It is not saved.
	Forks uint64 `json:"-"`

	MemoryTotal, MemoryAvailable uint64 // bytes, from /proc/meminfo

	// MemoryMapped is the page cache that processes map, including shared memory, in bytes; 0 if unknown. It is not stored.
	MemoryMapped uint64 `json:"-"`

	// MemoryAnon is the anonymous memory of processes without explicit huge pages, in bytes; 0 if unknown. It is not stored.
	MemoryAnon uint64 `json:"-"`

	// MemoryShared is the size of memfd, tmpfs and shared memory in bytes, mapped or not; 0 if
	// unknown. It is not saved.
	MemoryShared uint64 `json:"-"`
}

// MachineReader reads the totals of the node.
type MachineReader interface {
	// ReadMachine fills m without allocating.
	ReadMachine(m *Machine) error
	Close() error
}
