package expose

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"reckon/metric"
)

func newFamily() *dto.MetricFamily { return &dto.MetricFamily{} }

func TestNegotiate(t *testing.T) {
	const prom3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
	const proto = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,"
	for accept, want := range map[string]Format{
		"":            Text,
		"*/*":         Text,
		"text/html":   Text,
		prom3:         OpenMetrics,
		proto + prom3: Protobuf,
		"application/openmetrics-text; version=2.0.0, text/plain;q=0.1":                                Text,
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text":        Text,
		"text/plain;q=0.9, application/openmetrics-text;q=0":                                           Text,
		"application/openmetrics-text;q=nan, ;;;,\xff":                                                 Text,
		"application/vnd.google.protobuf; encoding=delimited; proto=io.prometheus.client.MetricFamily": Protobuf,
	} {
		if got := Negotiate(accept); got != want {
			t.Errorf("Negotiate(%q) = %d, want %d", accept, got, want)
		}
	}
}

func get(t *testing.T, h http.Handler, method string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "/metrics", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestHandler(t *testing.T) {
	s := metric.NewSeries(memDesc, "slurm/1", "anon")
	n := 0.0
	h := Handler(func(b *metric.Batch) error {
		n++
		b.Add(s, n)
		return errors.New("one of many sensors failed")
	}, Options{})

	plain := get(t, h, "GET")
	body, _ := io.ReadAll(plain.Body)
	if plain.StatusCode != 200 || !strings.Contains(string(body), `reckon_workload_memory_bytes{workload="slurm/1",type="anon"} 1`) {
		t.Fatalf("%d\n%s", plain.StatusCode, body)
	}
	if ct := plain.Header.Get("Content-Type"); ct != Text.ContentType() {
		t.Errorf("content type %q", ct)
	}
	for range 2 { // the second answer uses the pooled writer
		zipped := get(t, h, "GET", "Accept-Encoding", "deflate, gzip;q=0.5", "Accept", "application/openmetrics-text")
		z, err := gzip.NewReader(zipped.Body)
		if err != nil {
			t.Fatal(err)
		}
		body, err = io.ReadAll(z)
		if err != nil || !strings.HasSuffix(string(body), "# EOF\n") || zipped.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%v, %q", err, body)
		}
	}
	if r := get(t, h, "GET", "Accept-Encoding", "gzip;q=0"); r.Header.Get("Content-Encoding") != "" {
		t.Error("compressed although q=0")
	}
	for _, enc := range []string{"", "gzip"} {
		r := get(t, h, "HEAD", "Accept-Encoding", enc)
		if body, _ := io.ReadAll(r.Body); r.StatusCode != 200 || len(body) != 0 {
			t.Errorf("HEAD %q: %d with %d bytes", enc, r.StatusCode, len(body))
		}
	}
	if r := get(t, h, "POST"); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") == "" {
		t.Errorf("POST: %d", r.StatusCode)
	}
}

func TestHandlerSaysWhyThereIsNothing(t *testing.T) {
	h := Handler(func(*metric.Batch) error { return errors.New("the accounts have stopped") }, Options{})
	r := get(t, h, "GET")
	body, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "the accounts have stopped") {
		t.Errorf("%d %q", r.StatusCode, body)
	}
}

