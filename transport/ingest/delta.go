package ingest

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// Delta metrics report the increase since the last export
// (https://opentelemetry.io/docs/specs/otel/metrics/data-model/#temporality). They are accumulated per series in
// memory. After a restart of the server a series starts at zero, which queries treat as a counter reset.

const (
	// maxDeltas limits the number of accumulated series, about 300 bytes each.
	maxDeltas = 100_000
	// maxDeltaIdle is the time after which a series without samples is removed if other series need its place.
	maxDeltaIdle = time.Hour
)

// deltas adds up the series of a receiver that are sent as deltas. It is safe for concurrent use.
type deltas struct {
	mu    sync.Mutex
	total map[hash128]*deltaSeries
	key   []byte
	most  int // maxDeltas; tests replace it
}

// deltaSeries is the sum of a series up to its last sample.
type deltaSeries struct {
	start, last int64 // Unix milliseconds
	seen        time.Time
	value       float64
	histogram   *histogram.FloatHistogram
}

// deltaState is the result of adding a sample.
type deltaState int

const (
	deltaAdded deltaState = iota
	deltaLate             // older than one that is already included
	deltaFull             // no room for another series
	deltaNaN
	deltaIncompatible // a histogram that is incompatible with those before
)

// add adds a delta sample for the interval from start to t. It returns the running sum and the start time of that sum.
// If a sender did not receive the response and repeats a sample, add does not add it again and returns the same result.
func (d *deltas) add(now time.Time, ls labels.Labels, start, t int64, v float64, h *histogram.FloatHistogram) (begun int64, value float64,
	fh *histogram.FloatHistogram, state deltaState) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, 0, nil, deltaNaN
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.key = ls.Bytes(d.key)
	key := newHash(d.key)
	s := d.total[key]
	switch {
	case s == nil:
		if len(d.total) >= d.most && !d.evictIdle(now) {
			return 0, 0, nil, deltaFull
		}
		// A millisecond after the last export, where the sum from before a restart may be stored.
		s = &deltaSeries{start: start + 1, last: start}
		if start == 0 || start >= t {
			s.start, s.last = 0, t-1
		}
		d.total[key] = s
	case t < s.last:
		return 0, 0, nil, deltaLate
	}
	s.seen = now
	if t > s.last {
		if h != nil && s.histogram != nil {
			sum := s.histogram.Copy()
			if _, _, _, err := sum.Add(h); err != nil {
				return 0, 0, nil, deltaIncompatible
			}
			s.histogram = sum
		} else if h != nil {
			s.histogram = h.Copy()
		}
		s.value += v
		s.last = t
	}
	if s.histogram != nil {
		fh = s.histogram.Copy()
		fh.CounterResetHint = histogram.UnknownCounterReset
	}
	return s.start, s.value, fh, deltaAdded
}

// evictIdle makes room by removing idle series.
func (d *deltas) evictIdle(now time.Time) bool {
	before := len(d.total)
	for k, s := range d.total {
		if now.Sub(s.seen) > maxDeltaIdle {
			delete(d.total, k)
		}
	}
	return len(d.total) < before
}

// splitDeltas moves the metrics of delta temporality from md to delta. It marks them as cumulative, because deltas stores their
// running sums.
func splitDeltas(md pmetric.Metrics) (delta pmetric.Metrics, found bool) {
	delta = pmetric.NewMetrics()
	for i := range md.ResourceMetrics().Len() {
		rm := md.ResourceMetrics().At(i)
		to := pmetric.NewResourceMetrics()
		for j := range rm.ScopeMetrics().Len() {
			sm := rm.ScopeMetrics().At(j)
			moved := pmetric.NewScopeMetrics()
			sm.Metrics().RemoveIf(func(m pmetric.Metric) bool {
				if !makeCumulative(m) {
					return false
				}
				m.MoveTo(moved.Metrics().AppendEmpty())
				return true
			})
			if moved.Metrics().Len() > 0 {
				sm.Scope().CopyTo(moved.Scope())
				moved.MoveTo(to.ScopeMetrics().AppendEmpty())
			}
		}
		if to.ScopeMetrics().Len() > 0 {
			found = true
			rm.Resource().CopyTo(to.Resource())
			to.MoveTo(delta.ResourceMetrics().AppendEmpty())
		}
	}
	return delta, found
}

// makeCumulative converts a metric of delta temporality to cumulative, and reports whether it was one.
func makeCumulative(m pmetric.Metric) bool {
	var t interface {
		AggregationTemporality() pmetric.AggregationTemporality
		SetAggregationTemporality(pmetric.AggregationTemporality)
	}
	switch m.Type() {
	case pmetric.MetricTypeSum:
		t = m.Sum()
	case pmetric.MetricTypeHistogram:
		t = m.Histogram()
	case pmetric.MetricTypeExponentialHistogram:
		t = m.ExponentialHistogram()
	default:
		return false
	}
	if t.AggregationTemporality() != pmetric.AggregationTemporalityDelta {
		return false
	}
	t.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	return true
}
