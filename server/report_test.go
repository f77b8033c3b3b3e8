package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestReportAsSender: the report is made of what the sender of the request may ask, with the
// credentials of the request, and a refusal stays one.
func TestReportAsSender(t *testing.T) {
	var seen []string
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization")+" "+r.URL.Path+" "+r.Host)
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"sign in"}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	})
	for _, c := range []struct {
		path, auth, want string
		status           int
	}{
		{"/report?owner=al<ice&since=2d", "Bearer x", "<h1>al&lt;ice</h1>", 200},
		{"/report?period=week", "Bearer x", "<h1>Usage", 200},
		{"/report?owner=alice", "", "sign in", 401},
		{"/report?owner=alice&since=soon", "Bearer x", "is not a time", 400},
		{"/report?owner=alice&since=1d&until=2d", "Bearer x", "since is not before until", 400},
	} {
		r := httptest.NewRequest(http.MethodGet, strings.ReplaceAll(c.path, "<", "%3C"), nil)
		r.Host = "reckon.example"
		if c.auth != "" {
			r.Header.Set("Authorization", c.auth)
		}
		w := httptest.NewRecorder()
		reportHandler{api}.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %.200s", c.path, w.Code, w.Body)
		}
	}
	for _, s := range seen {
		if !strings.HasSuffix(s, " reckon.example") {
			t.Errorf("asked as another host: %s", s)
		}
	}
}
