package ingest

import (
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// The cache finds a series by the hash of its labels as they were sent: on a hit no labels are
// made, checked, sorted or looked up, which is most of what a sample costs. A miss costs that
// once more and nothing else.
const (
	cacheShards = 64
	// maxSeriesPerShard bounds a shard: two million series in all, each of about 100 bytes beside
	// the labels, which are the store's own.
	maxSeriesPerShard = 1 << 15
	// cacheFor is after how long, to twice as long, a series without samples is evicted.
	cacheFor = 15 * time.Minute
)

// cachedSeries is one series of the cache.
type cachedSeries struct {
	ls    labels.Labels
	ref   storage.SeriesRef // of the store, in this generation
	store uint64            // generation of the store
	doc   sum               // of the description that was passed on
	start int64             // the latest start time that got its zero
	round uint32
}

// seriesCache remembers the series that a handler took. It is safe for concurrent use.
type seriesCache struct {
	shards [cacheShards]struct {
		mu    sync.Mutex
		byKey map[sum]cachedSeries
		round uint32
	}
}

func (k *seriesCache) get(key sum, round uint32) (cachedSeries, bool) {
	s := &k.shards[key[0]%cacheShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	got, ok := s.byKey[key]
	if ok && got.round != round {
		got.round = round
		s.byKey[key] = got
	}
	return got, ok
}

func (k *seriesCache) put(key sum, v cachedSeries, round uint32) {
	v.round = round
	s := &k.shards[key[0]%cacheShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.round < round { // not by a writer that began in the round before
		s.round = round
		for old, of := range s.byKey {
			if round-of.round > 1 {
				delete(s.byKey, old)
			}
		}
	}
	if s.byKey == nil || len(s.byKey) >= maxSeriesPerShard {
		s.byKey = make(map[sum]cachedSeries)
	}
	s.byKey[key] = v
}

// roundOf counts stretches of cacheFor.
func roundOf(t time.Time) uint32 { return uint32(t.Unix() / int64(cacheFor/time.Second)) }
