package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

// otlpRequest has a counter, a gauge, an exponential histogram and a sum without temporality of node n1.
func otlpRequest(now time.Time) pmetricotlp.ExportRequest {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("service.name", "train")
	rm.Resource().Attributes().PutStr("host.name", "n1")
	rm.Resource().Attributes().PutStr("site", "lab")
	ms := rm.ScopeMetrics().AppendEmpty().Metrics()
	stamp, begin := now.UnixNano(), now.Add(-time.Minute).UnixNano()

	m := ms.AppendEmpty()
	m.SetName("steps")
	m.SetUnit("1")
	m.SetDescription("Steps done.")
	sum := m.SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	p := sum.DataPoints().AppendEmpty()
	p.SetTimestamp(pcommon.Timestamp(stamp))
	p.SetStartTimestamp(pcommon.Timestamp(begin))
	p.SetIntValue(7)

	m = ms.AppendEmpty()
	m.SetName("loss")
	g := m.SetEmptyGauge().DataPoints().AppendEmpty()
	g.SetTimestamp(pcommon.Timestamp(stamp))
	g.SetStartTimestamp(pcommon.Timestamp(begin))
	g.SetDoubleValue(0.25)

	m = ms.AppendEmpty()
	m.SetName("latency")
	m.SetUnit("s")
	eh := m.SetEmptyExponentialHistogram()
	eh.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	h := eh.DataPoints().AppendEmpty()
	h.SetTimestamp(pcommon.Timestamp(stamp))
	h.SetCount(3)
	h.SetSum(4.5)
	h.SetScale(0)
	h.Positive().SetOffset(0)
	h.Positive().BucketCounts().FromRaw([]uint64{1, 2})

	m = ms.AppendEmpty()
	m.SetName("bad.sum")
	d := m.SetEmptySum()
	d.SetIsMonotonic(true)
	d.DataPoints().AppendEmpty().SetTimestamp(pcommon.Timestamp(stamp))
	return pmetricotlp.NewExportRequestFromMetrics(md)
}

func sendOTLP(h http.Handler, kind, encoding string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/metrics", bytes.NewReader(body))
	r.Header.Set("Content-Type", kind)
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestOTLP(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for _, kind := range []string{otlpProto, otlpJSON} {
		for _, encoding := range []string{"", "gzip"} {
			t.Run(kind+encoding, func(t *testing.T) {
				s := openStore(t)
				body, err := otlpRequest(now).MarshalProto()
				if kind == otlpJSON {
					body, err = otlpRequest(now).MarshalJSON()
				}
				if err != nil {
					t.Fatal(err)
				}
				if encoding == "gzip" {
					var b bytes.Buffer
					z := gzip.NewWriter(&b)
					_, _ = z.Write(body)
					_ = z.Close()
					body = b.Bytes()
				}
				w := sendOTLP(OTLP(Options{Store: s, Describe: s.Describe}), kind, encoding, body)
				if w.Code != http.StatusOK {
					t.Fatalf("%d: %s", w.Code, w.Body)
				}
				resp := pmetricotlp.NewExportResponse()
				if kind == otlpJSON {
					err = resp.UnmarshalJSON(w.Body.Bytes())
				} else {
					err = resp.UnmarshalProto(w.Body.Bytes())
				}
				part := resp.PartialSuccess()
				if err != nil || part.RejectedDataPoints() != 1 || !strings.Contains(part.ErrorMessage(), "bad.sum has no aggregation temporality") {
					t.Errorf("%v: %d refused: %q", err, part.RejectedDataPoints(), part.ErrorMessage())
				}
				for name, want := range map[string][]string{
					"steps_total":   {fmt.Sprintf("%d 0", now.Add(-time.Minute).UnixMilli()), fmt.Sprintf("%d 7", now.UnixMilli())},
					"loss":          {fmt.Sprintf("%d 0.25", now.UnixMilli())},
					"bad_sum_total": nil,
				} {
					got := read(t, s, name)
					if want == nil {
						if len(got) != 0 {
							t.Errorf("%s: %v", name, got)
						}
						continue
					}
					if len(got) != 1 {
						t.Fatalf("%s: %v", name, got)
					}
					for ls, points := range got {
						if fmt.Sprint(points) != fmt.Sprint(want) || !strings.Contains(ls, `node="n1"`) || !strings.Contains(ls, `site="lab"`) || !strings.Contains(ls, `job="train"`) {
							t.Errorf("%s%s: %v, want %v", name, ls, points, want)
						}
					}
				}
				if got := read(t, s, "latency_seconds"); len(got) != 1 {
					t.Errorf("native histogram: %v", got)
				}
			})
		}
	}
}

// A token for another node only stores nothing.
func TestOTLPScope(t *testing.T) {
	s := openStore(t)
	body, err := otlpRequest(time.Now()).MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	h := OTLP(Options{Store: s, Allow: func(context.Context) (func(site, node string) bool, error) {
		return func(_, node string) bool { return node == "n2" }, nil
	}})
	if w := sendOTLP(h, otlpProto, "", body); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `node "n1"`) {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if got := read(t, s, "loss"); len(got) != 0 {
		t.Errorf("stored %v", got)
	}
	h = OTLP(Options{Store: s, Allow: func(context.Context) (func(site, node string) bool, error) { return nil, errors.New("revoked") }})
	if w := sendOTLP(h, otlpProto, "", body); w.Code != http.StatusForbidden {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

func TestOTLPMistakes(t *testing.T) {
	h := OTLP(Options{Store: openStore(t), MaxBody: 64, MaxDecoded: 128})
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 4096))
	_ = z.Close()
	for _, c := range []struct {
		kind, encoding string
		body           []byte
		code           int
	}{
		{"text/plain", "", nil, http.StatusUnsupportedMediaType},
		{otlpProto, "zstd", nil, http.StatusUnsupportedMediaType},
		{otlpProto, "gzip", []byte("no"), http.StatusBadRequest},
		{otlpProto, "gzip", bomb.Bytes(), http.StatusRequestEntityTooLarge},
		{otlpProto, "", make([]byte, 65), http.StatusRequestEntityTooLarge},
		{otlpProto, "", []byte{0xff}, http.StatusBadRequest},
		{otlpJSON, "", []byte("{"), http.StatusBadRequest},
		{otlpProto, "", nil, http.StatusOK},
	} {
		if w := sendOTLP(h, c.kind, c.encoding, c.body); w.Code != c.code {
			t.Errorf("%s %s: %d %s, want %d", c.kind, c.encoding, w.Code, w.Body, c.code)
		}
	}
}

func FuzzOTLP(f *testing.F) {
	b, err := otlpRequest(time.Now()).MarshalProto()
	if err != nil {
		f.Fatal(err)
	}
	j, err := otlpRequest(time.Now()).MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, false)
	f.Add(j, true)
	h := OTLP(Options{Store: openStore(f)})
	f.Fuzz(func(t *testing.T, body []byte, text bool) {
		kind := otlpProto
		if text {
			kind = otlpJSON
		}
		if w := sendOTLP(h, kind, "", body); w.Code >= 500 {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}
