package sensor

// Wait is for how long threads slept until storage had answered.
type Wait struct {
	Nanos uint64 // of all threads, added up
	Waits uint64 // how often
}

// Waited is what the threads of one process waited since the reading before.
type Waited struct {
	// PID is the process, 0 where it is not known or not in our pid namespace.
	PID   int32
	Start uint64 // of the process, nanoseconds since boot
	IO    Wait
}

// WaitPass is one reading of a [WaitSource]. Its memory is reused.
type WaitPass struct {
	Waited []Waited
	// Unowned is what the source had no room to charge to a process. Waits without time are
	// those of which nobody knows how long they took.
	Unowned Wait
}

// Reset empties p and keeps its memory.
func (p *WaitPass) Reset() { p.Waited, p.Unowned = p.Waited[:0], Wait{} }

// WaitSource counts what processes waited for storage, of each process that did, those that ended
// included. It is used as a [TrafficSource] is.
type WaitSource interface {
	Name() string
	ReadWaits(p *WaitPass) error
	Close() error
}
