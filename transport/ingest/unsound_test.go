package ingest

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// A histogram with a zero threshold that is no number makes the sum with any other loop for ever: no door takes it, and OTLP deltas,
// which are summed here, end.
func TestUnsoundHistogramsAreRefused(t *testing.T) {
	s := openStore(t)
	h := Handler(Options{Store: s, Describe: s.Describe})
	now := time.Now().UnixMilli()
	two := &writev2.Request{Symbols: []string{"", "__name__", "loops"}, Timeseries: []writev2.TimeSeries{{LabelsRefs: []uint32{1, 2},
		Histograms: []writev2.Histogram{{Timestamp: now, ZeroThreshold: math.NaN(), Count: &writev2.Histogram_CountInt{},
			ZeroCount: &writev2.Histogram_ZeroCountInt{}}}}}}
	one := &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{{Labels: []prompb.Label{{Name: "__name__", Value: "loops"}},
		Histograms: []prompb.Histogram{{Timestamp: now, ZeroThreshold: math.NaN(), Count: &prompb.Histogram_CountFloat{},
			ZeroCount: &prompb.Histogram_ZeroCountFloat{}}}}}}
	for kind, m := range map[string]proto.Message{"application/x-protobuf;proto=io.prometheus.write.v2.Request": two, "application/x-protobuf": one} {
		if w := post(t, h, kind, m); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "zero threshold is NaN") {
			t.Errorf("%s: %d %s", kind, w.Code, w.Body)
		}
	}
	receiver := OTLP(Options{Store: s, Describe: s.Describe})
	for i := range 3 {
		r := pmetric.NewMetrics()
		m := r.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
		m.SetName("loops")
		e := m.SetEmptyExponentialHistogram()
		e.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
		p := e.DataPoints().AppendEmpty()
		at := func(i int) pcommon.Timestamp {
			return pcommon.NewTimestampFromTime(time.Now().Add(time.Duration(i-5) * time.Minute))
		}
		p.SetStartTimestamp(at(i - 1))
		p.SetTimestamp(at(i))
		p.SetCount(2) // the zero threshold is not translated, the offset is
		p.Positive().SetOffset(math.MaxInt32 - 1)
		p.Positive().BucketCounts().FromRaw([]uint64{1, 1})
		if n, why := sendDeltas(t, receiver, r); n != 1 || !strings.Contains(why, "cannot be computed with") {
			t.Errorf("OTLP: %d refused: %s", n, why)
		}
	}
	if got := read(t, s, "loops"); len(got) != 0 {
		t.Errorf("stored: %v", got)
	}
}
