package remote

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"reckon/store"
)

// TestHangs: a server that accepts connections and does not respond is given up long before
// the timeout, by all concurrent callers.
func TestHangs(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer srv.Close()
	defer srv.CloseClientConnections()
	s := openAt(t, srv.URL+"?timeout=1h")
	s.web.pulse.silence, s.web.pulse.grace = 10*time.Millisecond, 10*time.Millisecond
	errs := make(chan error)
	for range 8 {
		go func() { errs <- s.Check(t.Context()) }()
	}
	for range 8 {
		if err := <-errs; !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "accepts connections but does not respond") {
			t.Errorf("check: %v", err)
		}
	}
	if err := s.Down(); err == nil || !strings.Contains(err.Error(), "hangs") {
		t.Errorf("down says %v", err)
	}
}

// TestSlowLives: a server that works on a long answer and passes health checks meanwhile
// is waited for, before the answer begins and within it.
func TestSlowLives(t *testing.T) {
	for _, address := range []string{"", "victoriametrics+", "mimir+"} {
		var signs atomic.Int64
		sign := make(chan struct{}, 100)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/-/healthy", "/health", "/ready":
				signs.Add(1)
				w.WriteHeader(http.StatusNotFound) // a proxy without that path counts as alive too
				sign <- struct{}{}
				return
			}
			<-sign
			_, _ = w.Write([]byte(`{"status":"success",`))
			w.(http.Flusher).Flush()
			<-sign
			<-sign
			_, _ = w.Write([]byte(`"data":["here"]}`))
		}))
		s := openAt(t, address+srv.URL+"?timeout=1h")
		s.web.pulse.silence, s.web.pulse.grace = time.Millisecond, time.Hour
		if err := s.Check(t.Context()); err != nil || signs.Load() < 3 {
			t.Errorf("%sa slow answer: %v after %d signs of life", address, err, signs.Load())
		}
		srv.CloseClientConnections()
		srv.Close()
	}
}

// The health path is right for each kind of server, with any path prefix.
func TestHealth(t *testing.T) {
	for in, want := range map[string]string{
		"http://h:9090/prom":                    "http://h:9090/prom/-/healthy",
		"victoriametrics+http://h:8428":         "http://h:8428/health",
		"mimir+https://h?tenant=t":              "https://h/ready",
		"influxdb+http://h:8086/db":             "http://h:8086/ping",
		"influxdb2+https://h/o/b":               "https://h/ping",
		"http://h?api=http://q:1/select/0/prom": "http://q:1/select/0/prom/-/healthy",
	} {
		c, err := parseSettings(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.healthURL(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
