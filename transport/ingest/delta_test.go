package ingest

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

// deltaRequest has the increases of one interval for a counter, a gauge-like sum, a
// histogram with bounds and an exponential one, of delta temporality, beside a cumulative
// counter.
func deltaRequest(from, to time.Time, n int) pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	for k, v := range map[string]string{"service.name": "train", "host.name": "n1", "cloud": "none"} {
		rm.Resource().Attributes().PutStr(k, v)
	}
	ms := rm.ScopeMetrics().AppendEmpty().Metrics()
	start, at := pcommon.NewTimestampFromTime(from), pcommon.NewTimestampFromTime(to)
	number := func(name string, monotonic bool, kind pmetric.AggregationTemporality, v int) {
		m := ms.AppendEmpty()
		m.SetName(name)
		s := m.SetEmptySum()
		s.SetIsMonotonic(monotonic)
		s.SetAggregationTemporality(kind)
		p := s.DataPoints().AppendEmpty()
		p.SetStartTimestamp(start)
		p.SetTimestamp(at)
		p.SetIntValue(int64(v))
	}
	number("steps", true, pmetric.AggregationTemporalityDelta, n)
	number("open", false, pmetric.AggregationTemporalityDelta, -n)
	number("whole", true, pmetric.AggregationTemporalityCumulative, 100)
	m := ms.AppendEmpty()
	m.SetName("size")
	h := m.SetEmptyHistogram()
	h.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	p := h.DataPoints().AppendEmpty()
	p.SetStartTimestamp(start)
	p.SetTimestamp(at)
	p.ExplicitBounds().FromRaw([]float64{10})
	p.BucketCounts().FromRaw([]uint64{uint64(n), 1})
	p.SetCount(uint64(n) + 1)
	p.SetSum(float64(n))
	m = ms.AppendEmpty()
	m.SetName("latency")
	e := m.SetEmptyExponentialHistogram()
	e.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	q := e.DataPoints().AppendEmpty()
	q.SetStartTimestamp(start)
	q.SetTimestamp(at)
	q.SetScale(int32(n % 2)) // with different resolutions
	q.SetCount(uint64(n))
	q.SetSum(float64(n))
	q.Positive().BucketCounts().FromRaw([]uint64{uint64(n)})
	return md
}

