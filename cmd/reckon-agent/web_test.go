package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOthersNeedAPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yml")
	users := "basic_auth_users: {prom: $2y$04$2Yt4Jr0yX1xvZ0yKX0C0TO8JQJ2n7bI6rjW1o4h1mY3cVw0b7Nf2S}"
	if err := os.WriteFile(file, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		listen string
		o      webOptions
		bad    string
	}{
		{"127.0.0.1:0", webOptions{}, ""},
		{"[::1]:0", webOptions{}, ""},
		{"0.0.0.0:0", webOptions{}, "others reach the address"},
		{":0", webOptions{}, "--web-config"},
		{":0", webOptions{insecure: true}, ""},
		{":0", webOptions{config: file}, ""},
		{":0", webOptions{config: file + "x"}, "--web-config"},
	} {
		d, err := c.o.open(c.listen, slog.New(slog.DiscardHandler))
		if c.listen == "[::1]:0" && err != nil {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s %+v: %v", c.listen, c.o, err)
		}
		if err != nil {
			continue
		}
		if !strings.HasPrefix(d.address(), "http://") {
			t.Errorf("at %s", d.address())
		}
		w := httptest.NewRecorder()
		d.handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost:9000/metrics", nil))
		if want := map[bool]int{true: 401, false: 404}[c.o.config != ""]; w.Code != want {
			t.Errorf("%s %+v answers %d", c.listen, c.o, w.Code)
		}
		// A name that a foreign DNS server resolves to 127.0.0.1.
		w = httptest.NewRecorder()
		d.handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://evil.example/metrics", nil))
		if want := !c.o.insecure && c.o.config == ""; (w.Code == http.StatusForbidden) != want {
			t.Errorf("%s %+v answers %d to another name", c.listen, c.o, w.Code)
		}
		_ = d.Close()
	}
}
