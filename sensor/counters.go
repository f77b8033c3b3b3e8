package sensor

// Counter is an event that the processors count.
type Counter uint8

// The counters of a [CounterSource].
const (
	Cycles       Counter = iota // while not halted
	Instructions                // retired
	BranchMisses                // branches predicted wrongly
	// CacheMisses are lines that cores fetched from beyond the last level of the cache; which prefetches are among them
	// depends on the processor, and lines written back are not.
	CacheMisses
	// Floating-point instructions by the width of their operands.
	FPScalar
	FP128
	FP256
	FP512
	Counters
)

// Count is what one event counted.
type Count struct {
	Whole uint64 // while it had a counter of the processor all the time
	// Part is what it counted in times in which it shared one with others: it was to count for Enabled ns, and counted for Running.
	Part, Enabled, Running uint64
}

// CounterUse is what the events counted while something ran.
type CounterUse [Counters]Count

// Add adds what v counted.
func (u *CounterUse) Add(v *CounterUse) {
	for i := range v {
		c, d := &u[i], &v[i]
		c.Whole, c.Part, c.Enabled, c.Running = c.Whole+d.Whole, c.Part+d.Part, c.Enabled+d.Enabled, c.Running+d.Running
	}
}

// Counted is what was counted while one process ran, since the reading before.
type Counted struct {
	// PID is the process, 0 where it is not known or not in our pid namespace.
	PID   int32
	Start uint64 // of the process, nanoseconds since boot
	Use   CounterUse
}

// CounterPass is one reading of a [CounterSource]. Its memory is reused.
type CounterPass struct {
	Counted []Counted
	// Unowned is what the source had no room to charge to a process.
	Unowned CounterUse
	// Have has bit c where counter c is counted.
	Have uint16
	// Line is how many bytes of memory a cache miss moves, 0 where misses of this machine do not say that.
	Line uint64
	// Gaps: since the reading before, a processor ran for some time without counters.
	Gaps bool
}

// Reset empties p and keeps its memory.
func (p *CounterPass) Reset() { *p = CounterPass{Counted: p.Counted[:0]} }

// CounterSource counts events of the processors for each process, those that ended included. It is used as a
// [TrafficSource] is.
type CounterSource interface {
	Name() string
	ReadCounters(p *CounterPass) error
	Close() error
}
