package api_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/ui"
)

// TestFilesAreKept: files with a hash in their names are cached for good, the others are revalidated.
func TestFilesAreKept(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range map[string]string{"index.html": "<p>", "app.js": "1", "app.css": "2", "runs-QGP3JZ7A.js": "3", "runs-tooshort.js": "4"} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	h := api.New(api.Options{Backend: apitest.Site(now), Pages: &api.Pages{Files: files, Paths: []string{"/{$}"}}})
	for name, want := range map[string]string{"app.js": "no-cache", "app.css": "no-cache", "runs-tooshort.js": "no-cache", "runs-QGP3JZ7A.js": "public, max-age=31536000, immutable"} {
		if w := get(t, h, "/static/"+name); w.Code != 200 || w.Header().Get("Cache-Control") != want {
			t.Errorf("%s: %d, %q", name, w.Code, w.Header().Get("Cache-Control"))
		}
	}
	// The files that the page refers to exist.
	h = api.New(api.Options{Backend: apitest.Site(now), Pages: &api.Pages{Files: ui.Files(), Paths: ui.Paths()}})
	names := regexp.MustCompile(`/static/[^"]+`).FindAllString(get(t, h, "/").Body.String(), -1)
	if len(names) < 4 || !strings.Contains(strings.Join(names, " "), "-") {
		t.Errorf("the page names %v", names)
	}
	for _, name := range names {
		if w := get(t, h, name); w.Code != 200 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}
