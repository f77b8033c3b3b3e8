package remote

import (
	"time"

	"github.com/prometheus/prometheus/prompb"

	"reckon/internal/dirty"
	"reckon/store"
)

// Dirty implements [store.Series]. It does not include samples that other programs write to the same server.
func (s *Store) Dirty() (store.DirtyHours, error) { return s.dirty.Snapshot() }

// Clean implements [store.Series].
func (s *Store) Clean(d store.DirtyHours) error { return s.dirty.Clean(d) }

// noteLate records the hours of late samples before they are sent. The caller must call end after sending, unless
// noteLate fails.
func (s *Store) noteLate(list []prompb.TimeSeries) (end func(), err error) {
	newest := max(s.newest.Load(), time.Now().UnixMilli())
	for i := range list {
		for _, sm := range list[i].Samples {
			newest = max(newest, sm.Timestamp)
		}
		for _, h := range list[i].Histograms {
			newest = max(newest, h.Timestamp)
		}
	}
	for {
		old := s.newest.Load()
		if newest <= old || s.newest.CompareAndSwap(old, newest) {
			break
		}
	}
	before := newest - store.LateAfter.Milliseconds()
	var l dirty.Late
	for i := range list {
		for _, sm := range list[i].Samples {
			if sm.Timestamp < before {
				l.Add(sm.Timestamp)
			}
		}
		for _, h := range list[i].Histograms {
			if h.Timestamp < before {
				l.Add(h.Timestamp)
			}
		}
	}
	return s.dirty.Begin(&l)
}
