package tsdb

import (
	"math"
	"sync"
	"time"
)

// keptMarks is for how many calls of [Store.Appended] it is remembered what came between.
const keptMarks = 64

// recent remembers how old the oldest sample is that was appended between marks.
type recent struct {
	mu     sync.Mutex
	oldest []int64 // milliseconds, since each of the last marks
	before uint64  // number of the marks before these
}

// note takes in that samples from time t on can be read now.
func (r *recent) note(t int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.oldest); n > 0 {
		r.oldest[n-1] = min(r.oldest[n-1], t)
	}
}

// since returns the oldest sample appended after a mark, and the mark of now.
func (r *recent) since(mark uint64) (oldest int64, now uint64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest, known = math.MaxInt64, mark > r.before && mark <= r.before+uint64(len(r.oldest))
	if known {
		for _, t := range r.oldest[mark-r.before-1:] {
			oldest = min(oldest, t)
		}
	}
	if len(r.oldest) == keptMarks {
		r.oldest = append(r.oldest[:0], r.oldest[1:]...)
		r.before++
	}
	r.oldest = append(r.oldest, math.MaxInt64)
	return oldest, r.before + uint64(len(r.oldest)), known
}

// Appended returns a time before which no sample was appended since the call that returned the
// mark, and a new mark; false where that is not known any more, as for the mark 0. What
// was imported does not count: it is in [Store.Dirty].
func (s *Store) Appended(mark uint64) (since time.Time, now uint64, known bool) {
	oldest, now, known := s.recent.since(mark)
	return time.UnixMilli(oldest), now, known
}
