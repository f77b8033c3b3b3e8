package tsdb

import (
	"math"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/storage"
)

// keptMarks is the number of calls of [Store.Appended] whose marks are remembered.
const keptMarks = 64

// recentAppends stores the time of the oldest sample that was appended between two marks.
type recentAppends struct {
	mu     sync.Mutex
	oldest []oldestTimes // since each of the last marks
	before uint64        // number of the marks before these

	blocks map[ulid.ULID]uint64 // the first mark at which a block was there
}

// oldestTimes holds the time of the oldest sample, and of the oldest one that is not the initial zero of a series, in milliseconds.
type oldestTimes struct{ all, counts int64 }

// noSamples is the value of oldestTimes without any sample.
var noSamples = oldestTimes{math.MaxInt64, math.MaxInt64}

func (o *oldestTimes) merge(p oldestTimes) {
	o.all, o.counts = min(o.all, p.all), min(o.counts, p.counts)
}

// addSample records a sample, which may be the initial zero of a series.
func (o *oldestTimes) addSample(t int64, initialZero bool) {
	if o.all = min(o.all, t); !initialZero {
		o.counts = min(o.counts, t)
	}
}

// markReadable records that samples can be read now.
func (r *recentAppends) markReadable(o oldestTimes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.oldest); n > 0 {
		r.oldest[n-1].merge(o)
	}
}

// oldestSince returns the times of the oldest samples appended after a mark, and a new mark.
func (r *recentAppends) oldestSince(mark uint64) (since oldestTimes, now uint64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, known = noSamples, mark > r.before && mark <= r.before+uint64(len(r.oldest))
	if known {
		for _, o := range r.oldest[mark-r.before-1:] {
			since.merge(o)
		}
	}
	if len(r.oldest) == keptMarks {
		r.oldest = append(r.oldest[:0], r.oldest[1:]...)
		r.before++
	}
	r.oldest = append(r.oldest, noSamples)
	return since, r.before + uint64(len(r.oldest)), known
}

// recordBlocks records the blocks that existed when a mark was made.
func (r *recentAppends) recordBlocks(mark uint64, there []ulid.ULID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := make(map[ulid.ULID]uint64, len(there))
	for _, id := range there {
		if known[id] = mark; r.blocks[id] != 0 {
			known[id] = r.blocks[id]
		}
	}
	r.blocks = known
}

// hadBlock reports whether a block existed when a mark was made.
func (r *recentAppends) hadBlock(id ulid.ULID, mark uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, ok := r.blocks[id]
	return ok && first <= mark
}

// Appended returns a time since, before which no sample was appended after mark was returned. counts is the same
// without initial zeros of series. now is a new mark. known is false if mark is 0 or too old. An initial zero has the
// start time of its counter and does not change earlier counts. Imported samples are not included; see [Store.Dirty].
func (s *Store) Appended(mark uint64) (since, counts time.Time, now uint64, known bool) {
	var there []ulid.ULID // Read the blocks before the mark is made, because their samples were appended before.
	if db, err := s.acquire(); err == nil {
		for _, b := range db.Blocks() {
			there = append(there, b.Meta().ULID)
		}
		s.gate.release()
	}
	o, now, known := s.recent.oldestSince(mark)
	s.recent.recordBlocks(now, there)
	return time.UnixMilli(o.all), time.UnixMilli(o.counts), now, known
}

// Newer returns a view of the store without blocks that are irrelevant to the caller. The caller must have read
// everything up to the time read when [Store.Appended] returned mark. With many short process groups there is a new
// block of ended series every half minute, and every reader of recent data would otherwise scan all of them.
func (s *Store) Newer(mark uint64, read time.Time) storage.Queryable {
	return newer{s, &readBefore{mark: mark, until: read.UnixMilli()}}
}

// newer is a store without data that was read before.
type newer struct {
	s    *Store
	read *readBefore
}

// readBefore is the part that was already read: all samples up to a time that existed at a mark.
type readBefore struct {
	mark  uint64
	until int64
}

// Querier implements storage.Queryable.
func (n newer) Querier(mint, maxt int64) (storage.Querier, error) {
	return n.s.querierWithout(n.read, mint, maxt)
}
