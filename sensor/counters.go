package sensor

// Counter is an event that the processors count.
type Counter uint8

// The counters of a [CounterSource].
const (
	Cycles       Counter = iota // while not halted
	Instructions                // retired
	BranchMisses                // branches predicted wrongly
	// CacheMisses are lines that cores fetched from beyond the last level of the cache; it depends on the processor
	// which prefetches are included. Lines written back are not.
	CacheMisses
	// Floating-point instructions by the width of their operands.
	FPScalar
	FP128
	FP256
	FP512
	Counters
)

// Count is the count of one event.
type Count struct {
	Whole uint64 // while it had a hardware counter all the time
	// Part is its count in times in which it shared a hardware counter with others: it was enabled for Enabled ns, and
	// counted for Running.
	Part, Enabled, Running uint64
}

// CounterUse is the counts of the events while something ran.
type CounterUse [Counters]Count

// Add adds the counts of v.
func (u *CounterUse) Add(v *CounterUse) {
	for i := range v {
		c, d := &u[i], &v[i]
		c.Whole, c.Part, c.Enabled, c.Running = c.Whole+d.Whole, c.Part+d.Part, c.Enabled+d.Enabled, c.Running+d.Running
	}
}

// Counted is the counts of one process since the previous reading.
type Counted struct {
	// PID is the process, 0 if it is unknown or not in our pid namespace.
	PID   int32
	Start uint64 // of the process, nanoseconds since boot
	Use   CounterUse
}

// CounterPass is one reading of a [CounterSource]. Its memory is reused.
type CounterPass struct {
	Counted []Counted
	// Unowned is the counts that the source had no room to charge to a process.
	Unowned CounterUse
	// Have has bit c set if counter c is available.
	Have uint16
	// Line is the number of bytes of memory that a cache miss moves, 0 where misses of this machine do not determine
	// it.
	Line uint64
	// Gaps: since the previous reading, a processor ran for some time without counters.
	Gaps bool
}

// Reset empties p and keeps its memory.
func (p *CounterPass) Reset() { *p = CounterPass{Counted: emptied(p.Counted)} }

// CounterSource counts processor events for each process, including ended ones. Its contract is that of a
// [TrafficSource].
type CounterSource interface {
	Name() string
	ReadCounters(p *CounterPass) error
	Close() error
}
