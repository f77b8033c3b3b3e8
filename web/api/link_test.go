package api_test

import (
	"testing"

	"reckon/web/api"
	"reckon/web/api/apitest"
)

// TestLinkToTheNext: a page of a list links to the next one, the last page has no link; the link keeps the parameters.
func TestLinkToTheNext(t *testing.T) {
	h := asViewer(api.Options{Backend: apitest.Site(now)})
	const path = "/api/reckon/v1/workloads"
	all := get(t, h, path, "X-Test-Viewer", "admin")
	if link := all.Header().Get("Link"); link != "" {
		t.Errorf("a whole list leads to %s", link)
	}
	for _, c := range []struct{ query, want string }{
		{"?limit=1&sort=-start", `<` + path + `?limit=1&offset=1&sort=-start>; rel="next"`},
		{"?limit=1&offset=1&sort=-start", `<` + path + `?limit=1&offset=2&sort=-start>; rel="next"`},
		{"?limit=1&offset=100000", ""},
	} {
		w := get(t, h, path+c.query, "X-Test-Viewer", "admin")
		if got := w.Header().Get("Link"); got != c.want {
			t.Errorf("%s leads to %q, want %q", c.query, got, c.want)
		}
	}
}
