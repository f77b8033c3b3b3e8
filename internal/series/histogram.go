package series

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/metric"
)

// FromNative converts a native histogram with any exponential schema. If its schema is coarser than ours, the
// observations of a bucket are counted at the bucket's upper bound.
func FromNative(fh *histogram.FloatHistogram) *metric.Histogram {
	out := &metric.Histogram{}
	if fh.UsesCustomBuckets() {
		return out
	}
	for b := fh.PositiveBucketIterator(); b.Next(); {
		bucket := b.At()
		if bucket.Count <= 0 {
			continue
		}
		one := &metric.Histogram{Buckets: []uint64{uint64(bucket.Count)}}
		one.Offset = int32(math.Round(min(max(math.Log2(bucket.Upper), -1075), 1025) * 8)) // the last bound is +Inf
		out.Merge(one)
	}
	out.Count, out.ZeroCount, out.Sum = uint64(fh.Count), uint64(fh.ZeroCount), fh.Sum
	return out
}

// Distribution returns all observations of a native histogram series since the series began, across resets, or nil if
// there is no sample. It converts only the last sample and the sample before each reset, because conversion is slow.
func Distribution(it chunkenc.Iterator) *metric.Histogram {
	var out *metric.Histogram
	var last *histogram.FloatHistogram
	flush := func() {
		if last == nil {
			return
		}
		if out == nil {
			out = &metric.Histogram{}
		}
		out.Merge(FromNative(last))
		last = nil
	}
	spare := &histogram.FloatHistogram{} // never nil: the iterator would return slices of its own
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt == chunkenc.ValFloat {
			continue
		}
		_, h := it.AtFloatHistogram(spare)
		if value.IsStaleNaN(h.Sum) {
			spare = h
			continue
		}
		if last != nil && h.Count < last.Count {
			flush()
		}
		spare, last = last, h
		if spare == nil {
			spare = &histogram.FloatHistogram{}
		}
	}
	flush()
	return out
}
