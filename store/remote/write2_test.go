package remote

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/storage"

	"reckon/store/storetest"
)

// receiver accepts remote write 2.0, as specified, or 1.0 only.
type receiver struct {
	answer func(w http.ResponseWriter, samples int)

	mu  sync.Mutex
	one []prompb.WriteRequest
	two []writev2.Request
}

func (v *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	packed, err := io.ReadAll(r.Body)
	raw, bad := s2.Decode(nil, packed)
	if err != nil || bad != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.Header.Get("X-Prometheus-Remote-Write-Version") == "2.0.0" && r.Header.Get("Content-Type") == "application/x-protobuf;proto=io.prometheus.write.v2.Request" {
		var req writev2.Request
		if req.Unmarshal(raw) != nil {
			http.Error(w, "not 2.0", http.StatusBadRequest)
			return
		}
		v.two = append(v.two, req)
		n := 0
		for _, ts := range req.Timeseries {
			n += len(ts.Samples)
		}
		v.answer(w, n)
		return
	}
	var req prompb.WriteRequest
	if proto.Unmarshal(raw, &req) != nil {
		http.Error(w, "not 1.0", http.StatusBadRequest)
		return
	}
	v.one = append(v.one, req)
}

func written(w http.ResponseWriter, n int) {
	w.Header().Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(n))
	w.WriteHeader(http.StatusNoContent)
}

// Remote write 2.0 carries descriptions, start times of counters, and exemplars.
func TestWrite2(t *testing.T) {
	v := &receiver{answer: written}
	srv := httptest.NewServer(v)
	defer srv.Close()
	s := openAt(t, srv.URL+"?protocol=2.0")
	now := time.Now().UnixMilli()
	must(t, s.Describe("requests_total", metadata.Metadata{Type: "counter", Help: "Requests.", Unit: "requests"}))
	ls := labels.FromStrings("__name__", "requests_total", "node", "n1")
	app := s.AppenderV2(t.Context())
	for _, x := range []struct {
		t int64
		v float64
	}{{now - 2000, 0}, {now, 3}} { // the first is its initial zero
		_, err := app.Append(0, ls, 0, x.t, x.v, nil, nil, storage.AOptions{})
		must(t, err)
	}
	_, err := app.(storage.ExemplarAppender).AppendExemplar(0, ls, exemplar.Exemplar{Labels: labels.FromStrings("trace_id", "abc"), Value: 1, Ts: now})
	must(t, err)
	must(t, app.Commit())
	if len(v.one) != 0 || len(v.two) != 2 {
		t.Fatalf("%d requests of 1.0, %d of 2.0", len(v.one), len(v.two))
	}
	req := v.two[1]
	b := labels.NewScratchBuilder(4)
	ts := req.Timeseries[0]
	if got, err := ts.ToLabels(&b, req.Symbols); err != nil || !labels.Equal(got, ls) {
		t.Errorf("labels %s, %v", got, err)
	}
	if m, err := ts.ToMetadata(req.Symbols); err != nil || m.Type != "counter" || m.Help != "Requests." || m.Unit != "requests" {
		t.Errorf("described as %+v, %v", m, err)
	}
	if len(ts.Samples) != 1 || ts.Samples[0].Value != 3 || ts.Samples[0].StartTimestamp != now-2000 {
		t.Errorf("samples %+v", ts.Samples)
	}
	if e, err := ts.Exemplars[0].ToExemplar(&b, req.Symbols); err != nil || e.Labels.Get("trace_id") != "abc" || e.Value != 1 || e.Ts != now {
		t.Errorf("exemplar %+v, %v", e, err)
	}
}

// A server with support for 1.0 only gets that, and nothing is lost: whether it returns an
// error, or takes the request for an empty one.
func TestWrite2Unknown(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, int){
		"says so":         func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusUnsupportedMediaType) },
		"takes it, empty": func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusNoContent) },
	} {
		v := &receiver{answer: answer}
		srv := httptest.NewServer(v)
		s := openAt(t, srv.URL+"?protocol=2.0")
		for range 2 {
			must(t, s.Append(t.Context(), nil, gaugeBatch(time.Now(), "sda")))
		}
		if len(v.two) != 1 || len(v.one) != 2 || len(v.one[0].Timeseries) != 1 {
			t.Errorf("%s: %d requests of 2.0, %d of 1.0", name, len(v.two), len(v.one))
		}
		srv.Close()
	}
}

// TestWrite2Prometheus writes to a Prometheus that is older than 2.0.
func TestWrite2Prometheus(t *testing.T) {
	s := openAt(t, "http://"+storetest.Prometheus(t)+"?protocol=2.0")
	now := time.Now()
	must(t, s.Append(t.Context(), nil, gaugeBatch(now, "sda")))
	q, err := s.Querier(now.Add(-time.Minute).UnixMilli(), now.UnixMilli())
	must(t, err)
	set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", gauge.Name))
	if !set.Next() {
		t.Errorf("nothing arrived: %v", set.Err())
	}
}
