package sensor

// QueueOctaves is how many buckets the delays of a [Queue] have.
const QueueOctaves = 25

// Queue is how long threads waited for a processor, counted each time that one got it.
type Queue struct {
	Nanos uint64 // of all threads, added up
	// Octaves counts delays: bucket i holds those of up to 2^(i-20) seconds (about 1 µs for the first) and more than half
	// of that, the last one (16 s) those above it, too.
	Octaves [QueueOctaves]uint64
}

// Add adds what v counted.
func (q *Queue) Add(v *Queue) {
	q.Nanos += v.Nanos
	for i, n := range v.Octaves {
		q.Octaves[i] += n
	}
}

// Queued is the delays of the threads of one process since the reading before.
type Queued struct {
	// PID is the process, 0 where it is not known or not in our pid namespace.
	PID   int32
	Start uint64 // of the process, nanoseconds since boot
	Delay Queue
}

// QueuePass is one reading of a [QueueSource]. Its memory is reused.
type QueuePass struct {
	Queued []Queued
	// Unowned is what the source had no room to charge to a process.
	Unowned Queue
}

// Reset empties p and keeps its memory.
func (p *QueuePass) Reset() { p.Queued, p.Unowned = p.Queued[:0], Queue{} }

// QueueSource counts the delays of processes in the run queue, those that ended included. It is used as a
// [TrafficSource] is.
type QueueSource interface {
	Name() string
	ReadQueue(p *QueuePass) error
	Close() error
}
