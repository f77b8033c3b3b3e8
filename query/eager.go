package query

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series"
)

const (
	// eagerRange is the longest range of an instant query that reads the samples of a series together with its labels.
	eagerRange = 15 * time.Minute
	// eagerSamples is the number of samples, 16 bytes each, that eager selections keep in memory for one query. Further
	// series are read only when the engine needs them.
	eagerSamples = smallQuery
	// eagerBlock is the number of samples, and of series, that are allocated together.
	eagerBlock = 1024
)

// eagerSelect returns a series set that reads the samples of each series as soon as it is iterated. The engine first collects
// all series and then reads their samples. By then, a hundred thousand series have displaced each other from the
// processor's cache. eager applies only to instant queries over a short range, because others would keep too many
// samples in memory.
func eagerSelect(ctx context.Context, q storage.Querier, sorted bool, h *storage.SelectHints, ms []*labels.Matcher,
	m *meter) storage.SeriesSet {
	if h == nil || h.Step > 0 || h.End-h.Start > eagerRange.Milliseconds() {
		return q.Select(ctx, sorted, h, ms...)
	}
	ctx, stream := series.WithStream(ctx)
	return &eagerSet{SeriesSet: q.Select(ctx, sorted, h, ms...), stream: stream, meter: m, from: h.Start, to: h.End}
}

type eagerSet struct {
	storage.SeriesSet
	stream   *series.Stream
	meter    *meter
	from, to int64
	it       chunkenc.Iterator
	block    []point
	series   []pointSeries
	at       storage.Series
}

// point is one float sample.
type point struct {
	t int64
	v float64
}

// Next implements storage.SeriesSet.
func (e *eagerSet) Next() bool {
	if !e.SeriesSet.Next() {
		return false
	}
	e.at = e.SeriesSet.At()
	if !e.meter.admitSamples(0) {
		return true
	}
	e.it = e.at.Iterator(e.it)
	begin := len(e.block)
	for vt := e.it.Next(); vt != chunkenc.ValNone; vt = e.it.Next() {
		if vt != chunkenc.ValFloat || e.it.AtST() != 0 {
			e.block = e.block[:begin]
			return true // the engine reads it by itself
		}
		t, v := e.it.At()
		if t < e.from {
			continue
		}
		if t > e.to {
			break
		}
		if len(e.block) == cap(e.block) {
			e.block = append(make([]point, 0, max(min(2*cap(e.block)+8, eagerBlock), 2*(len(e.block)-begin))), e.block[begin:]...)
			begin = 0
		}
		e.block = append(e.block, point{t, v})
	}
	if e.it.Err() != nil {
		e.block = e.block[:begin]
		return true // the engine meets the same error
	}
	e.meter.admitSamples(len(e.block) - begin)
	if len(e.series) == cap(e.series) {
		e.series = make([]pointSeries, 0, min(2*cap(e.series)+8, eagerBlock))
	}
	l := e.at.Labels()
	e.stream.Done(l)
	e.series = append(e.series, pointSeries{l, e.block[begin:len(e.block):len(e.block)]})
	e.at = &e.series[len(e.series)-1]
	return true
}

// At implements storage.SeriesSet.
func (e *eagerSet) At() storage.Series { return e.at }

// pointSeries is a series in memory.
type pointSeries struct {
	labels labels.Labels
	points []point
}

// Labels implements storage.Series.
func (s *pointSeries) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series.
func (s *pointSeries) Iterator(again chunkenc.Iterator) chunkenc.Iterator {
	it, ok := again.(*pointIterator)
	if !ok {
		it = &pointIterator{}
	}
	it.points, it.next = s.points, 0
	return it
}

// milliseconds is int64 by another name, so that vet does not take Seek for the method of io.Seeker.
type milliseconds = int64

// pointIterator iterates over floats in memory.
type pointIterator struct {
	points []point
	next   int // the current one is before
}

// Next implements chunkenc.Iterator.
func (i *pointIterator) Next() chunkenc.ValueType {
	if i.next >= len(i.points) {
		i.next = len(i.points) + 1
		return chunkenc.ValNone
	}
	i.next++
	return chunkenc.ValFloat
}

// Seek implements chunkenc.Iterator.
func (i *pointIterator) Seek(t milliseconds) chunkenc.ValueType {
	i.next = max(i.next, 1)
	for i.next <= len(i.points) && i.points[i.next-1].t < t {
		i.next++
	}
	if i.next > len(i.points) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// At implements chunkenc.Iterator.
func (i *pointIterator) At() (t int64, v float64) { p := &i.points[i.next-1]; return p.t, p.v }

// AtT implements chunkenc.Iterator.
func (i *pointIterator) AtT() int64 { return i.points[i.next-1].t }

// AtST implements chunkenc.Iterator.
func (*pointIterator) AtST() int64 { return 0 }

// AtHistogram implements chunkenc.Iterator. There are no histograms.
func (*pointIterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) { return 0, nil }

// AtFloatHistogram implements chunkenc.Iterator. There are no histograms.
func (*pointIterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return 0, nil
}

// Err implements chunkenc.Iterator.
func (*pointIterator) Err() error { return nil }
