package tsdb

import (
	"hash/maphash"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/metric"
)

// tenant caches the series of one set of external labels, which is one node. It holds the database reference and the full label set of
// each series, so that labels are built only once per series. An evicted entry is created again when it is needed.
type tenant struct {
	mu       sync.Mutex
	external map[string]string
	refs     map[*metric.Series]*seriesRef
	round    uint32 // number of the batch
	seen     time.Time
}

type seriesRef struct {
	ref    storage.SeriesRef
	labels labels.Labels
	round  uint32 // last batch that held it
}

// sweepEvery is the number of batches after which series not seen in as many are forgotten; a batch of an agent is one export.
const sweepEvery = 32

var hashSeed = maphash.MakeSeed()

// tenant returns the cache for a set of external labels.
func (s *Store) tenant(external map[string]string) *tenant {
	var key uint64
	for k, v := range external { // in any order: the sum does not mind
		key += maphash.String(hashSeed, k)*31 + maphash.String(hashSeed, v)
	}
	s.tenantsMu.Lock()
	defer s.tenantsMu.Unlock()
	now := s.opts.Clock()
	for _, t := range s.tenants[key] {
		if maps.Equal(t.external, external) {
			t.seen = now
			return t
		}
	}
	t := &tenant{external: maps.Clone(external), refs: map[*metric.Series]*seriesRef{}, seen: now}
	s.tenants[key] = append(s.tenants[key], t)
	return t
}

// dropIdleTenants forgets nodes that sent nothing for the given time.
func (s *Store) dropIdleTenants(idle time.Duration) {
	s.tenantsMu.Lock()
	defer s.tenantsMu.Unlock()
	now := s.opts.Clock()
	for key, list := range s.tenants {
		kept := list[:0]
		for _, t := range list {
			if now.Sub(t.seen) < idle {
				kept = append(kept, t)
			}
		}
		clear(list[len(kept):])
		if len(kept) == 0 {
			delete(s.tenants, key)
		} else {
			s.tenants[key] = kept
		}
	}
}

// add adds the entry of a series with its full label set. Labels of the series override external labels of the same
// name. Invalid UTF-8 is replaced.
func (t *tenant) add(s *metric.Series) *seriesRef {
	b := labels.NewBuilder(labels.EmptyLabels())
	for k, v := range t.external {
		b.Set(k, strings.ToValidUTF8(v, "\ufffd"))
	}
	for i, name := range s.Desc.Labels {
		if s.Values[i] != "" {
			b.Set(name, strings.ToValidUTF8(s.Values[i], "\ufffd"))
		}
	}
	b.Set(model.MetricNameLabel, s.Desc.Name)
	r := &seriesRef{labels: b.Labels()}
	t.refs[s] = r
	return r
}

// forgetEnded drops series that ended with this batch and, now and then, those that were not seen for long.
func (t *tenant) forgetEnded(w *batchWriter) {
	for _, s := range w.ended {
		delete(t.refs, s)
	}
	if t.round%sweepEvery != 0 {
		return
	}
	for s, r := range t.refs {
		if t.round-r.round >= sweepEvery {
			delete(t.refs, s)
		}
	}
}
