package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestDemoProgress: while the demo is written, its address responds to people with a progress bar and to programs with
// 503, and the server takes over the address without a refused connection.
func TestDemoProgress(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("no loopback network here:", err)
	}
	defer ln.Close()
	p, err := startProgress(ln)
	if err != nil {
		t.Fatal(err)
	}
	p.setShare(0.42)
	get := func(accept string) (int, string) {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String()+"/", nil)
		r.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if code, text := get("text/html"); code != 503 || !strings.Contains(text, `value="0.420"`) || !strings.Contains(text, `http-equiv="refresh"`) {
		t.Errorf("%d %s", code, text)
	}
	if code, text := get("application/json"); code != 503 || !strings.Contains(text, "42 % after") {
		t.Errorf("%d %s", code, text)
	}
	p.setShare(7) // never more than 1
	if _, text := get("application/json"); !strings.Contains(text, "100 % after") {
		t.Error(text)
	}
	p.stop()
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the site") })}
	go func() { _ = s.Serve(ln) }()
	defer s.Close()
	if code, text := get("text/html"); code != 200 || text != "the site" {
		t.Errorf("after it: %d %s", code, text)
	}
}
