package tsdb

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/encoding"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/internal/durable"
	"reckon/internal/series"
	"reckon/store"
)

// gapsFile records samples lost to damage for as long as they would have been kept.
const gapsFile = "missing.json"

type gaps struct {
	mu   sync.Mutex
	list []store.Gap
}

func (g *gaps) load(dir string) error {
	err := durable.ReadJSON(filepath.Join(dir, gapsFile), &g.list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the list of samples lost before cannot be read: %s: %w", filepath.Join(dir, gapsFile), err)
	}
	return nil
}

// add records a gap. It joins adjacent gaps of one file, because a file that is noticed twice is damaged once.
func (g *gaps) add(dir string, gap store.Gap) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = slices.DeleteFunc(g.list, func(o store.Gap) bool {
		meet := o.File == gap.File && !o.From.After(gap.To) && !gap.From.After(o.To)
		if meet {
			if o.From.Before(gap.From) {
				gap.From = o.From
			}
			if o.To.After(gap.To) {
				gap.To = o.To
			}
		}
		return meet
	})
	g.list = append(g.list, gap)
	return g.save(dir)
}

// dropRestored drops the gaps that end before a time, and gaps of files that exist again.
func (g *gaps) dropRestored(dir string, before time.Time, isRestored func(file string) bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.list)
	g.list = slices.DeleteFunc(g.list, func(o store.Gap) bool { return o.To.Before(before) || isRestored(o.File) })
	if len(g.list) == n {
		return nil
	}
	return g.save(dir)
}

func (g *gaps) save(dir string) error {
	return durable.WriteJSON(filepath.Join(dir, gapsFile), g.list, 0o640)
}

// Gaps returns the ranges between from and to in which damaged files lost samples, the oldest first.
func (s *Store) Gaps(from, to time.Time) (out []store.Gap) {
	s.gaps.mu.Lock()
	defer s.gaps.mu.Unlock()
	for _, g := range s.gaps.list {
		if g.From.Before(to) && g.To.After(from) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b store.Gap) int { return a.From.Compare(b.From) })
	return out
}

// gapWarnings returns the gaps from mint to maxt, both inclusive, as warnings of PromQL.
func (s *Store) gapWarnings(mint, maxt int64) annotations.Annotations {
	var w annotations.Annotations
	for _, g := range s.Gaps(time.UnixMilli(mint), time.UnixMilli(maxt).Add(time.Millisecond)) {
		w.Add(fmt.Errorf("%w: %s", annotations.PromQLWarning, g))
	}
	return w
}

// incompleteSet is a set of series over a time range that may have lost samples.
type incompleteSet struct {
	storage.SeriesSet
	warnings annotations.Annotations
	suspect  func(error)
	unsound  *atomic.Uint64 // counts histograms of the set that are shown as the end of their series
}

// At returns a series with only the histograms that [series.CheckSound] allows, because older versions stored others.
func (s incompleteSet) At() storage.Series { return soundSeries{s.SeriesSet.At(), s.unsound} }

type soundSeries struct {
	storage.Series
	unsound *atomic.Uint64
}

func (s soundSeries) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	g, ok := it.(*soundIterator)
	if !ok {
		g = &soundIterator{}
	}
	g.Iterator, g.unsound = s.Series.Iterator(g.Iterator), s.unsound
	return g
}

type soundIterator struct {
	chunkenc.Iterator
	unsound *atomic.Uint64
}

func (i *soundIterator) AtHistogram(spare *histogram.Histogram) (int64, *histogram.Histogram) {
	t, h := i.Iterator.AtHistogram(spare)
	if series.CheckSound(h, nil) == nil {
		return t, h
	}
	i.unsound.Add(1)
	return t, &histogram.Histogram{Sum: math.Float64frombits(value.StaleNaN)}
}

func (i *soundIterator) AtFloatHistogram(spare *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	t, h := i.Iterator.AtFloatHistogram(spare)
	if series.CheckSound(nil, h) == nil {
		return t, h
	}
	i.unsound.Add(1)
	return t, &histogram.FloatHistogram{Sum: math.Float64frombits(value.StaleNaN)}
}

func (s incompleteSet) Warnings() annotations.Annotations {
	w := s.SeriesSet.Warnings()
	w.Merge(s.warnings)
	return w
}

func (s incompleteSet) Err() error {
	err := s.SeriesSet.Err()
	s.suspect(err)
	return err
}

// recheckBlocks makes the janitor read all blocks again after an index could not be read.
func (s *Store) recheckBlocks(err error) {
	if !errors.Is(err, encoding.ErrInvalidChecksum) && !errors.Is(err, encoding.ErrInvalidSize) {
		return
	}
	select {
	case s.suspected <- struct{}{}:
	default:
	}
}

type incompleteChunks struct {
	storage.ChunkSeriesSet
	warnings annotations.Annotations
}

func (s incompleteChunks) Warnings() annotations.Annotations {
	w := s.ChunkSeriesSet.Warnings()
	w.Merge(s.warnings)
	return w
}
