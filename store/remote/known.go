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

// seriesMemory is the time for which a series without new samples stays in the cache.
const seriesMemory = 2 * time.Hour

func (k *newestTimes) recordSample(hash uint64, t int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at == nil {
		k.at, k.sweep = map[uint64]int64{}, time.Now()
	}
	k.at[hash] = max(k.at[hash], t)
	if now := time.Now(); now.Sub(k.sweep) > seriesMemory/4 {
		k.sweep = now
		limit := now.Add(-seriesMemory).UnixMilli()
		for h, last := range k.at {
			if last < limit {
				delete(k.at, h)
				delete(k.start, h)
			}
		}
	}
}

func (k *newestTimes) newestTime(hash uint64) (int64, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.at[hash]
	return t, ok
}

// recordStart records the start time of a counter.
func (k *newestTimes) recordStart(hash uint64, t int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.start == nil {
		k.start = map[uint64]int64{}
	}
	k.start[hash] = t
}

// startTime returns the start time of a counter.
func (k *newestTimes) startTime(hash uint64) (int64, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.start[hash]
	return t, ok
}

// isNewer reports whether the series is not in the cache, or all of it is older than t.
func (k *newestTimes) isNewer(hash uint64, t int64) bool {
	last, ok := k.newestTime(hash)
	return !ok || last < t
}
