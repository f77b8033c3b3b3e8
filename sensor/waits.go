package sensor

// Wait is the time that threads slept until storage responded.
type Wait struct {
	Nanos uint64 // of all threads, summed
	Waits uint64 // number of waits
}

// Waited is the waits of the threads of one process since the previous reading.
type Waited struct {
	// PID is the process, 0 if it is unknown or not in our pid namespace.
	PID   int32
	Start uint64 // of the process, nanoseconds since boot
	IO    Wait
}

// DiskWaited is the part of a process's waits for which the disk is known.
type DiskWaited struct {
	// PID is the process, 0 where it is not known or not in our pid namespace.
	PID   int32
	Start uint64 // of the process, nanoseconds since boot
	Disk  string // as in /sys/block; other where it has waited for too many
	Nanos uint64 // of all threads, added up
}

// WaitPass is one reading of a [WaitSource]. Its memory is reused.
type WaitPass struct {
	Waited []Waited
	Disks  []DiskWaited
	// Unowned is the waits that the source had no room to charge to a process. Waits
	// without time are those of unknown duration.
	Unowned Wait
}

// Reset empties p and keeps its memory.
func (p *WaitPass) Reset() { p.Waited, p.Disks, p.Unowned = emptied(p.Waited), p.Disks[:0], Wait{} }

// WaitSource counts the storage waits of processes, including ended ones. Its contract is that of
// a [TrafficSource].
type WaitSource interface {
	Name() string
	ReadWaits(p *WaitPass) error
	Close() error
}
