package ingest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"reckon/store/tsdb"
)

// exemplarsOf returns the exemplars of a metric as text: value and labels.
func exemplarsOf(t testing.TB, s *tsdb.Store, name string) (out []string) {
	t.Helper()
	q, err := s.ExemplarQuerier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := q.Select(0, math.MaxInt64, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", name)})
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range all {
		for _, e := range series.Exemplars {
			out = append(out, fmt.Sprintf("%g %s", e.Value, e.Labels))
		}
	}
	return out
}

func exemplar1(at time.Time, v float64, trace string) prompb.Exemplar {
	return prompb.Exemplar{Labels: []prompb.Label{{Name: "trace_id", Value: trace}}, Value: v, Timestamp: at.UnixMilli()}
}

// Prometheus sends exemplars of remote write 1.0 as series without samples.
func TestExemplars1(t *testing.T) {
	s := openStore(t)
	h := Handler(Options{Store: s})
	now := time.Now().Truncate(time.Second)
	apart := sample1("a", now, 1)
	apart.Samples, apart.Exemplars = nil, []prompb.Exemplar{exemplar1(now, 0.5, "one")}
	unknown := sample1("nowhere", now, 1)
	unknown.Samples, unknown.Exemplars = nil, apart.Exemplars
	future := sample1("a", now, 1)
	future.Exemplars = []prompb.Exemplar{exemplar1(now.Add(11*time.Minute), 9, "future")}
	long := sample1("b", now, 1)
	long.Exemplars = []prompb.Exemplar{exemplar1(now, 9, strings.Repeat("x", 129))}
	req := &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{unknown, sample1("a", now, 1), apart, future, long}}
	for range 2 { // a retry creates no duplicates
		if w := post(t, h, kind1, req); w.Code != 204 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	same(t, exemplarsOf(t, s, "a"), `0.5 {trace_id="one"}`)
	same(t, exemplarsOf(t, s, "b"))
	same(t, exemplarsOf(t, s, "nowhere"))
}

func TestExemplars2(t *testing.T) {
	s := openStore(t)
	h := Handler(Options{Store: s})
	now := time.Now().Truncate(time.Second)
	req := &writev2.Request{
		Symbols: []string{"", "__name__", "a", "trace_id", "one"},
		Timeseries: []writev2.TimeSeries{{
			LabelsRefs: []uint32{1, 2},
			Samples:    []writev2.Sample{{Value: 1, Timestamp: now.UnixMilli()}},
			Exemplars:  []writev2.Exemplar{{LabelsRefs: []uint32{3, 4}, Value: 0.5, Timestamp: now.UnixMilli()}},
		}},
	}
	w := post(t, h, kind2, req)
	if n := w.Header().Get("X-Prometheus-Remote-Write-Exemplars-Written"); w.Code != 204 || n != "1" {
		t.Errorf("%d %s, %s exemplars", w.Code, w.Body, n)
	}
	same(t, exemplarsOf(t, s, "a"), `0.5 {trace_id="one"}`)

	req.Timeseries[0].Exemplars[0].LabelsRefs = []uint32{3, 5}
	w = post(t, h, kind2, req)
	if n := w.Header().Get("X-Prometheus-Remote-Write-Exemplars-Written"); w.Code != 400 || n != "0" || !strings.Contains(w.Body.String(), "symbol 5 is none of the request") {
		t.Errorf("a symbol that is not there: %d %s, %s exemplars", w.Code, w.Body, n)
	}
}

// A restart keeps exemplars, and one with a time before the last is not an error.
func TestExemplarsStay(t *testing.T) {
	dir := t.TempDir()
	now := time.Now().Truncate(time.Second)
	for i := range 2 {
		s, err := tsdb.Open(tsdb.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		one := sample1("a", now.Add(time.Duration(i)*time.Second), 1)
		one.Exemplars = []prompb.Exemplar{exemplar1(now.Add(time.Duration(-2*i)*time.Hour), float64(i), "one")}
		r := post(t, Handler(Options{Store: s}), kind1, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{one}})
		if r.Code != 204 {
			t.Errorf("%d %s", r.Code, r.Body)
		}
		if got := exemplarsOf(t, s, "a"); len(got) != i+1 || !slices.Contains(got, `0 {trace_id="one"}`) {
			t.Errorf("opened %d times: %q", i+1, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
