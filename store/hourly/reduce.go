package hourly

import (
	"fmt"
	"math"

	"reckon/internal/dirty"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Lengths in milliseconds.
const (
	hour = int64(3600_000)
	day  = 24 * hour
	// staleAfter is the maximum age of a sample that still counts as current, as in PromQL.
	staleAfter = int64(300_000)
)

// hourStart returns the beginning of the hour that contains t, and dayStart the beginning of the day, both in UTC.
func hourStart(t int64) int64 { return dirty.Floor(t, hour) }
func dayStart(t int64) int64  { return dirty.Floor(t, day) }

// reducer reduces many samples to few; it is reused for one series after another.
type reducer struct {
	from, to int64 // samples in this range are kept; earlier ones are only read
	out      []sample

	prev  sample // the sample before
	have  bool   // there is one, and no staleness marker came after it
	kept  bool   // it was written
	ended bool   // a staleness marker was written, and nothing after it
	mean  timeMean
}

// reduce reads samples in order of time and returns those to keep, which are valid until the next call. For a counter,
// it keeps the last sample of each hour, both samples around each reset, and the first sample of each run. A run begins
// after a staleness marker or an hour without samples. For other figures, it keeps one sample per hour. The time of
// that sample is the last millisecond of the hour, or the time of the last sample if the series went stale before.
// Staleness markers are kept.
func (r *reducer) reduce(it chunkenc.Iterator, k kind, from, to int64) ([]sample, error) {
	*r = reducer{from: from, to: to, out: r.out[:0]}
	for typ := it.Next(); typ != chunkenc.ValNone; typ = it.Next() {
		s, err := sampleAt(it, typ)
		if err != nil {
			return nil, err
		}
		switch {
		case s.isStale():
			r.endSeries(s, k)
		case s.kind(k) == counter:
			r.addCounter(s)
		default:
			r.addGauge(s, k)
		}
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	r.finish(k)
	return r.out, nil
}

func (r *reducer) keep(s sample) {
	if s.t >= r.from && s.t < r.to {
		r.out = append(r.out, s)
	}
}

// keepPrevious keeps the previous sample, unless it is kept already.
func (r *reducer) keepPrevious() {
	if r.have && !r.kept {
		r.keep(r.prev)
	}
}

func (r *reducer) addCounter(s sample) {
	if r.have && s.typ != r.prev.typ {
		r.keepPrevious()
		r.have = false
	}
	born := !r.have || s.t-r.prev.t > hour
	reset := !born && s.resetAfter(&r.prev)
	if born || reset || hourStart(s.t) != hourStart(r.prev.t) {
		r.keepPrevious()
	}
	r.kept = born || reset
	if r.kept {
		r.keep(s)
	}
	r.prev, r.have, r.ended = s, true, false
}

func (r *reducer) addGauge(s sample, k kind) {
	if r.have && (hourStart(s.t) != hourStart(r.prev.t) || s.typ != r.prev.typ) {
		r.closeHour(k, hourStart(r.prev.t)+hour)
	}
	if r.have = true; s.typ == chunkenc.ValFloat {
		r.mean.add(s.t, s.v)
	}
	r.prev, r.ended = s, false
}

// closeHour keeps one sample for the hour, or for the part of an hour, that ends at end.
func (r *reducer) closeHour(k kind, end int64) {
	s := r.prev
	if s.typ == chunkenc.ValFloat && k == gauge {
		s.v = r.mean.value(end)
	}
	if r.mean = (timeMean{}); end%hour == 0 && s.t >= end-staleAfter {
		s.t = end - 1
	}
	r.have = false
	r.keep(s)
}

// endSeries handles a staleness marker. It keeps the marker and the last sample before it.
func (r *reducer) endSeries(s sample, k kind) {
	switch {
	case r.ended:
		return
	case r.have && r.prev.kind(k) == counter:
		r.keepPrevious()
	case r.have && hourStart(s.t) != hourStart(r.prev.t): // stale before: the value of its hour
		r.closeHour(k, hourStart(r.prev.t)+hour)
	case r.have:
		r.closeRun(k, s.t)
	}
	r.have, r.ended = false, true
	r.keep(s)
}

func (r *reducer) closeRun(k kind, end int64) {
	s := r.prev
	if s.typ == chunkenc.ValFloat && k == gauge {
		s.v = r.mean.value(end)
	}
	r.mean = timeMean{}
	r.keep(s)
}

func (r *reducer) finish(k kind) {
	switch {
	case !r.have:
	case r.prev.kind(k) == counter:
		r.keepPrevious()
	default:
		r.closeHour(k, hourStart(r.prev.t)+hour)
	}
}

// timeMean computes a mean over time. Each sample holds until the next one, or until the series goes stale. NaN
// counts only if there are no other values.
type timeMean struct {
	n            int
	t            int64 // of the last sample
	v            float64
	first        float64
	low, high    float64
	time, excess float64 // of first
}

func (m *timeMean) add(t int64, v float64) {
	if math.IsNaN(v) && m.n > 0 {
		return
	}
	if m.n == 0 || math.IsNaN(m.v) {
		*m = timeMean{n: 1, t: t, v: v, first: v, low: v, high: v}
		return
	}
	m.extendTo(t)
	m.n, m.t, m.v = m.n+1, t, v
	m.low, m.high = min(m.low, v), max(m.high, v)
}

func (m *timeMean) extendTo(until int64) {
	w := float64(min(until-m.t, staleAfter))
	m.time += w
	m.excess += w * (m.v - m.first)
}

func (m *timeMean) value(end int64) float64 {
	if m.low == m.high || m.n <= 1 {
		return m.v // a constant is returned bit for bit
	}
	if math.IsInf(m.low, -1) || math.IsInf(m.high, 1) {
		return m.low + m.high
	}
	if m.extendTo(end); m.time <= 0 {
		return m.v
	}
	return min(max(m.first+m.excess/m.time, m.low), m.high)
}

// sample is one sample of any kind.
type sample struct {
	t   int64
	typ chunkenc.ValueType
	v   float64
	h   *histogram.Histogram
	fh  *histogram.FloatHistogram
}

func sampleAt(it chunkenc.Iterator, typ chunkenc.ValueType) (s sample, err error) {
	s.typ = typ
	switch typ {
	case chunkenc.ValFloat:
		s.t, s.v = it.At()
	case chunkenc.ValHistogram:
		s.t, s.h = it.AtHistogram(nil)
	case chunkenc.ValFloatHistogram:
		s.t, s.fh = it.AtFloatHistogram(nil)
	default:
		return s, fmt.Errorf("a sample of an unknown type, %s", typ)
	}
	return s, nil
}

func (s *sample) isStale() bool {
	switch s.typ {
	case chunkenc.ValHistogram:
		return value.IsStaleNaN(s.h.Sum)
	case chunkenc.ValFloatHistogram:
		return value.IsStaleNaN(s.fh.Sum)
	}
	return value.IsStaleNaN(s.v)
}

// kind returns the kind of a sample of a metric of kind k: histograms override it.
func (s *sample) kind(k kind) kind {
	switch {
	case s.typ == chunkenc.ValFloat:
		return k
	case s.typ == chunkenc.ValHistogram && s.h.CounterResetHint == histogram.GaugeType,
		s.typ == chunkenc.ValFloatHistogram && s.fh.CounterResetHint == histogram.GaugeType:
		return last
	}
	return counter
}

// resetAfter reports whether a counter was reset between p and s.
func (s *sample) resetAfter(previous *sample) bool {
	switch s.typ {
	case chunkenc.ValHistogram:
		return s.h.ToFloat(nil).DetectReset(previous.h.ToFloat(nil))
	case chunkenc.ValFloatHistogram:
		return s.fh.DetectReset(previous.fh)
	}
	return s.v < previous.v
}
