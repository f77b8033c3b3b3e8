package series

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// odd are numbers that a sender may put into any field.
var odd = []float64{0, math.Copysign(0, -1), 1e-128, 0x1p-128, 0.5, 1, 1.5, 2, 100, -1, -1e-9, math.Inf(1), math.Inf(-1), math.NaN(),
	math.MaxFloat64, math.SmallestNonzeroFloat64, 1e300}

func made(r *rand.Rand) *histogram.FloatHistogram {
	pick := func() float64 { return odd[r.IntN(len(odd))] }
	side := func() (spans []histogram.Span, buckets []float64) {
		for i := range r.IntN(4) {
			s := histogram.Span{Offset: int32(r.IntN(7)), Length: uint32(r.IntN(4))}
			if i == 0 {
				s.Offset -= 3
			}
			if r.IntN(8) == 0 {
				s.Offset = []int32{math.MaxInt32, math.MinInt32, 1 << 30, -1 << 30, 1025, -1075, 16384, 262144, -262144}[r.IntN(9)]
			}
			for range s.Length {
				if r.IntN(10) == 0 {
					buckets = append(buckets, pick())
				} else {
					buckets = append(buckets, float64(r.IntN(4)))
				}
			}
			spans = append(spans, s)
		}
		return spans, buckets
	}
	h := &histogram.FloatHistogram{Schema: int32(r.IntN(13) - 4), ZeroThreshold: pick(), ZeroCount: pick(), Count: pick(), Sum: pick()}
	h.PositiveSpans, h.PositiveBuckets = side()
	h.NegativeSpans, h.NegativeBuckets = side()
	return h
}

// With two histograms that are sound and valid, everything that PromQL does with them ends, and does not panic.
func TestSoundHistogramsAreComputed(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	r := rand.New(rand.NewPCG(5, 1))
	taken := 0
	for range n {
		a, b := made(r), made(r)
		if CheckSound(nil, a) != nil || CheckSound(nil, b) != nil || a.Validate() != nil || b.Validate() != nil {
			continue
		}
		taken++
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			_, _, _, _ = a.Copy().Add(b)
			_, _, _, _ = a.Copy().KahanAdd(b, nil)
			_, _, _, _ = a.Copy().Sub(b)
			a.Copy().Compact(0)
			a.Copy().TrimBuckets(1.3, true)
			_ = a.DetectReset(b)
			for _, q := range []float64{0, 0.5, 1, math.NaN()} {
				promql.HistogramQuantile(q, a, "x", posrange.PositionRange{})
			}
			promql.HistogramFraction(-1, 1, a, "x", posrange.PositionRange{})
			if a.Schema > histogram.ExponentialSchemaMin {
				_ = a.Copy().ReduceResolution(histogram.ExponentialSchemaMin)
			}
			if got := FromNative(a); len(got.Buckets) > 20_000 {
				t.Errorf("%d buckets of %v", len(got.Buckets), a)
			}
		}()
		select {
		case p := <-done:
			if p != nil {
				t.Fatalf("%v\nof %#v\nand %#v", p, a, b)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("no end of %#v\nand %#v", a, b)
		}
	}
	if taken < n/200 {
		t.Errorf("only %d of %d pairs were taken", taken, n)
	}
}

// A threshold that is no number is the one that loops: it never equals the other's.
func TestSound(t *testing.T) {
	for _, threshold := range []float64{math.NaN(), math.Inf(1), -1} {
		if err := CheckSound(&histogram.Histogram{ZeroThreshold: threshold}, nil); !errors.Is(err, ErrUnsound) {
			t.Errorf("threshold %v: %v", threshold, err)
		}
	}
	side := func(schema, offset int32, length uint32) *histogram.FloatHistogram {
		return &histogram.FloatHistogram{Schema: schema, PositiveSpans: []histogram.Span{{Offset: offset, Length: length}},
			PositiveBuckets: make([]float64, length)}
	}
	for _, tt := range []struct {
		h  *histogram.FloatHistogram
		ok bool
	}{
		{side(0, -1074, 1), true}, {side(0, 1025, 1), true}, {side(0, 1026, 1), false}, {side(8, 262145, 1), true},
		{side(8, -275200, 1), true}, {side(8, math.MaxInt32, 1), false}, {side(-4, 65, 1), true}, {side(-4, 66, 1), false},
		{side(20, math.MaxInt32, 1), true}, {side(20, math.MaxInt32, 2), false},
		{side(histogram.CustomBucketsSchema, 0, 3), true}, {side(histogram.CustomBucketsSchema, -1, 3), false},
	} {
		if err := CheckSound(nil, tt.h); (err == nil) != tt.ok {
			t.Errorf("schema %d, span %v: %v", tt.h.Schema, tt.h.PositiveSpans, err)
		}
	}
	mark := side(3, 0, 0) // client_golang's mark of a native histogram without observations
	if err := CheckSound(nil, mark); err != nil || len(mark.PositiveSpans) != 0 {
		t.Errorf("%v, %v left", err, mark.PositiveSpans)
	}
}