func TestHandlerConcurrently(t *testing.T) {
	s := metric.NewSeries(memDesc, "slurm/1", "anon")
	n := 0 // guarded by the handler; the race detector watches
	srv := httptest.NewServer(Handler(func(b *metric.Batch) error {
		n++
		b.Add(s, float64(n))
		return nil
	}, Options{}))
	defer srv.Close()
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 {
		wg.Go(func() {
			for range 20 {
				r, err := http.Get(srv.URL)
				if err != nil {
					errs <- err
					return
				}
				body, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || !strings.HasPrefix(string(body), "# HELP") || strings.Count(string(body), "\n") != 3 {
					errs <- fmt.Errorf("%w, page %q", err, body)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if n != 160 {
		t.Errorf("%d scrapes, want 160", n)
	}
}

// TestCompressedInPieces: a page of many pieces is the same compressed as uncompressed.
func TestCompressedInPieces(t *testing.T) {
	var all []*metric.Series
	for i := range 3 * pieceSize / 60 {
		all = append(all, metric.NewSeries(memDesc, fmt.Sprintf("slurm/%d", i), "anon"), metric.NewSeries(cpuDesc, fmt.Sprintf("slurm/%d", i), "user"))
	}
	h := Handler(func(b *metric.Batch) error {
		for i, s := range all {
			b.Add(s, float64(i))
		}
		return nil
	}, Options{})
	for _, accept := range []string{"text/plain", "application/openmetrics-text"} {
		want, _ := io.ReadAll(get(t, h, "GET", "Accept", accept).Body)
		for range 2 {
			zipped := get(t, h, "GET", "Accept-Encoding", "gzip", "Accept", accept)
			z, err := gzip.NewReader(zipped.Body)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(z)
			if err != nil || string(got) != string(want) || len(want) < 3*pieceSize {
				t.Errorf("%s: %v: %d bytes, plain %d", accept, err, len(got), len(want))
			}
			if n, err := strconv.Atoi(zipped.Header.Get("Content-Length")); err != nil || n <= 0 || n > len(want) {
				t.Errorf("length %q of a page of %d bytes", zipped.Header.Get("Content-Length"), len(want))
			}
		}
	}
}

// manyRows gathers a page of many pieces.
func manyRows() func(b *metric.Batch) error {
	var all []*metric.Series
	for i := range 3 * pieceSize / 60 {
		all = append(all, metric.NewSeries(memDesc, fmt.Sprintf("slurm/%d", i), "anon"))
	}
	return func(b *metric.Batch) error {
		for i, s := range all {
			b.Add(s, float64(i))
		}
		return nil
	}
}

// TestScrapesKeepTheirMemory: a page is made in memory of the one before, also after garbage collections.
func TestScrapesKeepTheirMemory(t *testing.T) {
	h := Handler(manyRows(), Options{})
	for _, encoding := range []string{"identity", "gzip"} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept-Encoding", encoding)
		w := &nowhere{}
		h.ServeHTTP(w, r)
		before := w.n
		runtime.GC()
		runtime.GC()
		var from, to runtime.MemStats
		runtime.ReadMemStats(&from)
		h.ServeHTTP(w, r)
		runtime.ReadMemStats(&to)
		if took := to.TotalAlloc - from.TotalAlloc; took > 16<<10 {
			t.Errorf("%s: a page of %d bytes took %d bytes of new memory", encoding, w.n-before, took)
		}
	}
}

// stalling is a client that takes the first piece and then waits.
type stalling struct {
	httptest.ResponseRecorder
	began, goOn chan struct{}
	waited      bool
}

func (s *stalling) Write(b []byte) (int, error) {
	if !s.waited {
		s.waited = true
		close(s.began)
		<-s.goOn
	}
	return s.ResponseRecorder.Write(b)
}

// TestSlowClient: while a client takes its time others are answered, and the producer may go on with its histograms; the slow one
// gets the page as it was when it asked.
func TestSlowClient(t *testing.T) {
	rows := manyRows()
	cores := &metric.Histogram{}
	cores.Observe(1)
	// A family that is written last.
	series := metric.NewSeries(&metric.Desc{Name: "reckon_workload_waits", Kind: metric.NativeHistogram, Labels: []string{"workload"}}, "slurm/1")
	h := Handler(func(b *metric.Batch) error {
		_ = rows(b)
		b.AddHistogram(series, cores)
		return nil
	}, Options{})
	want, _ := io.ReadAll(get(t, h, "GET").Body)
	slow := &stalling{ResponseRecorder: *httptest.NewRecorder(), began: make(chan struct{}), goOn: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(slow, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}()
	<-slow.began
	cores.Observe(2)
	other, _ := io.ReadAll(get(t, h, "GET").Body)
	if string(other) == string(want) || len(other) < len(want) {
		t.Errorf("the other client got %d bytes of %d, or old ones", len(other), len(want))
	}
	cores.Observe(4)
	close(slow.goOn)
	<-done
	if got := slow.Body.String(); got != string(want) {
		t.Errorf("the slow client got %d bytes, want %d", len(got), len(want))
	}
}
