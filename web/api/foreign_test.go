package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"reckon/access"
	"reckon/web/api"
	"reckon/web/api/apitest"
)

// A page of another server reads workloads only where it is listed, by GET, and with a user's token of an hour at most.
func TestForeignPages(t *testing.T) {
	const listed, path = "https://ondemand.example", "/api/reckon/v1/workloads"
	now := time.Now()
	for _, c := range []struct {
		method, path, origin string
		role                 access.Role
		life                 time.Duration
		may                  bool
	}{
		{"GET", path, listed, access.User, 59 * time.Minute, true},
		{"GET", path + "/slurm/4711", listed, access.User, time.Minute, true},
		{"OPTIONS", path, listed, access.Nobody, 0, true},
		{"OPTIONS", path, "https://evil.example", access.Nobody, 0, false},
		{"OPTIONS", "/api/reckon/v1/usage", listed, access.Nobody, 0, false},
		{"GET", path, "https://evil.example", access.User, 59 * time.Minute, false},
		{"GET", path, "null", access.User, 59 * time.Minute, false},
		{"GET", path, "", access.User, 59 * time.Minute, false},
		{"GET", path, listed, access.User, 2 * time.Hour, false},
		{"GET", path, listed, access.User, 0, false}, // a session, or a token that never expires
		{"GET", path, listed, access.Admin, 59 * time.Minute, false},
		{"GET", path, listed, access.Support, 59 * time.Minute, false},
		{"POST", path, listed, access.User, 59 * time.Minute, false},
		{"GET", "/api/reckon/v1/nodes", listed, access.User, 59 * time.Minute, false},
		{"GET", "/api/v1/query?query=up", listed, access.User, 59 * time.Minute, false},
	} {
		h := api.New(api.Options{Backend: apitest.Site(now), Origins: []string{listed}, Viewer: func(*http.Request) (access.Viewer, error) {
			v := access.Viewer{Role: c.role, Name: "alice"}
			if c.life > 0 {
				v.Until = time.Now().Add(c.life)
			}
			return v, nil
		}})
		r := httptest.NewRequest(c.method, c.path, nil)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := w.Header().Get("Access-Control-Allow-Origin")
		if want := map[bool]string{true: listed}[c.may]; got != want {
			t.Errorf("%s %s of %q as %v for %v: origin %q is allowed, want %q", c.method, c.path, c.origin, c.role, c.life, got, want)
		}
		if w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s %s: cookies are let in", c.method, c.path)
		}
	}
}
