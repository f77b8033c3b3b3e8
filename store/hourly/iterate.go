package hourly

import (
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// milliseconds is int64 by another name, so that vet does not take Seek for the method of io.Seeker.
type milliseconds = int64

// cursor points at the current sample of one of several iterators. Seek goes forward step by step.
type cursor struct {
	next func(*cursor) chunkenc.ValueType
	typ  chunkenc.ValueType
	in   chunkenc.Iterator
	anew bool // the sample before came from another iterator: its reset hint is invalid
	err  error
}

var _ chunkenc.Iterator = (*cursor)(nil)

func (c *cursor) Next() chunkenc.ValueType {
	c.typ = c.next(c)
	return c.typ
}

func (c *cursor) Seek(t milliseconds) chunkenc.ValueType {
	if c.typ != chunkenc.ValNone && c.in.AtT() >= t {
		return c.typ
	}
	for c.Next() != chunkenc.ValNone {
		if c.in.AtT() >= t {
			break
		}
	}
	return c.typ
}

func (c *cursor) At() (t int64, v float64) { return c.in.At() }
func (c *cursor) AtT() int64               { return c.in.AtT() }
func (c *cursor) AtST() int64              { return 0 }
func (c *cursor) Err() error               { return c.err }

func (c *cursor) AtHistogram(h *histogram.Histogram) (t int64, _ *histogram.Histogram) {
	t, h = c.in.AtHistogram(h)
	if c.anew && h.CounterResetHint != histogram.GaugeType {
		h.CounterResetHint = histogram.UnknownCounterReset
	}
	return t, h
}

func (c *cursor) AtFloatHistogram(h *histogram.FloatHistogram) (t int64, _ *histogram.FloatHistogram) {
	t, h = c.in.AtFloatHistogram(h)
	if c.anew && h.CounterResetHint != histogram.GaugeType {
		h.CounterResetHint = histogram.UnknownCounterReset
	}
	return t, h
}

// memorySeries returns samples in memory as a series.
func memorySeries(ls labels.Labels, samples []sample) storage.Series {
	open := func(chunkenc.Iterator) chunkenc.Iterator { return &sampleIterator{all: samples} }
	return &storage.SeriesEntry{Lset: ls, SampleIteratorFn: open}
}

// sampleIterator iterates over samples in memory. It returns histograms without reset hints, because these would refer
// to samples that were removed.
type sampleIterator struct {
	all  []sample
	i    int // index after the current sample
	room []sample
}

var _ chunkenc.Iterator = (*sampleIterator)(nil)

func (l *sampleIterator) Next() chunkenc.ValueType {
	if l.i >= len(l.all) {
		l.i = len(l.all) + 1
		return chunkenc.ValNone
	}
	l.i++
	return l.all[l.i-1].typ
}

func (l *sampleIterator) Seek(t milliseconds) chunkenc.ValueType {
	from := max(l.i-1, 0)
	if from >= len(l.all) {
		return chunkenc.ValNone
	}
	n := sort.Search(len(l.all)-from, func(k int) bool { return l.all[from+k].t >= t })
	l.i = from + n
	return l.Next()
}

func (l *sampleIterator) At() (t int64, v float64) { return l.all[l.i-1].t, l.all[l.i-1].v }
func (l *sampleIterator) AtT() int64               { return l.all[l.i-1].t }
func (l *sampleIterator) AtST() int64              { return 0 }
func (l *sampleIterator) Err() error               { return nil }

func (l *sampleIterator) AtHistogram(h *histogram.Histogram) (t int64, _ *histogram.Histogram) {
	return l.all[l.i-1].t, l.all[l.i-1].histogram(h)
}

func (l *sampleIterator) AtFloatHistogram(h *histogram.FloatHistogram) (t int64, _ *histogram.FloatHistogram) {
	return l.all[l.i-1].t, l.all[l.i-1].floatHistogram(h)
}

func (s *sample) histogram(h *histogram.Histogram) *histogram.Histogram {
	if h == nil {
		h = &histogram.Histogram{}
	}
	s.h.CopyTo(h)
	if h.CounterResetHint != histogram.GaugeType {
		h.CounterResetHint = histogram.UnknownCounterReset
	}
	return h
}

func (s *sample) floatHistogram(h *histogram.FloatHistogram) *histogram.FloatHistogram {
	if s.h != nil {
		h = s.h.ToFloat(h)
	} else {
		if h == nil {
			h = &histogram.FloatHistogram{}
		}
		s.fh.CopyTo(h)
	}
	if h.CounterResetHint != histogram.GaugeType {
		h.CounterResetHint = histogram.UnknownCounterReset
	}
	return h
}

// fillHours adds samples of other to the hours without samples in first.
func fillHours(first, other storage.Series) storage.Series {
	return &storage.SeriesEntry{Lset: first.Labels(), SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
		a, b := first.Iterator(nil), other.Iterator(nil)
		ta, tb := a.Next(), b.Next()
		var seen int64 // the last time of a
		any, moved, begun := false, false, false
		return &cursor{next: func(c *cursor) chunkenc.ValueType {
			if begun { // continue after the sample that was returned
				if c.in == a {
					ta = a.Next()
				} else {
					tb = b.Next()
				}
			}
			begun = true
			for {
				if tb != chunkenc.ValNone && (ta == chunkenc.ValNone || b.AtT() < a.AtT()) {
					h := hourStart(b.AtT())
					if (any && hourStart(seen) == h) || (ta != chunkenc.ValNone && hourStart(a.AtT()) == h) {
						tb = b.Next()
						continue
					}
					c.anew, moved, c.in = moved || !any, false, b
					return tb
				}
				if ta == chunkenc.ValNone {
					if c.err = a.Err(); c.err == nil {
						c.err = b.Err()
					}
					begun = false
					return chunkenc.ValNone
				}
				if tb != chunkenc.ValNone && b.AtT() == a.AtT() {
					tb = b.Next()
				}
				c.anew, moved, c.in = !moved, true, a
				seen, any = a.AtT(), true
				return ta
			}
		}}
	}}
}
