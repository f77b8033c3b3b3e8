package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/metric"
	"reckon/store"
	"reckon/store/tsdb"
	"reckon/transport/push"
)

var (
	cpuDesc = &metric.Desc{Name: "reckon_workload_cpu_seconds_total", Help: "CPU time.", Kind: metric.Counter, Unit: metric.Seconds,
		Labels: []string{"workload"}}
	memDesc = &metric.Desc{Name: "reckon_workload_memory_bytes", Help: "Memory.", Kind: metric.Gauge, Unit: metric.Bytes,
		Labels: []string{"workload"}}
	coresDesc = &metric.Desc{Name: "reckon_workload_cores", Help: "Cores.", Kind: metric.NativeHistogram, Unit: metric.Cores,
		Labels: []string{"workload"}}
)

func openStore(t testing.TB) *tsdb.Store {
	t.Helper()
	s, err := tsdb.Open(tsdb.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// read returns the samples of a metric as text, series by series.
func read(t testing.TB, s *tsdb.Store, name string) map[string][]string {
	t.Helper()
	q, err := s.Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	out := map[string][]string{}
	set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", name))
	for set.Next() {
		var points []string
		for it := set.At().Iterator(nil); ; {
			switch it.Next() {
			case chunkenc.ValFloat:
				at, v := it.At()
				if value.IsStaleNaN(v) {
					points = append(points, fmt.Sprintf("%d end", at))
				} else {
					points = append(points, fmt.Sprintf("%d %g", at, v))
				}
				continue
			case chunkenc.ValFloatHistogram:
				at, h := it.AtFloatHistogram(nil)
				points = append(points, fmt.Sprintf("%d count %g sum %g", at, h.Count, h.Sum))
				continue
			case chunkenc.ValHistogram:
				at, h := it.AtHistogram(nil)
				if value.IsStaleNaN(h.Sum) {
					points = append(points, fmt.Sprintf("%d end", at))
				} else {
					points = append(points, fmt.Sprintf("%d count %d sum %g", at, h.Count, h.Sum))
				}
				continue
			}
			break
		}
		out[set.At().Labels().String()] = points
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return out
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// The samples pushed by an agent are stored as if the agent had written to the store directly.
func TestPushedIsStored(t *testing.T) {
	for protocol, begins := range map[string]bool{"2.0": true, "1.0": false} {
		t.Run(protocol, func(t *testing.T) {
			s := openStore(t)
			srv := httptest.NewServer(Handler(Options{Store: s, Describe: s.Describe}))
			defer srv.Close()
			p, err := push.Open(push.Config{
				Endpoints: []push.Endpoint{{URL: srv.URL, Protocol: protocol, Histograms: "native"}},
				Labels:    map[string]string{"site": "lab", "node": "n1"}, QueueDir: t.TempDir(),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			now := time.Now().Truncate(time.Second)
			cpu := metric.NewSeries(cpuDesc, "slurm/1")
			cpu.Created = now.Add(-3 * time.Second).UnixMilli()
			mem, cores := metric.NewSeries(memDesc, "slurm/1"), metric.NewSeries(coresDesc, "slurm/1")
			h := &metric.Histogram{}
			for i := range 3 {
				b := &metric.Batch{Time: now.Add(time.Duration(i) * time.Second)}
				h.Observe(2)
				b.Add(cpu, float64(i+5))
				b.Add(mem, 7)
				b.AddHistogram(cores, h)
				b.Samples[1].Last, b.Samples[2].Last = i == 2, i == 2
				if err := p.Put(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			p.Flush(t.Context())
			if st := p.Status()[0]; st.Queue.Records != 0 || st.Refused != 0 || st.Sent != 11 {
				t.Fatalf("%+v", st)
			}
			at := now.UnixMilli()
			want := []string{fmt.Sprintf("%d 5", at), fmt.Sprintf("%d 6", at+1000), fmt.Sprintf("%d 7", at+2000)}
			if begins {
				want = append([]string{fmt.Sprintf("%d 0", at-3000)}, want...)
			}
			const l = `", node="n1", site="lab", workload="slurm/1"}`
			same(t, read(t, s, cpuDesc.Name)[`{__name__="`+cpuDesc.Name+l], want...)
			same(t, read(t, s, memDesc.Name)[`{__name__="`+memDesc.Name+l],
				fmt.Sprintf("%d 7", at), fmt.Sprintf("%d 7", at+1000), fmt.Sprintf("%d 7", at+2000), fmt.Sprintf("%d end", at+2001))
			same(t, read(t, s, coresDesc.Name)[`{__name__="`+coresDesc.Name+l],
				fmt.Sprintf("%d count 1 sum 2", at), fmt.Sprintf("%d count 2 sum 4", at+1000), fmt.Sprintf("%d count 3 sum 6", at+2000),
				fmt.Sprintf("%d end", at+2001))
			if m := s.Metadata()[cpuDesc.Name]; begins && (m.Type != "counter" || m.Help != "CPU time." || m.Unit != "seconds") {
				t.Errorf("%+v", m)
			}
		})
	}
}

func post(t testing.TB, h http.Handler, contentType string, m proto.Message) *httptest.ResponseRecorder {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return send(h, contentType, s2.EncodeSnappy(nil, raw))
}

func send(h http.Handler, contentType string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Content-Encoding", "snappy")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	kind1 = "application/x-protobuf"
	kind2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
)

func sample1(name string, at time.Time, v float64) prompb.TimeSeries {
	return prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: name}},
		Samples: []prompb.Sample{{Timestamp: at.UnixMilli(), Value: v}}}
}

// One bad sample costs no other, a repeated request is stored once, and late samples are
// accepted and reported to the views.
func TestGoodStaysBadIsNamed(t *testing.T) {
	s := openStore(t)
	h := Handler(Options{Store: s})
	now := time.Now().Truncate(time.Second)
	req := &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{
		sample1("a", now, 1),
		{Labels: []prompb.Label{{Name: "x", Value: "no name"}}, Samples: []prompb.Sample{{Timestamp: now.UnixMilli()}}},
		sample1("future", now.Add(time.Hour), 1),
		sample1("old", now.Add(-90*time.Minute), 1),
		sample1("b", now, 2),
	}}
	if w := post(t, h, kind1, req); w.Code != 400 || !strings.Contains(w.Body.String(), "2 samples refused, 3 stored") ||
		!strings.Contains(w.Body.String(), "is in the future") || !strings.Contains(w.Body.String(), `{x="no name"}`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	req.Timeseries = []prompb.TimeSeries{sample1("a", now, 1), sample1("b", now, 2)}
	for range 2 {
		if w := post(t, h, kind1, req); w.Code != 204 {
			t.Errorf("again: %d %s", w.Code, w.Body)
		}
	}
	for name, at := range map[string]time.Time{"a": now, "b": now, "old": now.Add(-90 * time.Minute)} {
		if got := read(t, s, name)[`{__name__="`+name+`"}`]; len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprint(at.UnixMilli())) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if d, err := s.Dirty(); err != nil || len(d.Hours) != 1 || !d.Hours[0].Oldest.Equal(now.Add(-90*time.Minute)) {
		t.Errorf("dirty %+v, %v", d, err)
	}
	if w := post(t, h, kind1, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{sample1("a", now, 3)}}); w.Code != 400 {
		t.Errorf("another value for the same time: %d %s", w.Code, w.Body)
	}
}

// A counter that restarts in a known series gets its zero, one that continues gets none.
func TestCounterBeginsAnew(t *testing.T) {
	s := openStore(t)
	h := Handler(Options{Store: s})
	now := time.Now().Truncate(time.Second)
	at := func(sec int) int64 { return now.Add(time.Duration(sec) * time.Second).UnixMilli() }
	for _, p := range []writev2.Sample{
		{Value: 3, Timestamp: at(0), StartTimestamp: at(-5)},
		{Value: 4, Timestamp: at(15), StartTimestamp: at(-5)},
		{Value: 1, Timestamp: at(30), StartTimestamp: at(20)},
	} {
		m := &writev2.Request{Symbols: []string{"", "__name__", "c_total"},
			Timeseries: []writev2.TimeSeries{{LabelsRefs: []uint32{1, 2}, Samples: []writev2.Sample{p}}}}
		if w := post(t, h, kind2, m); w.Code != 204 || w.Header().Get("X-Prometheus-Remote-Write-Samples-Written") != "1" {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	same(t, read(t, s, "c_total")[`{__name__="c_total"}`],
		fmt.Sprintf("%d 0", at(-5)), fmt.Sprintf("%d 3", at(0)), fmt.Sprintf("%d 4", at(15)), fmt.Sprintf("%d 0", at(20)),
		fmt.Sprintf("%d 1", at(30)))
}

func TestBadRequests(t *testing.T) {
	h := Handler(Options{Store: openStore(t), MaxBody: 1000, MaxDecoded: 5000})
	empty := s2.EncodeSnappy(nil, nil)
	for _, c := range []struct {
		name, kind string
		body       []byte
		code       int
		text       string
	}{
		{"empty 1.0", kind1, empty, 204, ""},
		{"empty 2.0", kind2, s2.EncodeSnappy(nil, []byte{4<<3 | 2, 0}), 204, ""},
		{"json", "application/json", []byte("{}"), 415, "application/x-protobuf"},
		{"another message", kind1 + ";proto=x.Y", empty, 415, `"x.Y"`},
		{"not snappy", kind1, []byte("hello, is this the server?"), 400, "snappy"},
		{"not protobuf", kind1, s2.EncodeSnappy(nil, []byte{0xff, 0xff}), 400, "no prometheus.WriteRequest"},
		{"not protobuf 2.0", kind2, s2.EncodeSnappy(nil, []byte{0xff, 0xff}), 400, "no io.prometheus.write.v2.Request"},
		{"1.0 announced as 2.0", kind2, s2.EncodeSnappy(nil, repeat(req1Series, repeat(series1Labels, []byte{10, 1, 'a'}, 1), 1)), 400,
			"of remote write 1.0"},
		{"2.0 announced as 1.0", kind1, s2.EncodeSnappy(nil, repeat(reqSymbols, []byte("a"), 1)), 400, "of remote write 2.0"},
		{"too large", kind1, make([]byte, 2000), 413, "1000 bytes"},
		{"a bomb", kind1, s2.EncodeSnappy(nil, make([]byte, 10000)), 413, "5000 bytes unpacked"},
		{"a lie about its size", kind1, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, 413, "unpacked"},
	} {
		if w := send(h, c.kind, c.body); w.Code != c.code || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/write", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %d", w.Code)
	}
	m := &writev2.Request{Symbols: []string{""},
		Timeseries: []writev2.TimeSeries{{LabelsRefs: []uint32{7, 9}, Samples: []writev2.Sample{{Value: 1, Timestamp: 1}}}}}
	if w := post(t, h, kind2, m); w.Code != 400 || w.Header().Get("X-Prometheus-Remote-Write-Samples-Written") != "0" {
		t.Errorf("symbols that are not there: %d %s", w.Code, w.Body)
	}
}

// If the store cannot write, the sender has to wait, and no request is stored in part.
func TestStoreFails(t *testing.T) {
	for err, want := range map[error]int{
		fmt.Errorf("%w: no room", store.ErrFull): 503, store.ErrClosed: 503, errors.New("oops"): 500,
	} {
		h := Handler(Options{Store: broken{err}})
		w := post(t, h, kind1, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{sample1("a", time.Now(), 1)}})
		if w.Code != want || want == 503 && w.Header().Get("Retry-After") == "" {
			t.Errorf("%v: %d, retry after %q", err, w.Code, w.Header().Get("Retry-After"))
		}
	}
	s := openStore(t)
	h := Handler(Options{Store: s})
	_ = s.Close()
	if w := post(t, h, kind1, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{sample1("a", time.Now(), 1)}}); w.Code != 503 {
		t.Errorf("closed: %d", w.Code)
	}
}

type broken struct{ err error }

func (b broken) AppenderV2(context.Context) storage.AppenderV2 { return b }
func (b broken) Append(storage.SeriesRef, labels.Labels, int64, int64, float64, *histogram.Histogram, *histogram.FloatHistogram,
	storage.AOptions) (storage.SeriesRef, error) {
	return 0, b.err
}
func (b broken) Commit() error   { return b.err }
func (b broken) Rollback() error { return nil }

// The receiver responds to any input.
func FuzzReceive(f *testing.F) {
	s := openStore(f)
	h := Handler(Options{Store: s})
	one, _ := proto.Marshal(&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{sample1("a", time.Now(), 1)}})
	two, _ := proto.Marshal(&writev2.Request{Symbols: []string{"", "__name__", "c"},
		Timeseries: []writev2.TimeSeries{
			{LabelsRefs: []uint32{1, 2}, Samples: []writev2.Sample{{Value: 1, Timestamp: time.Now().UnixMilli(), StartTimestamp: 5}},
				Histograms: []writev2.Histogram{{PositiveSpans: []writev2.BucketSpan{{Length: 1}}, PositiveDeltas: []int64{1}}}}}})
	f.Add(one, false)
	f.Add(two, true)
	f.Fuzz(func(t *testing.T, plain []byte, v2 bool) {
		kind := kind1
		if v2 {
			kind = kind2
		}
		if w := send(h, kind, s2.EncodeSnappy(nil, plain)); w.Code != 204 && w.Code != 400 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

func BenchmarkReceive(b *testing.B) {
	s := openStore(b)
	h := Handler(Options{Store: s})
	batch := &metric.Batch{}
	for i := range 2000 {
		batch.Add(metric.NewSeries(cpuDesc, fmt.Sprintf("slurm/%d", i)), 1)
	}
	e := push.NewEncoder(map[string]string{"node": "n1"}, push.Filter{})
	at := time.Now().Add(-time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(time.Millisecond)
		batch.Time = at
		var body []byte
		_ = e.Encode(batch, func(r []byte, _ int) error { body = s2.EncodeSnappy(nil, r); return nil })
		if w := send(h, kind2, body); w.Code != 204 {
			b.Fatal(w.Code, w.Body)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/sample")
}

// The traffic of a site: many nodes in turn, each with known series.
func BenchmarkReceiveSite(b *testing.B) {
	s := openStore(b)
	h := Handler(Options{Store: s, Describe: s.Describe})
	desc := &metric.Desc{Name: "reckon_workload_cpu_seconds_total", Help: "CPU time.", Kind: metric.Counter, Unit: metric.Seconds,
		Labels: []string{"workload", "kind", "owner", "part", "mode"}}
	const nodes, each = 100, 300
	type node struct {
		batch *metric.Batch
		to    *push.Encoder
	}
	var all []node
	at := time.Now().Add(-time.Hour)
	for n := range nodes {
		batch := &metric.Batch{}
		for i := range each {
			series := metric.NewSeries(desc, fmt.Sprintf("slurm/%d", n*100+i/10), "slurm", fmt.Sprintf("user%d", i%17),
				fmt.Sprintf("step%d", i%5), []string{"user", "system"}[i%2])
			series.Created = at.UnixMilli()
			batch.Add(series, 1)
		}
		all = append(all, node{batch, push.NewEncoder(map[string]string{"node": fmt.Sprintf("cpu%04d", n), "site": "lab"}, push.Filter{})})
	}
	var bodies [][]byte
	export := func() {
		at, bodies = at.Add(time.Second), bodies[:0]
		for _, n := range all {
			n.batch.Time = at
			_ = n.to.Encode(n.batch, func(r []byte, _ int) error { bodies = append(bodies, s2.EncodeSnappy(nil, r)); return nil })
		}
	}
	give := func() {
		for _, body := range bodies {
			if w := send(h, kind2, body); w.Code != 204 {
				b.Fatal(w.Code, w.Body)
			}
		}
	}
	export()
	give()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		export()
		b.StartTimer()
		give()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nodes/each, "ns/sample")
}

// A sender with a fast clock keeps its samples, and they are accepted when their time has
// come. A series in the far future, or one among good ones, blocks nothing.
func TestFastClock(t *testing.T) {
	s := openStore(t)
	now := time.Now().Truncate(time.Second)
	clock := now
	h := Handler(Options{Store: s, Clock: func() time.Time { return clock }})
	one := func(ahead ...time.Duration) *httptest.ResponseRecorder {
		req := &prompb.WriteRequest{}
		for i, d := range ahead {
			req.Timeseries = append(req.Timeseries, sample1(fmt.Sprintf("m%d", i), now.Add(d), 1))
		}
		return post(t, h, kind1, req)
	}
	if w := one(10 * time.Minute); w.Code != 204 {
		t.Errorf("10 minutes ahead: %d %s", w.Code, w.Body)
	}
	w := one(40*time.Minute, 41*time.Minute)
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "40m0s ahead") {
		t.Errorf("40 minutes ahead: %d %s", w.Code, w.Body)
	}
	if w := one(24*time.Hour + time.Second); w.Code != 400 {
		t.Errorf("beyond a day: %d %s", w.Code, w.Body)
	}
	endless := sample1("m", now, 1)
	endless.Samples[0].Timestamp = math.MaxInt64 // in another unit: no distance that a Duration holds
	if w := post(t, h, kind1, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{endless}}); w.Code != 400 ||
		strings.Contains(w.Body.String(), "s -") {
		t.Errorf("for ever: %d %s", w.Code, w.Body)
	}
	if w := one(24 * time.Hour); w.Code != 503 {
		t.Errorf("a day: %d %s", w.Code, w.Body)
	}
	if w := one(11*time.Minute, -time.Minute); w.Code != 400 || !strings.Contains(w.Body.String(), "1 samples refused, 1 stored") {
		t.Errorf("one of two: %d %s", w.Code, w.Body)
	}
	clock = now.Add(31 * time.Minute)
	if w := one(40*time.Minute, 41*time.Minute); w.Code != 204 {
		t.Errorf("when its time has come: %d %s", w.Code, w.Body)
	}
}
