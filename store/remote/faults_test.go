package remote

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"

	"reckon/internal/series"
	"reckon/metric"
	"reckon/store"
	"reckon/store/storetest"
)

const hour = time.Hour

// TestFaults: whatever the other side does, the error describes it, nothing hangs, and the
// store recovers when the other side does.
func TestFaults(t *testing.T) {
	f := newFlaky(t, storetest.Prometheus(t))
	for name, c := range map[string]struct {
		fail http.HandlerFunc
		want string
	}{
		"down":  {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"full":  {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no space left on device", 500) }, "no space left"},
		"slow":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "did not answer within 200ms"},
		"busy":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, "limits the rate"},
		"token": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "token_file=FILE"},
		"path":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "answers answer 404"},
		"moved": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://else/", http.StatusFound) }, "sends us on to http://else/"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openAt(t, f.URL+"?timeout=200ms")
			f.fail(c.fail)
			for i := range 2 * maxFailures {
				if i%2 == 1 { // queries are counted separately
					if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
						t.Fatalf("check: %v, want %q", err, c.want)
					}
					continue
				}
				err := s.Append(t.Context(), nil, gaugeBatch(storetest.Now(), name))
				if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("append: %v, want %q", err, c.want)
				}
			}
			before := f.asked.Load()
			q, err := s.Querier(0, time.Now().UnixMilli())
			must(t, err)
			if set := q.Select(t.Context(), true, nil, storetest.MatchName("x")); set.Next() || !errors.Is(set.Err(),
				store.ErrUnavailable) {
				t.Errorf("query while it is away: %v", set.Err())
			}
			if f.asked.Load() != before {
				t.Error("it was asked although it had failed three times a moment ago")
			}
			if err := s.Down(); err == nil || !strings.Contains(err.Error(), "since 20") {
				t.Errorf("down says %v", err)
			}
			f.broken.Store(nil)
			for _, b := range []*breaker{&s.web.reads, &s.web.writes} {
				b.mu.Lock()
				b.next = time.Now() // as if the wait were over
				b.mu.Unlock()
			}
			s.conf.timeout = time.Minute // the machine may be busy
			must(t, s.Append(t.Context(), nil, gaugeBatch(storetest.Now(), name)))
			must(t, s.Check(t.Context()))
			if err := s.Down(); err != nil {
				t.Errorf("down after it came back: %v", err)
			}
		})
	}
}

// TestFullStoreAnswers: a store that answers queries and accepts no samples is down for
// writes but still queried; for one that accepts samples and answers no queries it is the
// reverse.
func TestFullStoreAnswers(t *testing.T) {
	f := newFlaky(t, storetest.Prometheus(t))
	s := openAt(t, f.URL)
	only := func(path string) {
		f.fail(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, path) {
				http.Error(w, "no space left on device", http.StatusInternalServerError)
				return
			}
			f.to.ServeHTTP(w, r)
		})
	}
	only("/write")
	for range maxFailures + 1 {
		if err := s.Append(t.Context(), nil, gaugeBatch(storetest.Now(), "sda")); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("append: %v", err)
		}
		must(t, s.Check(t.Context()))
	}
	err := s.Down()
	var since interface{ Since() time.Time }
	if err == nil || !strings.Contains(err.Error(), "no space left") || !errors.As(err, &since) || time.Since(since.Since()) > hour {
		t.Errorf("down says %v", err)
	}
	for at, want := range map[time.Time]int{time.Now(): 1, time.Now().Add(-2 * hour): 0} {
		q, err := s.Querier(0, at.UnixMilli())
		must(t, err)
		set := q.Select(t.Context(), true, nil, storetest.MatchName(gauge.Name))
		for set.Next() {
			continue
		}
		if err := set.Err(); err != nil || len(set.Warnings()) != want {
			t.Errorf("until %s: %v, %d warnings, want %d", at, err, len(set.Warnings()), want)
		}
	}
	only("/values")
	s = openAt(t, f.URL)
	for range maxFailures + 1 {
		if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("check: %v", err)
		}
		must(t, s.Append(t.Context(), nil, gaugeBatch(storetest.Now(), "sda")))
	}
	if err := s.Down(); err == nil {
		t.Error("down says nothing")
	}
}

