package ingest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/transport/limits"
)

// The cache finds a series by the hash of its labels as sent. On a hit, labels are not built, checked, sorted or looked up, which would
// be most of the cost of a sample. A miss costs one additional look-up. A sender sends its series in the same order each time, so each
// entry points to the next one. This avoids a look-up in a table that is larger than the processor's cache.
const (
	cacheShards = 64
	// maxSeriesPerShard is the maximum number of series per shard, which is eight million in total. Each takes about
	// 140 bytes, without its labels, which are shared with the store. The store needs twenty times as much.
	maxSeriesPerShard = 1 << 17
	// cacheTime is the time after which a series without samples is evicted. The eviction may take place after twice
	// that time. A series that is marked as ended is evicted at once, because its labels would otherwise stay in memory
	// after the store has written the series to disk.
	cacheTime = 15 * time.Minute
)

// knownSeries is the cached state of a series.
type knownSeries struct {
	ls      labels.Labels
	ref     storage.SeriesRef // of the store, in this generation
	store   uint64            // generation of the store
	doc     hash128           // of the description that was stored
	start   int64             // the latest start time that got its zero
	checked *limits.Config    // the limits that the labels were checked against; nil for none
}

// cachedSeries is one entry of the cache. knownSeries is immutable: a change replaces the entry.
type cachedSeries struct {
	key hash128
	knownSeries
	round atomic.Uint32
	next  atomic.Pointer[cachedSeries] // its successor in the last request
	gone  atomic.Bool                  // it is no longer in the table
}

// seriesCache caches the series that a handler has accepted. It is safe for concurrent use.
type seriesCache struct {
	shards [cacheShards]struct {
		mu    sync.Mutex
		byKey map[hash128]*cachedSeries
		round uint32
	}
}

// get returns a series, or nil if it is not cached. previous is the series before it in the request, or nil for the first.
func (k *seriesCache) get(key hash128, round uint32, previous *cachedSeries) *cachedSeries {
	var got *cachedSeries
	if previous != nil {
		got = previous.next.Load()
	}
	if got == nil || got.key != key || got.gone.Load() {
		s := &k.shards[key[0]%cacheShards]
		s.mu.Lock()
		got = s.byKey[key]
		s.mu.Unlock()
		if got == nil {
			return nil
		}
		if previous != nil {
			previous.next.Store(got)
		}
	}
	if got.round.Load() != round {
		got.round.Store(round)
	}
	return got
}

func (k *seriesCache) add(key hash128, v knownSeries, round uint32) {
	fresh := &cachedSeries{key: key, knownSeries: v}
	fresh.round.Store(round)
	s := &k.shards[key[0]%cacheShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.round < round { // not for a writer that began in the round before
		s.round = round
		for old, of := range s.byKey {
			if round-of.round.Load() > 1 {
				of.gone.Store(true)
				delete(s.byKey, old)
			}
		}
	}
	if s.byKey == nil || len(s.byKey) >= maxSeriesPerShard {
		for _, of := range s.byKey {
			of.gone.Store(true)
		}
		s.byKey = make(map[hash128]*cachedSeries)
	}
	if old := s.byKey[key]; old != nil {
		fresh.next.Store(old.next.Load())
		old.gone.Store(true)
	}
	s.byKey[key] = fresh
}

// drop evicts a series.
func (k *seriesCache) drop(key hash128) {
	s := &k.shards[key[0]%cacheShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byKey[key]; old != nil {
		old.gone.Store(true)
		delete(s.byKey, key)
	}
}

// roundOf returns the number of the period of cacheTime that contains t.
func roundOf(t time.Time) uint32 { return uint32(t.Unix() / int64(cacheTime/time.Second)) }
