package api_test

import (
	"strings"
	"testing"
)

func TestUnchangedAnswers(t *testing.T) {
	h := full(t)
	first := get(t, h, "/api/reckon/v1/nodes")
	tag := first.Header().Get("ETag")
	if first.Code != 200 || !strings.HasPrefix(tag, `W/"`) || first.Header().Get("Cache-Control") != "private, no-cache" {
		t.Fatalf("%d, tag %q, cache %q", first.Code, tag, first.Header().Get("Cache-Control"))
	}
	for _, have := range []string{tag, `"other", ` + tag, strings.TrimPrefix(tag, "W/")} {
		if w := get(t, h, "/api/reckon/v1/nodes", "If-None-Match", have); w.Code != 304 || w.Body.Len() != 0 {
			t.Errorf("%s: %d with %d bytes", have, w.Code, w.Body.Len())
		}
	}
	if w := get(t, h, "/api/reckon/v1/nodes", "If-None-Match", `W/"other"`); w.Code != 200 {
		t.Errorf("another tag: %d", w.Code)
	}
	bad := get(t, h, "/api/reckon/v1/nodes?nothing=1")
	if bad.Code != 400 || bad.Header().Get("ETag") != "" || bad.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(bad.Body.String(), `"title":"Bad Request"`) {
		t.Errorf("an error: %d %v %s", bad.Code, bad.Header(), bad.Body)
	}
}