// TestQueueSurvives: samples written while the other side was down, before and after a
// restart of ours, arrive complete and in order when it comes back.
func TestQueueSurvives(t *testing.T) {
	f := newFlaky(t, storetest.Prometheus(t))
	dir := t.TempDir()
	f.fail(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	open := func() *Store {
		s, err := Open(Options{URL: f.URL, Queue: dir, Natives: natives})
		must(t, err)
		return s
	}
	now := storetest.Now()
	write := func(s *Store, from, to int) {
		for k := from; k < to; k++ {
			must(t, s.Append(t.Context(), map[string]string{"node": "n1"}, gaugeBatch(now.Add(time.Duration(k)*15*time.Second), "sda", "sdb")))
		}
	}
	s := open()
	write(s, 0, 20)
	must(t, s.Close())
	s = open()
	defer s.Close()
	write(s, 20, 40)
	if n, _ := s.Waiting(); n != 40 {
		t.Errorf("%d requests wait, want 40", n)
	}
	f.broken.Store(nil)
	arrived := func() bool {
		n, _ := s.Waiting()
		return n == 0
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(2 * time.Minute); !arrived() && time.Now().Before(limit); <-tick.C {
		continue
	}
	if _, lost := s.Waiting(); lost != 0 {
		t.Errorf("%d samples lost", lost)
	}
	got := storetest.Read(t, s, now.Add(-hour), now.Add(hour), storetest.MatchName(gauge.Name))
	for k, points := range got {
		if len(points) != 40 {
			t.Errorf("%s has %d samples, want 40", k, len(points))
		}
	}
	if len(got) != 2 {
		t.Errorf("%d series, want 2", len(got))
	}
}

// TestOneBadSample: if the other side refuses a request for one sample, the others are
// stored and that one is named.
func TestOneBadSample(t *testing.T) {
	s := openAt(t, "http://"+storetest.Prometheus(t))
	now := storetest.Now()
	must(t, s.Append(t.Context(), nil, gaugeBatch(now, "d7")))
	app := s.AppenderV2(t.Context())
	for i := range 300 {
		_, err := app.Append(0, labels.FromStrings("__name__", gauge.Name, "device", fmt.Sprintf("d%d", i)), 0, now.UnixMilli(), 5, nil, nil, storage.AOptions{})
		must(t, err)
	}
	var refused *store.RefusedError
	if err := app.Commit(); !errors.As(err, &refused) || !errors.Is(err, store.ErrConflict) || refused.Refused != 1 || refused.Stored != 299 || !strings.Contains(err.Error(), `device="d7"`) {
		t.Errorf("commit: %v", err)
	}
	if got := storetest.Read(t, s, now.Add(-hour), now.Add(hour), storetest.MatchName(gauge.Name)); len(got) != 300 {
		t.Errorf("%d series, want 300", len(got))
	}
}

// TestFoldIsExact: a histogram split into a classic one is reassembled unchanged.
func TestFoldIsExact(t *testing.T) {
	var h metric.Histogram
	ls := labels.FromStrings("__name__", "h", "node", "n")
	for i := range 400 {
		h.Observe(math.Pow(1.07, float64(i)-120))
		want := series.ToNative(&h)
		g := &partialHistogram{labels: ls}
		emitClassic(ls, want.ToFloat(nil), func(part labels.Labels, v float64) {
			g.addPart(part, map[int64]float64{1: v})
		})
		if got := g.timeSeries().Histograms[0].ToIntHistogram(); !got.Equals(want) {
			t.Fatalf("after %d observations\n got %s\nwant %s", i+1, got, want)
		}
	}
	if g := (&partialHistogram{sum: map[int64]float64{1: 5}, count: map[int64]float64{1: 2}, buckets: []bucketSeries{{1,
		map[int64]float64{1: 3}}}}); g.histogramAt(1) != nil {
		t.Error("buckets that hold more than the count were believed")
	}
	stale := math.Float64frombits(value.StaleNaN)
	if g := (&partialHistogram{sum: map[int64]float64{1: stale}, count: map[int64]float64{1: stale}}); !value.IsStaleNaN(g.histogramAt(1).Sum) {
		t.Error("the marker of an end was lost")
	}
}

func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"http://h:9090":  "http://h:9090/api/v1/write http://h:9090/api/v1/read http://h:9090/api/v1",
		"http://h/prom/": "http://h/prom/api/v1/write http://h/prom/api/v1/read http://h/prom/api/v1",
		"http://h?read=query&write=/api/v1/receive":  "http://h/api/v1/receive  http://h/api/v1",
		"http://h?read=http://q:1/r&api=http://q:1/": "http://h/api/v1/write http://q:1/r http://q:1",
		"victoriametrics+http://h:8428":              "http://h:8428/api/v1/write  http://h:8428/api/v1",
		"mimir+https://h?tenant=t":                   "https://h/api/v1/push https://h/prometheus/api/v1/read https://h/prometheus/api/v1",
		"influxdb+http://h:8086/db":                  "http://h:8086/api/v1/prom/write?db=db http://h:8086/api/v1/prom/read?db=db http://h:8086/query",
		"influxdb2+https://h/o/b":                    "https://h/api/v2/write?bucket=b&org=o&precision=ms  https://h/query",
	} {
		c, err := parseSettings(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := c.write + " " + c.read + " " + c.api; got != want {
			t.Errorf("%s:\n got %s\nwant %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"localhost:9090":                        "write it like http://",
		"ftp://h":                               "unknown kind of server",
		"graphite+http://h":                     "unknown kind of server",
		"http://u:secret@h":                     "password_file",
		"http://":                               "names no host",
		"http://h?tennant=x":                    "tenant",
		"http://h?timeout=5":                    "30s",
		"http://h?timeout=-5s":                  "30s",
		"http://h?histograms=x":                 "native or classic",
		"http://h?cert_file=x":                  "key_file",
		"http://h?username=x":                   "password_file",
		"influxdb+http://h":                     "name the database",
		"influxdb2+http://h/b":                  "organisation",
		"influxdb+http://h/d?histograms=native": "not support native",
		"http://h?token_file=":                  "not empty",
		"http://h?token_file=a&username=b&password_file=c": "not both",
	} {
		err := ParseURL(in)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %q", in, err, want)
		}
	}
	if _, err := Open(Options{URL: "http://h?token_file=/none/such"}); err == nil || !strings.Contains(err.Error(), "/none/such") {
		t.Errorf("a token file that is not there: %v", err)
	}
}

// TestExportWithoutNumber: a value that is no number is read as such, and a line that cannot be read is shown.
func TestExportWithoutNumber(t *testing.T) {
	res, err := parseExport(strings.NewReader(`{"metric":{"__name__":"a","of":",NaN"},"values":[NaN,1,NaN,null],"timestamps":[1,2,3,4]}` + "\n"))
	if err != nil || len(res.Timeseries) != 1 || len(res.Timeseries[0].Samples) != 4 {
		t.Fatalf("%v %v", res, err)
	}
	for i, s := range res.Timeseries[0].Samples {
		if number := !math.IsNaN(s.Value); number != (i == 1) || value.IsStaleNaN(s.Value) != (i == 3) {
			t.Errorf("value %d is %v", i, s.Value)
		}
	}
	for _, label := range res.Timeseries[0].Labels {
		if label.Name == "of" && label.Value != ",NaN" {
			t.Errorf("the label is %q", label.Value)
		}
	}
	if _, err := parseExport(strings.NewReader("Not ready: NaN")); err == nil || !strings.Contains(err.Error(), "Not ready") {
		t.Errorf("%v does not show the line", err)
	}
}

func FuzzExport(f *testing.F) {
	f.Add([]byte(`{"metric":{"__name__":"a"},"values":[1,null,"Infinity"],"timestamps":[1,2,3]}`))
	f.Add([]byte("{\"values\":[1],\"timestamps\":[]}\n\n{"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		res, err := parseExport(strings.NewReader(string(raw)))
		if err != nil {
			return
		}
		for _, ts := range res.Timeseries {
			for i := 1; i < len(ts.Samples); i++ {
				if ts.Samples[i].Timestamp <= ts.Samples[i-1].Timestamp {
					t.Fatal("not in order")
				}
			}
		}
	})
}

func FuzzPoint(f *testing.F) {
	f.Add([]byte(`[1.5,"NaN"]`))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		var p apiSample
		_ = p.UnmarshalJSON(raw)
	})
}

func FuzzReadSamples(f *testing.F) {
	f.Add([]byte{0})
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = readSamples(strings.NewReader(string(raw)), 1<<20) })
}

// TestLineProtocolText checks labels against the syntax.
func TestLineProtocolText(t *testing.T) {
	w := (&Store{conf: &settings{kind: kindInflux2}, peer: &influx2{}}).newWriteBatch()
	w.addFloat(labels.FromStrings("__name__", "a m", "k k", `v=1,"x"`, "z", `end\`), 5, 1.5)
	raw, _, err := (&influx2{}).encode(&prompb.WriteRequest{Timeseries: w.series})
	if want := "a\\ m,k\\ k=v\\=1\\,\"x\",z=end\\\u200b value=1.5 5\n"; err != nil || string(raw) != want {
		t.Errorf("got  %q\nwant %q", raw, want)
	}
}
