package remote

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series"
	"reckon/metric"
)

// classicSuffixes are the suffixes of the series of a classic histogram.
var classicSuffixes = []string{"_bucket", "_sum", "_count"}

// emitClassic calls emit for each series of the classic histogram that is equivalent to h. It has one bucket, with its
// upper bound, for each non-empty bucket of h.
func emitClassic(ls labels.Labels, h *histogram.FloatHistogram, emit func(labels.Labels, float64)) {
	name := ls.Get(model.MetricNameLabel)
	b := labels.NewBuilder(ls)
	b.Set(model.MetricNameLabel, name+"_bucket")
	sum := 0.0
	bucket := func(le, n float64) {
		b.Set("le", strconv.FormatFloat(le, 'g', -1, 64))
		emit(b.Labels(), n)
	}
	if !value.IsStaleNaN(h.Sum) {
		for it := h.AllBucketIterator(); it.Next(); {
			at := it.At()
			if at.Count == 0 || math.IsInf(at.Upper, 1) {
				continue
			}
			sum += at.Count
			bucket(at.Upper, sum)
		}
	}
	b.Set("le", "+Inf")
	emit(b.Labels(), h.Count)
	b.Del("le")
	b.Set(model.MetricNameLabel, name+"_sum")
	emit(b.Labels(), h.Sum)
	b.Set(model.MetricNameLabel, name+"_count")
	emit(b.Labels(), h.Count)
}

// partialHistogram is a histogram that is being assembled from the series of its buckets, sum and count.
type partialHistogram struct {
	labels     labels.Labels
	sum, count map[int64]float64
	buckets    []bucketSeries
}

type bucketSeries struct {
	le float64
	at map[int64]float64
}

// mergeClassicParts reassembles histograms from the series of their parts.
func (s *Store) mergeClassicParts(set storage.SeriesSet) (*prompb.QueryResult, error) {
	groups := map[uint64]*partialHistogram{}
	var order []*partialHistogram
	var it chunkenc.Iterator
	for set.Next() {
		one := set.At()
		ls := one.Labels()
		name := ls.Get(model.MetricNameLabel)
		whole, ok := s.natives[name]
		if !ok {
			continue
		}
		b := labels.NewBuilder(ls)
		b.Set(model.MetricNameLabel, whole)
		b.Del("le")
		own := b.Labels()
		g := groups[own.Hash()]
		if g == nil {
			g = &partialHistogram{labels: own}
			groups[own.Hash()] = g
			order = append(order, g)
		}
		at := map[int64]float64{}
		it = one.Iterator(it)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			if vt == chunkenc.ValFloat {
				t, v := it.At()
				at[t] = v
			}
		}
		if it.Err() != nil {
			return nil, it.Err()
		}
		g.addPart(ls, at)
	}
	if set.Err() != nil {
		return nil, set.Err()
	}
	out := &prompb.QueryResult{}
	for _, g := range order {
		if ts := g.timeSeries(); len(ts.Histograms) > 0 {
			out.Timeseries = append(out.Timeseries, ts)
		}
	}
	return out, nil
}

// addPart adds the series of one bucket, of the sum or of the count.
func (g *partialHistogram) addPart(part labels.Labels, values map[int64]float64) {
	name := part.Get(model.MetricNameLabel)
	switch {
	case strings.HasSuffix(name, "_sum"):
		g.sum = values
	case strings.HasSuffix(name, "_count"):
		g.count = values
	default:
		if le, err := strconv.ParseFloat(part.Get("le"), 64); err == nil && !math.IsInf(le, 1) {
			g.buckets = append(g.buckets, bucketSeries{le, values})
		}
	}
}

func (g *partialHistogram) timeSeries() *prompb.TimeSeries {
	ts := &prompb.TimeSeries{Labels: prompb.FromLabels(g.labels, nil)}
	slices.SortFunc(g.buckets, func(a, b bucketSeries) int { return cmp.Compare(a.le, b.le) })
	times := make([]int64, 0, len(g.count))
	for t := range g.count {
		times = append(times, t)
	}
	slices.Sort(times)
	for _, t := range times {
		if h := g.histogramAt(t); h != nil {
			ts.Histograms = append(ts.Histograms, prompb.FromIntHistogram(t, h))
		}
	}
	return ts
}

// histogramAt returns the histogram at time t, or nil if its buckets do not add up to its count.
func (g *partialHistogram) histogramAt(t int64) *histogram.Histogram {
	sum, ok := g.sum[t]
	count := g.count[t]
	if !ok || (value.IsStaleNaN(count) != value.IsStaleNaN(sum)) {
		return nil
	}
	if value.IsStaleNaN(sum) {
		return &histogram.Histogram{Sum: sum}
	}
	h := &histogram.Histogram{Schema: metric.HistogramSchema, Sum: sum, Count: uint64(count),
		ZeroThreshold: (&metric.Histogram{}).ZeroThreshold()}
	var own metric.Histogram
	before := 0.0
	for i := range g.buckets {
		b := &g.buckets[i]
		v, ok := b.at[t]
		if !ok || math.IsNaN(v) {
			continue
		}
		n := v - before
		before = v
		if n < 0 || v > count {
			return nil
		}
		if b.le <= h.ZeroThreshold*(1+1e-9) {
			own.ZeroCount += uint64(n)
			continue
		}
		own.Merge(&metric.Histogram{Offset: int32(math.Round(math.Log2(b.le) * (1 << metric.HistogramSchema))),
			Buckets: []uint64{uint64(n)}})
	}
	if before != count { // a part is missing, or not there yet
		return nil
	}
	own.Count, own.Sum = h.Count, h.Sum
	// Observations above the last bound have no bucket of their own.
	return series.ToNative(&own)
}
