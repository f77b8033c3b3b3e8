package api_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"reckon/access"
	"reckon/web/api"
	"reckon/web/api/apitest"
)

// TestAuditOfNameless: looks of an admin without a login name are recorded, with or without a known Unix user, but not those of
// this process.
func TestAuditOfNameless(t *testing.T) {
	var got []string
	who := access.Viewer{Role: access.Admin}
	h := api.New(api.Options{
		Viewer:  func(*http.Request) (access.Viewer, error) { return who, nil },
		Backend: apitest.Site(time.Now()),
		Audit: func(r *http.Request, _, _, owner string) {
			got = append(got, access.From(r.Context()).Called()+" "+owner)
		},
	})
	look := func(login, owner, from string) {
		who.Login = login
		r := httptest.NewRequest("GET", "/api/reckon/v1/workloads?owner="+owner, nil)
		r.RemoteAddr = from
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	look("root", "ada", "@")
	look("root", "root", "@") // own work
	look("", "ada", "192.0.2.1:4711")
	look("", "ada", "") // of this process
	if want := []string{"root ada", " ada"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}
