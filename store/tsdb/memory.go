package tsdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/internal/series"
)

// The database allocates four objects for each series read from memory, which takes a third of the time of a query over a hundred
// thousand series. If the reader reports when it is done with a series ([series.Stream]), three of them are reused.

// memoryQuerier reads series in memory. Selections without a stream are left to the database's querier.
type memoryQuerier struct {
	storage.Querier
	*openedHead
}

func newMemoryQuerier(head *promtsdb.RangeHead, mint, maxt int64) (storage.Querier, error) {
	opened := &openedHead{RangeHead: head}
	q, err := promtsdb.NewBlockQuerier(opened, mint, maxt)
	if err != nil {
		return nil, err
	}
	return &memoryQuerier{q, opened}, nil
}

// openedHead is the part of the store in memory. It keeps the readers that its querier opened last, so that the querier can close them.
type openedHead struct {
	*promtsdb.RangeHead
	index      promtsdb.IndexReader
	chunks     promtsdb.ChunkReader
	tombstones tombstones.Reader
}

// Index implements promtsdb.BlockReader.
func (o *openedHead) Index() (promtsdb.IndexReader, error) {
	var err error
	o.index, err = o.RangeHead.Index()
	return o.index, err
}

// Chunks implements promtsdb.BlockReader.
func (o *openedHead) Chunks() (promtsdb.ChunkReader, error) {
	var err error
	o.chunks, err = o.RangeHead.Chunks()
	return o.chunks, err
}

// Tombstones implements promtsdb.BlockReader.
func (o *openedHead) Tombstones() (tombstones.Reader, error) {
	var err error
	o.tombstones, err = o.RangeHead.Tombstones()
	return o.tombstones, err
}

// Select implements storage.Querier.
func (q *memoryQuerier) Select(ctx context.Context, sorted bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	stream := series.StreamOf(ctx)
	if stream == nil || h == nil || !h.DisableTrimming || h.ShardCount > 0 || h.Func == "series" || h.Step > 0 {
		return q.Querier.Select(ctx, sorted, h, ms...)
	}
	p, err := promtsdb.PostingsForMatchers(ctx, q.index, ms...)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	if sorted {
		p = q.index.SortedPostings(p)
	}
	return &memorySet{q: q.openedHead, postings: p, stream: stream, from: h.Start, to: h.End}
}

// memorySet is a set of series in memory over a time range, with both ends included.
type memorySet struct {
	q        *openedHead
	postings index.Postings
	stream   *series.Stream
	from, to int64
	labels   labels.ScratchBuilder
	at       *memorySeries
	err      error
}

// Next implements storage.SeriesSet.
func (m *memorySet) Next() bool {
	if m.at == nil || !m.at.free {
		m.at = &memorySeries{chunks: m.q.chunks}
	}
	s := m.at
	s.free = false
	for m.postings.Next() {
		ref := m.postings.At()
		if err := m.q.index.Series(ref, &m.labels, &s.metas); errors.Is(err, storage.ErrNotFound) {
			continue // it ended meanwhile
		} else if err != nil {
			m.err = fmt.Errorf("get series %d: %w", ref, err)
			return false
		}
		if len(s.metas) == 0 {
			continue
		}
		var err error
		if s.deleted, err = m.q.tombstones.Get(ref); err != nil {
			m.err = fmt.Errorf("get what was deleted of series %d: %w", ref, err)
			return false
		}
		within := s.metas[:0]
		for _, c := range s.metas {
			if c.OverlapsClosedInterval(m.from, m.to) && !(tombstones.Interval{Mint: c.MinTime, Maxt: c.MaxTime}).IsSubrange(s.deleted) {
				within = append(within, c)
			}
		}
		if s.metas = within; len(within) == 0 {
			continue
		}
		s.labels = m.labels.Labels()
		m.stream.Give(s.labels, &s.free)
		return true
	}
	return false
}

// At implements storage.SeriesSet.
func (m *memorySet) At() storage.Series { return m.at }

// Err implements storage.SeriesSet.
func (m *memorySet) Err() error {
	if m.err != nil {
		return m.err
	}
	return m.postings.Err()
}

// Warnings implements storage.SeriesSet.
func (*memorySet) Warnings() annotations.Annotations { return nil }

