package series

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/histogram"
)

// ErrUnsound is wrapped by the error for a native histogram that would break histogram arithmetic. For example, adding
// two histograms never ends if their zero thresholds cannot be made equal, and a bucket index that overflows panics.
var ErrUnsound = errors.New("the native histogram cannot be computed with")

// CheckSound returns an error that wraps [ErrUnsound] for a histogram that must not be stored or used in arithmetic.
// One of h and fh is nil. Its cost is independent of the number of buckets, because it checks only the layout;
// the database checks the counts. The zero threshold must be finite and not negative. Exponential buckets must
// lie between the smallest and largest float64, apart from the next one, which holds infinity. CheckSound removes
// spans without buckets, with which client libraries mark native histograms, because making such a histogram
// coarser panics.
func CheckSound(h *histogram.Histogram, fh *histogram.FloatHistogram) error {
	switch {
	case h != nil:
		h.PositiveSpans, h.NegativeSpans = usedSpans(h.PositiveSpans, len(h.PositiveBuckets)), usedSpans(h.NegativeSpans,
			len(h.NegativeBuckets))
		return checkLayout(h.Schema, h.ZeroThreshold, h.PositiveSpans, h.NegativeSpans)
	case fh != nil:
		fh.PositiveSpans, fh.NegativeSpans = usedSpans(fh.PositiveSpans, len(fh.PositiveBuckets)),
			usedSpans(fh.NegativeSpans, len(fh.NegativeBuckets))
		return checkLayout(fh.Schema, fh.ZeroThreshold, fh.PositiveSpans, fh.NegativeSpans)
	}
	return nil
}

// usedSpans returns the spans of one side, or nil if they contain no bucket.
func usedSpans(spans []histogram.Span, buckets int) []histogram.Span {
	if buckets > 0 {
		return spans
	}
	for _, s := range spans {
		if s.Length > 0 {
			return spans // the database refuses it: its buckets are missing
		}
	}
	return spans[:0]
}

type unsoundKey struct{}

// CountUnsound returns a context and a counter. Reads with that context count the stored histograms that they leave out as unsound.
func CountUnsound(ctx context.Context) (counting context.Context, counter *atomic.Uint64) {
	n := new(atomic.Uint64)
	return context.WithValue(ctx, unsoundKey{}, n), n
}

// Unsound returns the counter of a context. It is never nil.
func Unsound(ctx context.Context) *atomic.Uint64 {
	if n, ok := ctx.Value(unsoundKey{}).(*atomic.Uint64); ok {
		return n
	}
	return new(atomic.Uint64)
}

func checkLayout(schema int32, threshold float64, spans ...[]histogram.Span) error {
	if math.IsNaN(threshold) || math.IsInf(threshold, 0) || threshold < 0 {
		return fmt.Errorf("%w: its zero threshold is %v; send a finite number that is not negative", ErrUnsound, threshold)
	}
	low, high := int64(0), int64(math.MaxInt32)
	if schema != histogram.CustomBucketsSchema {
		// 2^-1074 is the least float64 and 2^1024 is beyond the largest; finer schemas than the database has are made coarser.
		per := math.Exp2(float64(min(max(schema, histogram.ExponentialSchemaMin), histogram.ExponentialSchemaMax)))
		if schema > histogram.ExponentialSchemaMax {
			low = math.MinInt32
		} else {
			low, high = int64(math.Floor(-1075*per))-1, int64(math.Ceil(1024*per))+1
		}
	}
	for _, side := range spans {
		at := int64(0)
		for i, s := range side {
			if at += int64(s.Offset); i > 0 && s.Offset < 0 || at < low || at+int64(s.Length)-1 > high {
				return fmt.Errorf("%w: span %d of its buckets is at %d and %d long; schema %d has buckets from %d to %d", ErrUnsound,
					i+1, at, s.Length, schema, low, high)
			}
			at += int64(s.Length)
		}
	}
	return nil
}
