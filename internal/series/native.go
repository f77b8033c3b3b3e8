package series

import (
	"github.com/prometheus/prometheus/model/histogram"

	"reckon/metric"
)

// maxGap is the number of empty buckets that are cheaper to keep than a new span.
const maxGap = 2

// ToNative converts h to a native histogram, which stores spans of adjacent buckets and the difference of each count
// from the previous one. The result shares no memory with h, because a database keeps it.
func ToNative(h *metric.Histogram) *histogram.Histogram {
	out := &histogram.Histogram{
		Schema:        h.Schema(),
		ZeroThreshold: h.ZeroThreshold(),
		ZeroCount:     h.ZeroCount,
		Count:         h.Count,
		Sum:           h.Sum,
	}
	filled := 0
	for _, n := range h.Buckets {
		if n != 0 {
			filled++
		}
	}
	if filled == 0 {
		return out
	}
	out.PositiveBuckets = make([]int64, 0, filled+maxGap*2)
	var next int32 // index behind the last bucket written
	var prev int64
	for k, n := range h.Buckets {
		if n == 0 {
			continue
		}
		i := h.Offset + int32(k)
		gap := i - next
		if spans := len(out.PositiveSpans); spans == 0 || gap > maxGap {
			out.PositiveSpans = append(out.PositiveSpans, histogram.Span{Offset: gap})
		} else {
			for range gap {
				out.PositiveBuckets = append(out.PositiveBuckets, -prev)
				prev = 0
			}
			out.PositiveSpans[spans-1].Length += uint32(gap)
		}
		out.PositiveSpans[len(out.PositiveSpans)-1].Length++
		out.PositiveBuckets = append(out.PositiveBuckets, int64(n)-prev)
		prev = int64(n)
		next = i + 1
	}
	return out
}