// memorySeries is one series in memory. It is reused when its reader is done with it.
type memorySeries struct {
	chunks  promtsdb.ChunkReader
	labels  labels.Labels
	metas   []chunks.Meta // by time
	deleted tombstones.Intervals
	free    bool
}

// Labels implements storage.Series.
func (s *memorySeries) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series.
func (s *memorySeries) Iterator(again chunkenc.Iterator) chunkenc.Iterator {
	it, ok := again.(*memoryIterator)
	if !ok {
		it = &memoryIterator{}
	}
	it.series, it.next, it.current, it.err = s, 0, nil, nil
	return it
}

// memoryIterator reads the chunks of a series one after the other.
type memoryIterator struct {
	series  *memorySeries
	next    int               // index of the next chunk
	current chunkenc.Iterator // of the chunk before; nil before the first
	last    chunkenc.Iterator // of the last chunk of any series, to be used again
	rest    promtsdb.DeletedIterator
	err     error
}

// openNextChunk goes to the next chunk.
func (i *memoryIterator) openNextChunk() bool {
	if i.err != nil || i.next >= len(i.series.metas) {
		return false
	}
	meta := i.series.metas[i.next]
	i.next++
	c, several, err := i.series.chunks.ChunkOrIterable(meta)
	switch {
	case err != nil:
		i.err = fmt.Errorf("cannot read chunk %d in memory: %w", meta.Ref, err)
		return false
	case c != nil:
		i.last = c.Iterator(i.last)
	default:
		i.last = several.Iterator(i.last)
	}
	i.current = i.last
	if len(i.series.deleted) == 0 {
		return true
	}
	i.rest.Iter, i.rest.Intervals = i.last, i.rest.Intervals[:0]
	for _, d := range i.series.deleted {
		if meta.OverlapsClosedInterval(d.Mint, d.Maxt) {
			i.rest.Intervals = append(i.rest.Intervals, d)
		}
	}
	if len(i.rest.Intervals) > 0 {
		i.current = &i.rest
	}
	return true
}

// Next implements chunkenc.Iterator.
func (i *memoryIterator) Next() chunkenc.ValueType {
	if i.current != nil {
		if vt := i.current.Next(); vt != chunkenc.ValNone {
			return vt
		}
		if i.keepError() {
			return chunkenc.ValNone
		}
	}
	for i.openNextChunk() {
		if vt := i.current.Next(); vt != chunkenc.ValNone {
			return vt
		}
		if i.keepError() {
			return chunkenc.ValNone
		}
	}
	return chunkenc.ValNone
}

// keepError keeps the error of a chunk, after which nothing is read, because later data would hide the gap.
func (i *memoryIterator) keepError() bool {
	if i.err == nil {
		i.err = i.current.Err()
	}
	return i.err != nil
}

// milliseconds is int64 by another name, so that vet does not take Seek for the method of io.Seeker.
type milliseconds = int64

// Seek implements chunkenc.Iterator.
func (i *memoryIterator) Seek(t milliseconds) chunkenc.ValueType {
	if i.current != nil {
		if vt := i.current.Seek(t); vt != chunkenc.ValNone {
			return vt
		}
	}
	for i.Next() != chunkenc.ValNone {
		if vt := i.current.Seek(t); vt != chunkenc.ValNone {
			return vt
		}
	}
	return chunkenc.ValNone
}

// At implements chunkenc.Iterator.
func (i *memoryIterator) At() (t int64, v float64) { return i.current.At() }

// AtT implements chunkenc.Iterator.
func (i *memoryIterator) AtT() int64 { return i.current.AtT() }

// AtST implements chunkenc.Iterator.
func (i *memoryIterator) AtST() int64 { return i.current.AtST() }

// AtHistogram implements chunkenc.Iterator.
func (i *memoryIterator) AtHistogram(h *histogram.Histogram) (int64, *histogram.Histogram) {
	return i.current.AtHistogram(h)
}

// AtFloatHistogram implements chunkenc.Iterator.
func (i *memoryIterator) AtFloatHistogram(h *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return i.current.AtFloatHistogram(h)
}

// Err implements chunkenc.Iterator.
func (i *memoryIterator) Err() error {
	if i.err == nil && i.current != nil {
		return i.current.Err()
	}
	return i.err
}
