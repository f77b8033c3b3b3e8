package push

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"reckon/metric"
)

// receiver is a remote write endpoint that keeps the samples it accepts.
type receiver struct {
	t      *testing.T
	only1  bool // supports remote write 1.0 only, and interprets any request as that
	strict bool // refuses unknown fields

	mu     sync.Mutex
	answer []func(http.ResponseWriter) bool // one for each request with samples; false continues
	times  []int64                          // of the samples, in order of arrival
	seen   []string                         // kinds of requests with samples
	header http.Header
	took   chan struct{} // a value for each accepted request
}

func newReceiver(t *testing.T) *receiver { return &receiver{t: t, took: make(chan struct{}, 1000)} }

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, _ := io.ReadAll(req.Body)
	plain, err := s2.Decode(nil, raw)
	if err != nil || req.Header.Get("Content-Encoding") != "snappy" {
		r.t.Errorf("not snappy: %v", err)
	}
	r.header = req.Header
	v2 := strings.Contains(req.Header.Get("Content-Type"), "v2.Request")
	if v2 && r.only1 && r.strict {
		http.Error(w, "unknown message", http.StatusUnsupportedMediaType)
		return
	}
	var times []int64
	if v2 && !r.only1 {
		var m writev2.Request
		if err := proto.Unmarshal(plain, &m); err != nil {
			r.t.Error(err)
		}
		for _, ts := range m.Timeseries {
			for _, s := range ts.Samples {
				times = append(times, s.Timestamp)
			}
		}
	} else {
		var m prompb.WriteRequest
		if err := proto.Unmarshal(plain, &m); err != nil {
			r.t.Error(err)
		}
		for _, ts := range m.Timeseries {
			for _, s := range ts.Samples {
				times = append(times, s.Timestamp)
			}
		}
	}
	if len(times) > 0 && len(r.answer) > 0 {
		f := r.answer[0]
		r.answer = r.answer[1:]
		if f(w) {
			return
		}
	}
	if v2 && !r.only1 {
		w.Header().Set(writtenHeader, strconv.Itoa(len(times)))
	}
	w.WriteHeader(http.StatusNoContent)
	if len(times) > 0 {
		r.times = append(r.times, times...)
		kind := "1.0"
		if v2 {
			kind = "2.0"
		}
		r.seen = append(r.seen, kind)
		r.took <- struct{}{}
	}
}

func fail(code int, text string) func(http.ResponseWriter) bool {
	return func(w http.ResponseWriter) bool {
		http.Error(w, text, code)
		return true
	}
}

func pusher(t *testing.T, dir string, endpoints ...Endpoint) *Pusher {
	t.Helper()
	p, err := Open(Config{Endpoints: endpoints, Labels: external, QueueDir: dir, UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range p.targets {
		target.soonest = time.Millisecond
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// put queues n batches of one sample, a second apart from time first.
func put(t *testing.T, p *Pusher, first, n int) {
	t.Helper()
	s := metric.NewSeries(memDesc, "unit/a")
	for i := range n {
		b := &metric.Batch{Time: time.Unix(int64(first+i), 0)}
		b.Add(s, 1)
		if err := p.Put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

// start runs p and returns a function that stops it.
func start(t *testing.T, p *Pusher) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func (r *receiver) await(n int) {
	r.t.Helper()
	for range n {
		select {
		case <-r.took:
		case <-time.After(2 * time.Minute):
			r.t.Fatal("a request did not come")
		}
	}
}

// settled waits until the sender has processed the responses.
func settled(t *testing.T, p *Pusher) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); p.Status()[0].Queue.Records > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("records wait: %+v", p.Status()[0])
		}
	}
}

// want checks that seconds first to first+n-1 arrived, once each, in order.
func (r *receiver) want(first, n int) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.times) != n {
		r.t.Fatalf("%d samples came, want %d: %v", len(r.times), n, r.times)
	}
	for i, at := range r.times {
		if at != int64(first+i)*1000 {
			r.t.Fatalf("sample %d is of %d, want %d", i, at, (first+i)*1000)
		}
	}
}

func TestProtocolIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		only1, strict bool
		want          string
	}{
		"2.0":               {false, false, "2.0"},
		"1.0, says so":      {true, true, "1.0"},
		"1.0, says nothing": {true, false, "1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			r.only1, r.strict = c.only1, c.strict
			srv := httptest.NewServer(r)
			defer srv.Close()
			p := pusher(t, t.TempDir(), Endpoint{URL: srv.URL})
			put(t, p, 100, 5)
			stop := start(t, p)
			r.await(5)
			settled(t, p)
			stop()
			r.want(100, 5)
			for _, kind := range r.seen {
				if kind != c.want {
					t.Errorf("sent by %s, want %s", kind, c.want)
				}
			}
			if s := p.Status()[0]; s.Protocol != c.want || s.Sent != 5 || s.Refused != 0 || s.LastError != "" {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Whatever temporary errors a server returns, each sample arrives once and in order.
func TestTroubleIsWaitedOut(t *testing.T) {
	for _, code := range []int{500, 502, 503, 429, 401, 403, 404, 408, 302} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			r := newReceiver(t)
			r.answer = append(r.answer, fail(code, "no"), fail(code, "no"), func(http.ResponseWriter) bool { return false }, fail(code, "no"))
			srv := httptest.NewServer(r)
			defer srv.Close()
			p := pusher(t, t.TempDir(), Endpoint{URL: srv.URL})
			put(t, p, 100, 5)
			start(t, p)
			r.await(5)
			settled(t, p)
			r.want(100, 5)
			if s := p.Status()[0]; s.Retries != 3 || s.Refused != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestUnusableIsDroppedAndCounted(t *testing.T) {
	for _, code := range []int{400, 413, 422} {
		r := newReceiver(t)
		go1 := func(http.ResponseWriter) bool { return false }
		r.answer = append(r.answer, go1, fail(code, "too old"), go1)
		srv := httptest.NewServer(r)
		p := pusher(t, t.TempDir(), Endpoint{URL: srv.URL})
		put(t, p, 100, 3)
		stop := start(t, p)
		r.await(2)
		settled(t, p)
		stop()
		srv.Close()
		if s := p.Status()[0]; s.Sent != 2 || s.Refused != 1 || s.Queue.Records != 0 {
			t.Errorf("%d: %+v", code, s)
		}
	}
}

// A server that responds 400 to everything is not a remote write receiver: nothing is dropped.
func TestWrongServerCostsNothing(t *testing.T) {
	asked := make(chan struct{}, 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "what?", http.StatusBadRequest)
		asked <- struct{}{}
	}))
	defer srv.Close()
	p := pusher(t, t.TempDir(), Endpoint{URL: srv.URL})
	put(t, p, 100, 3)
	stop := start(t, p)
	for range 20 {
		<-asked
	}
	stop()
	if s := p.Status()[0]; s.Refused != 0 || s.Queue.Records != 3 || !strings.Contains(s.LastError, "what?") {
		t.Errorf("%+v", s)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-3": 0, "soon": 0, "99999999": maxRetryAfter,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second,
		"Fri, 02 Jan 2026 03:00:00 GMT": 0,
		"Fri, 02 Jan 2027 03:00:00 GMT": maxRetryAfter,
	} {
		a := response{status: 429, header: http.Header{"Retry-After": {header}}}
		if got := a.retryAfter(now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

// Retry-After is respected: no second request is sent before its time.
func TestRetryAfterIsObeyed(t *testing.T) {
	r := newReceiver(t)
	r.answer = append(r.answer, func(w http.ResponseWriter) bool {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "slow down", http.StatusTooManyRequests)
		return true
	})
	srv := httptest.NewServer(r)
	defer srv.Close()
	p := pusher(t, t.TempDir(), Endpoint{URL: srv.URL})
	put(t, p, 100, 1)
	began := time.Now()
	start(t, p)
	r.await(1)
	if d := time.Since(began); d < time.Second {
		t.Errorf("sent again after %v", d)
	}
}

// Samples from while the server was down, also over a restart of the agent, arrive when
// it is back.
func TestServerAway(t *testing.T) {
	r := newReceiver(t)
	srv := httptest.NewUnstartedServer(r)
	url := "http://" + srv.Listener.Addr().String()
	_ = srv.Listener.Close()
	dir := t.TempDir()
	p := pusher(t, dir, Endpoint{URL: url})
	stop := start(t, p)
	put(t, p, 100, 30)
	stop()
	_ = p.Close()
	p = pusher(t, dir, Endpoint{URL: url})
	put(t, p, 130, 30)
	back := newServer(t, strings.TrimPrefix(url, "http://"), r)
	defer back.Close()
	start(t, p)
	r.await(60)
	r.want(100, 60)
}

func newServer(t *testing.T, addr string, h http.Handler) *http.Server {
	s := &http.Server{Addr: addr, Handler: h}
	go func() { _ = s.ListenAndServe() }()
	return s
}

// Each endpoint gets its own selection under its own labels, and an unreachable one
// delays no other.
func TestSeveralEndpoints(t *testing.T) {
	r := newReceiver(t)
	srv := httptest.NewServer(r)
	defer srv.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := pusher(t, t.TempDir(),
		Endpoint{Name: "away", URL: "http://127.0.0.1:1"},
		Endpoint{Name: "here", URL: srv.URL, TokenFile: token, Headers: map[string]string{"X-Scope-OrgID": "lab"}},
		Endpoint{Name: "none", URL: srv.URL, Drop: []string{"*"}},
	)
	put(t, p, 100, 4)
	start(t, p)
	r.await(4)
	r.want(100, 4)
	if got := r.header.Get("Authorization"); got != "Bearer s3cret" {
		t.Errorf("authorization %q", got)
	}
	if got := r.header.Get("X-Scope-OrgID"); got != "lab" {
		t.Errorf("tenant %q", got)
	}
	s := p.Status()
	if s[0].Queue.Records != 4 || s[2].Queue.Records != 0 {
		t.Errorf("%+v", s)
	}
	var b metric.Batch
	if err := p.Reporter().Read(&b); err != nil || len(b.Samples) < 3*8 {
		t.Errorf("%d samples about pushing, %v", len(b.Samples), err)
	}
}

func TestBadConfigurations(t *testing.T) {
	for want, e := range map[string]Endpoint{
		"write http://server:9870":  {URL: "server:9870"},
		"not by ftp":                {URL: "ftp://server/x"},
		"names no host":             {URL: "http://"},
		"address is empty":          {URL: " "},
		"holds a password":          {URL: "http://me:pw@server"},
		"protocol \"3\"":            {URL: "http://server", Protocol: "3"},
		"histograms \"x\"":          {URL: "http://server", Histograms: "x"},
		"belong together":           {URL: "https://server", TLS: TLS{CertFile: "x"}},
		"no such file":              {URL: "https://server", TLS: TLS{CAFile: "/no/such"}},
		"without password_file":     {URL: "http://server", Username: "me"},
		"is that of a folder":       {URL: "http://server", Name: "../x"},
		"the brace is not closed":   {URL: "http://server", Keep: []string{"a{"}},
		"the part after # is never": {URL: "http://server/#x"},
		"is not an address: invali": {URL: "http://server:port"},
	} {
		_, err := Open(Config{Endpoints: []Endpoint{e}, QueueDir: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", e, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("the password is in %v", err)
		}
	}
	_, err := Open(Config{Endpoints: []Endpoint{{URL: "http://a"}, {URL: "http://a/"}}, QueueDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "both are called") {
		t.Error(err)
	}
}
