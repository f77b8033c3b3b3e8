package ingest

import (
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// Series that came before are known by the sum of their labels as they were sent: then
// no labels are made, checked, sorted or looked up, which is most of what a sample costs.
// What is forgotten costs that once more and nothing else.
const (
	knownShards = 64
	// knownMost bounds what is remembered in a shard: two million series in all, each of
	// about 100 bytes beside the labels, which are the store's own.
	knownMost = 1 << 15
	// knownFor is after how long, to twice as long, a series that does not come is forgotten.
	knownFor = 15 * time.Minute
)

// knownSeries is what is kept of one.
type knownSeries struct {
	ls    labels.Labels
	ref   storage.SeriesRef // of the store, in this generation
	store uint64            // generation of the store
	doc   sum               // of the description that was passed on
	start int64             // the last beginning that was dealt with
	round uint32
}

// known is the memory of a handler. It is safe for concurrent use.
type known struct {
	shards [knownShards]struct {
		mu    sync.Mutex
		byKey map[sum]knownSeries
		round uint32
	}
}

func (k *known) get(key sum, round uint32) (knownSeries, bool) {
	s := &k.shards[key[0]%knownShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	got, ok := s.byKey[key]
	if ok && got.round != round {
		got.round = round
		s.byKey[key] = got
	}
	return got, ok
}

func (k *known) put(key sum, v knownSeries, round uint32) {
	v.round = round
	s := &k.shards[key[0]%knownShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.round < round { // a writer that began in the round before is none of a new one
		s.round = round
		for old, of := range s.byKey {
			if round-of.round > 1 {
				delete(s.byKey, old)
			}
		}
	}
	if s.byKey == nil || len(s.byKey) >= knownMost {
		s.byKey = make(map[sum]knownSeries)
	}
	s.byKey[key] = v
}

// roundOf counts stretches of knownFor.
func roundOf(t time.Time) uint32 { return uint32(t.Unix() / int64(knownFor/time.Second)) }