func sendDeltas(t *testing.T, h http.Handler, md pmetric.Metrics) (refused int64, why string) {
	t.Helper()
	body, err := pmetricotlp.NewExportRequestFromMetrics(md).MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	w := sendOTLP(h, otlpProto, "", body)
	resp := pmetricotlp.NewExportResponse()
	if err := resp.UnmarshalProto(w.Body.Bytes()); w.Code != http.StatusOK || err != nil {
		t.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	return resp.PartialSuccess().RejectedDataPoints(), resp.PartialSuccess().ErrorMessage()
}

// Deltas become sums, each counted once: also when a request is repeated, and when the server
// restarted between two of them.
func TestDeltas(t *testing.T) {
	s := openStore(t)
	h := OTLP(Options{Store: s, Describe: s.Describe})
	now := time.Now().Truncate(time.Second)
	at := func(i int) time.Time { return now.Add(time.Duration(i-5) * time.Minute) }
	for _, i := range []int{1, 2, 2, 3} {
		if n, why := sendDeltas(t, h, deltaRequest(at(i-1), at(i), i)); n != 0 {
			t.Errorf("interval %d: %d refused: %s", i, n, why)
		}
	}
	h = OTLP(Options{Store: s, Describe: s.Describe}) // a restart of the server
	if n, why := sendDeltas(t, h, deltaRequest(at(3), at(4), 9)); n != 0 {
		t.Errorf("%d refused: %s", n, why)
	}
	ms := func(i int) int64 { return at(i).UnixMilli() }
	for name, want := range map[string][]string{
		"steps_total": {fmt.Sprintf("%d 0", ms(0)+1), fmt.Sprintf("%d 1", ms(1)), fmt.Sprintf("%d 3", ms(2)), fmt.Sprintf("%d 6", ms(3)), fmt.Sprintf("%d 0", ms(3)+1), fmt.Sprintf("%d 9", ms(4))},
		"open":        {fmt.Sprintf("%d -1", ms(1)), fmt.Sprintf("%d -3", ms(2)), fmt.Sprintf("%d -6", ms(3)), fmt.Sprintf("%d -9", ms(4))},
		"size_count":  {fmt.Sprintf("%d 0", ms(0)+1), fmt.Sprintf("%d 2", ms(1)), fmt.Sprintf("%d 5", ms(2)), fmt.Sprintf("%d 9", ms(3)), fmt.Sprintf("%d 0", ms(3)+1), fmt.Sprintf("%d 10", ms(4))},
		"latency":     {fmt.Sprintf("%d count 1 sum 1", ms(1)), fmt.Sprintf("%d count 3 sum 3", ms(2)), fmt.Sprintf("%d count 6 sum 6", ms(3)), fmt.Sprintf("%d count 9 sum 9", ms(4))},
	} {
		got := read(t, s, name)
		if len(got) != 1 {
			t.Fatalf("%s: %v", name, got)
		}
		for _, points := range got {
			same(t, points, want...)
		}
	}
	for _, points := range read(t, s, "whole_total") { // unchanged beside them
		if last := points[len(points)-1]; last != fmt.Sprintf("%d 100", ms(4)) {
			t.Errorf("whole_total: %v", points)
		}
	}
	for ls, points := range read(t, s, "target_info") {
		for _, p := range points {
			if !strings.HasSuffix(p, " 1") {
				t.Errorf("target_info%s: %v", ls, points)
			}
		}
	}
}

// Deltas that cannot be accumulated are refused with the reason, and change no sum.
func TestDeltasThatDoNotAddUp(t *testing.T) {
	s := openStore(t)
	h := OTLP(Options{Store: s, Describe: s.Describe})
	now := time.Now().Truncate(time.Second)
	at := func(i int) time.Time { return now.Add(time.Duration(i-5) * time.Minute) }
	one := func(i int, v float64) pmetric.Metrics {
		md := pmetric.NewMetrics()
		m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
		m.SetName("steps")
		sum := m.SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
		p := sum.DataPoints().AppendEmpty()
		p.SetTimestamp(pcommon.NewTimestampFromTime(at(i)))
		p.SetDoubleValue(v)
		return md
	}
	for _, c := range []struct {
		i   int
		v   float64
		bad string
	}{
		{2, 5, ""},
		{1, 5, "a later delta"},
		{3, math.NaN(), "no number"},
		{3, math.Inf(1), "no number"},
		{5 + 25*60, 7, "is in the future"},
		{4, 1, ""},
	} {
		n, why := sendDeltas(t, h, one(c.i, c.v))
		if want := min(len(c.bad), 1); n != int64(want) || !strings.Contains(why, c.bad) {
			t.Errorf("%+v: %d refused: %s", c, n, why)
		}
	}
	for _, points := range read(t, s, "steps_total") {
		same(t, points, fmt.Sprintf("%d 5", at(2).UnixMilli()), fmt.Sprintf("%d 6", at(4).UnixMilli()))
	}
}

// Idle series are replaced by new ones; active ones are not.
func TestDeltasAreBounded(t *testing.T) {
	now := time.Now()
	d := deltas{total: map[hash128]*deltaSeries{}, most: 2}
	for _, c := range []struct {
		name  string
		after time.Duration
		want  deltaState
	}{
		{"a", 0, deltaAdded}, {"b", 0, deltaAdded}, {"c", maxDeltaIdle, deltaFull},
		{"b", maxDeltaIdle, deltaAdded}, {"c", maxDeltaIdle + 1, deltaAdded}, {"a", maxDeltaIdle + 1, deltaFull},
	} {
		at := now.Add(c.after)
		if _, _, _, got := d.add(at, labels.FromStrings("__name__", c.name), 0, at.UnixMilli(), 1, nil); got != c.want {
			t.Errorf("%s after %s: %v, want %v", c.name, c.after, got, c.want)
		}
	}
}
