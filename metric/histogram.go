package metric

import "math"

// HistogramSchema is the resolution of [Histogram]. Bucket bounds are powers of 2^(1/8), so a
// quantile is accurate to within 4.5 %.
const HistogramSchema = 3

// histogramZero is the upper bound of the zero bucket. Observations up to this value count as zero.
const histogramZero = 1.0 / 1024

// octavesSchema is the resolution of a histogram with one bucket per power of two.
const octavesSchema = 0

const maxBuckets = 320 // 40 octaves: 1/1024 to 2^30

// Histogram is a Prometheus native histogram of non-negative observations with exponential buckets
// (https://prometheus.io/docs/specs/native_histograms/). Bucket i counts observations in
// (2^((i-1)/8), 2^(i/8)]. The zero value is empty and ready for use.
type Histogram struct {
	Count     uint64
	ZeroCount uint64
	Sum       float64
	// Offset is the index of Buckets[0].
	Offset int32
	// Buckets are absolute counts of adjacent buckets.
	Buckets []uint64
	// Octaves is set if there is one bucket per power of two: bucket i counts observations in (2^(i-1), 2^i].
	Octaves bool `json:",omitempty"`
	// Zero is the upper bound of the zero bucket; 0 means 1/1024.
	Zero float64 `json:",omitempty"`
}

// ZeroThreshold returns the upper bound of the zero bucket.
func (h *Histogram) ZeroThreshold() float64 {
	if h.Zero > 0 {
		return h.Zero
	}
	return histogramZero
}

// Schema returns the resolution of h: its bounds are powers of 2^(2^-schema).
func (h *Histogram) Schema() int32 {
	if h.Octaves {
		return octavesSchema
	}
	return HistogramSchema
}

// bucketsPerOctave returns the number of buckets from one power of two to the next.
func (h *Histogram) bucketsPerOctave() float64 { return float64(int(1) << h.Schema()) }

// AddOctaves adds the counts of an octave histogram with the given sum. counts[0] counts observations up to 2^first,
// the width of the zero bucket, and counts[i] those in (2^(first+i-1), 2^(first+i)].
func (h *Histogram) AddOctaves(first int32, counts []uint64, sum float64) {
	h.Octaves, h.Zero = true, math.Exp2(float64(first))
	h.Sum += sum
	for i, n := range counts {
		h.Count += n
		if i == 0 {
			h.ZeroCount += n
		} else if n > 0 {
			*h.bucketAt(first + int32(i)) += n
		}
	}
}

// Reset empties h and keeps its memory.
func (h *Histogram) Reset() { *h = Histogram{Buckets: h.Buckets[:0]} }

// Observe counts v. Negative values and NaN count as zero, so that a clock set back cannot corrupt the sum.
func (h *Histogram) Observe(v float64) {
	h.Count++
	if !(v > h.ZeroThreshold()) {
		h.ZeroCount++
		if v > 0 {
			h.Sum += v
		}
		return
	}
	h.Sum += v
	i := BucketIndex(v)
	if h.Octaves {
		i = (i + 7) >> HistogramSchema
	}
	*h.bucketAt(i)++
}

// bucketAt returns bucket i, growing the slice as needed.
func (h *Histogram) bucketAt(i int32) *uint64 {
	switch {
	case len(h.Buckets) == 0:
		h.Offset = i
		h.Buckets = append(h.Buckets, 0)
	case i < h.Offset:
		grow := int(h.Offset - i)
		n := len(h.Buckets)
		for range grow {
			h.Buckets = append(h.Buckets, 0)
		}
		copy(h.Buckets[grow:], h.Buckets[:n])
		clear(h.Buckets[:grow])
		h.Offset = i
	default:
		for int(i-h.Offset) >= len(h.Buckets) {
			h.Buckets = append(h.Buckets, 0)
		}
	}
	return &h.Buckets[i-h.Offset]
}

// BucketIndex returns the index of the bucket that contains v, which must be above the zero
// threshold. Values beyond the last bucket are counted in it.
func BucketIndex(v float64) int32 {
	if math.IsInf(v, 1) {
		return maxBuckets - 80
	}
	frac, exp := math.Frexp(v)
	i := int32(math.Ceil(math.Log2(frac)*8)) + int32(exp)*8
	return min(i, maxBuckets-80)
}

// BucketBound returns the inclusive upper bound of bucket i.
func BucketBound(i int32) float64 { return math.Exp2(float64(i) / 8) }

// Quantile returns the q-quantile of the observations, with q from 0 to 1. It interpolates geometrically within a
// bucket. It returns NaN if the histogram is empty.
func (h *Histogram) Quantile(q float64) float64 {
	if h.Count == 0 || math.IsNaN(q) {
		return math.NaN()
	}
	rank := min(max(q, 0), 1) * float64(h.Count)
	seen := float64(h.ZeroCount)
	if rank <= seen && h.ZeroCount > 0 {
		return 0
	}
	for k, n := range h.Buckets {
		if n == 0 {
			continue
		}
		if rank <= seen+float64(n) {
			i := h.Offset + int32(k)
			return math.Exp2((float64(i-1) + (rank-seen)/float64(n)) / h.bucketsPerOctave())
		}
		seen += float64(n)
	}
	return math.Exp2(float64(h.Offset+int32(len(h.Buckets))-1) / h.bucketsPerOctave())
}

// Merge adds the observations of o to h; both must have the same resolution.
func (h *Histogram) Merge(other *Histogram) {
	h.Count += other.Count
	h.ZeroCount += other.ZeroCount
	h.Sum += other.Sum
	for k, n := range other.Buckets {
		if n != 0 {
			*h.bucketAt(other.Offset + int32(k)) += n
		}
	}
}
