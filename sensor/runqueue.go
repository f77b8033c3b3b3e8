package sensor

// QueueOctaves is the number of buckets for the delays of a [Queue].
const QueueOctaves = 25

// Queue is the time that threads waited for a processor, counted each time that one got it.
type Queue struct {
	Nanos uint64 // of all threads, summed
	// Octaves counts delays: bucket i holds those of up to 2^(i-20) seconds (about 1 µs for the first) and more than
	// half of that; the last one (16 s) also holds longer ones.
	Octaves [QueueOctaves]uint64
}

// Add adds the counts of v.
func (q *Queue) Add(v *Queue) {
	q.Nanos += v.Nanos
	for i, n := range v.Octaves {
		q.Octaves[i] += n
	}
}

// Queued is the delays of the threads of one process since the previous reading.
type Queued struct {
	// PID is the process, 0 if it is unknown or not in our pid namespace.
	PID   int32
	Start uint64 // of the process, nanoseconds since boot
	Delay Queue
}

// QueuePass is one reading of a [QueueSource]. Its memory is reused.
type QueuePass struct {
	Queued []Queued
	// Unowned is the delays that the source had no room to charge to a process.
	Unowned Queue
	// Missed is how many switches were not reported: a delay is lost with each.
	Missed uint64
}

// Reset empties p and keeps its memory.
func (p *QueuePass) Reset() { p.Queued, p.Unowned, p.Missed = emptied(p.Queued), Queue{}, 0 }

// QueueSource counts the run queue delays of processes, including ended ones. Its contract is that of a
// [TrafficSource].
type QueueSource interface {
	Name() string
	ReadQueue(p *QueuePass) error
	Close() error
}

// emptied returns list without its elements. Its memory is kept, unless the last reading needed a small part of it only: thousands of
// processes that ended within seconds would otherwise take theirs for ever.
func emptied[T any](list []T) []T {
	if cap(list) > spareElements && len(list) < cap(list)/8 {
		return nil
	}
	return list[:0]
}

// spareElements is the number of elements up to which memory is always kept.
const spareElements = 256
