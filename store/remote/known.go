package remote

import (
	"sync"
	"time"
)

// newestTimes caches the time of the newest sample of each recently written series, by the hash of its labels. If an
// entry is lost, the series gets a second initial zero, which does no harm.
type newestTimes struct {
	mu    sync.Mutex
	at    map[uint64]int64
	start map[uint64]int64 // start times of counters, as far as they were reported
	sweep time.Time
}

// forgetAfter is the time that a series without samples is remembered.
const forgetAfter = 2 * time.Hour

func (k *newestTimes) record(hash uint64, t int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at == nil {
		k.at, k.sweep = map[uint64]int64{}, time.Now()
	}
	k.at[hash] = max(k.at[hash], t)
	if now := time.Now(); now.Sub(k.sweep) > forgetAfter/4 {
		k.sweep = now
		limit := now.Add(-forgetAfter).UnixMilli()
		for h, last := range k.at {
			if last < limit {
				delete(k.at, h)
				delete(k.start, h)
			}
		}
	}
}

func (k *newestTimes) last(hash uint64) (int64, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.at[hash]
	return t, ok
}

// began records the start time of a counter.
func (k *newestTimes) began(hash uint64, t int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.start == nil {
		k.start = map[uint64]int64{}
	}
	k.start[hash] = t
}

// started returns the start time of a counter.
func (k *newestTimes) started(hash uint64) (int64, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.start[hash]
	return t, ok
}

// isNewer reports whether the series is not in the cache, or all of it is older than t.
func (k *newestTimes) isNewer(hash uint64, t int64) bool {
	last, ok := k.last(hash)
	return !ok || last < t
}
