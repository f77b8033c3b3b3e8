package metric

import (
	"math"
	"slices"
	"testing"
)

func TestBucketHoldsItsValue(t *testing.T) {
	for v := 1.0 / 1000; v < 1<<29; v *= 1.01 {
		i := BucketIndex(v)
		if !(v <= BucketBound(i)*(1+1e-12) && v > BucketBound(i-1)*(1-1e-12)) {
			t.Fatalf("%v is in bucket %d (%v, %v]", v, i, BucketBound(i-1), BucketBound(i))
		}
	}
}

func TestObserveTakesAnything(t *testing.T) {
	var h Histogram
	for _, v := range []float64{math.Inf(1), math.MaxFloat64, math.Inf(-1), math.NaN(), -1, 0, 5e-324, 0.5} {
		h.Observe(v)
	}
	n := h.ZeroCount
	for _, b := range h.Buckets {
		n += b
	}
	if h.Count != 8 || n != h.Count || h.ZeroCount != 5 || len(h.Buckets) > maxBuckets {
		t.Errorf("count %d, in buckets %d, zero %d, %d buckets", h.Count, n, h.ZeroCount, len(h.Buckets))
	}
}

// TestQuantileByRank: the quantile q of n observations is the one with rank q n, counted from the
// smallest, in histograms so small that a rank that is off by one is another observation.
func TestQuantileByRank(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64 // the observation
	}{
		{[]float64{1, 100}, 0.5, 1}, {[]float64{1, 100}, 0.51, 100}, {[]float64{1, 100}, 1, 100}, {[]float64{1, 100}, 0, 1},
		{[]float64{0, 100}, 0.5, 0}, {[]float64{0, 100}, 0.51, 100},
		{[]float64{1, 10, 100}, 1.0 / 3, 1}, {[]float64{1, 10, 100}, 0.34, 10}, {[]float64{1, 10, 100}, 2.0 / 3, 10}, {[]float64{1, 10, 100}, 0.67, 100},
		{append(slices.Repeat([]float64{1}, 19), 100), 0.95, 1}, {append(slices.Repeat([]float64{1}, 19), 100), 0.951, 100},
		{append(slices.Repeat([]float64{0}, 19), 100), 0.95, 0}, {append(slices.Repeat([]float64{0}, 19), 100), 0.951, 100},
		{[]float64{7}, 0, 7}, {[]float64{7}, 0.5, 7}, {[]float64{7}, 1, 7},
	} {
		var h Histogram
		for _, v := range c.values {
			h.Observe(v)
		}
		got := h.Quantile(c.q)
		low, high := 0.0, 0.0 // bucket of the observation
		if c.want > 0 {
			low, high = BucketBound(BucketIndex(c.want)-1)*(1-1e-12), BucketBound(BucketIndex(c.want))*(1+1e-12)
		}
		if !(got >= low && got <= high) {
			t.Errorf("q%v of %v is %v, want that of %v", c.q, c.values, got, c.want)
		}
	}
	// Within a bucket of four, the ranks are spread geometrically up to its upper bound.
	var h Histogram
	for range 4 {
		h.Observe(1)
	}
	for rank := range 5 {
		if got, want := h.Quantile(float64(rank)/4), math.Exp2((-1+float64(rank)/4)/8); math.Abs(got-want) > 1e-12 {
			t.Errorf("rank %d of 4 in one bucket is %v, want %v", rank, got, want)
		}
	}
}

func TestQuantileAndMerge(t *testing.T) {
	var a, b, all Histogram
	for i := range 1000 {
		v := float64(i+1) / 100
		all.Observe(v)
		if i%3 == 0 {
			a.Observe(v)
		} else {
			b.Observe(v)
		}
	}
	a.Merge(&b)
	for _, q := range []float64{0, 0.05, 0.5, 0.95, 1} {
		if got, want := a.Quantile(q), all.Quantile(q); got != want {
			t.Errorf("q%v after merging %v, want %v", q, got, want)
		}
		if got, want := all.Quantile(q), q*10; q > 0 && math.Abs(got-want) > 0.045*want {
			t.Errorf("q%v = %v, want %v within 4.5 %%", q, got, want)
		}
	}
	if !math.IsNaN((&Histogram{}).Quantile(0.5)) {
		t.Error("an empty histogram has no median")
	}
}

// TestOctaves: a histogram of octaves counts like one with eight buckets per octave, eight times as coarse, down to its own zero.
func TestOctaves(t *testing.T) {
	h := Histogram{Octaves: true, Zero: math.Exp2(-20)}
	for _, v := range []float64{math.Exp2(-20), math.Exp2(-20) * 1.01, 0.001, 0.001, 0.5, 0.75, 1, 1.01} {
		h.Observe(v)
	}
	want := map[int32]uint64{-19: 1, -9: 2, -1: 1, 0: 2, 1: 1}
	for k, n := range h.Buckets {
		if i := h.Offset + int32(k); n != want[i] {
			t.Errorf("bucket up to 2^%d has %d, want %d", i, n, want[i])
		}
	}
	if h.ZeroCount != 1 || h.Count != 8 || h.Schema() != 0 || (&Histogram{}).Schema() != HistogramSchema {
		t.Errorf("%+v", h)
	}
	if q := h.Quantile(1); q != 2 {
		t.Errorf("the highest is %v, want the end of its bucket, 2", q)
	}
	if q := h.Quantile(0.3); q < 1.0/1024 || q > 1.0/512 {
		t.Errorf("the quantile 0.3 is %v, want one in the bucket of 0.001", q)
	}
	var other Histogram
	other.AddOctaves(-20, []uint64{4, 0, 2}, 7)
	h.Merge(&other)
	if h.Count != 14 || h.ZeroCount != 5 || h.Offset != -19 || h.Buckets[1] != 2 || other.Zero != math.Exp2(-20) || other.Sum != 7 || !other.Octaves {
		t.Errorf("%+v", h)
	}
}
