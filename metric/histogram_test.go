package metric

import (
	"math"
	"testing"
)

func TestBucketHoldsItsValue(t *testing.T) {
	for v := 1.0 / 1000; v < 1<<29; v *= 1.01 {
		i := BucketIndex(v)
		if !(v <= Bound(i)*(1+1e-12) && v > Bound(i-1)*(1-1e-12)) {
			t.Fatalf("%v is in bucket %d (%v, %v]", v, i, Bound(i-1), Bound(i))
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
