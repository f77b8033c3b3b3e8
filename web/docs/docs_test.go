package docs

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"reckon/doc"
)

func get(t *testing.T, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// TestSections: a guide of several sections lists them, each with an address.
func TestSections(t *testing.T) {
	_, page := get(t, Path+"/energy")
	for _, want := range []string{`<nav aria-label="Sections">`, `<a href="#power-models">Power models</a> · <a href="#gpus">GPUs</a></nav>`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestEveryDocument: each document is a page with its title, every link within the guides leads somewhere, anchors too, and nothing
// needs a style or script of its own.
func TestEveryDocument(t *testing.T) {
	link := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchor := regexp.MustCompile(` id="([^"]+)"`)
	pages := map[string]string{}
	for _, topic := range doc.Topics() {
		status, page := get(t, Path+"/"+topic.Name)
		if status != http.StatusOK || !strings.Contains(page, "<h1") || len(page) < 1000 {
			t.Errorf("%s: %d, %d bytes", topic.Name, status, len(page))
		}
		if strings.Contains(page, "style=") || strings.Contains(page, "<script") {
			t.Errorf("%s needs a style or a script", topic.Name)
		}
		pages[Path+"/"+topic.Name] = page
	}
	if len(pages) < 20 {
		t.Fatal(len(pages), "documents")
	}
	images := 0
	for name, page := range pages {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			to, at, _ := strings.Cut(m[1], "#")
			switch {
			case strings.Contains(to, "://"), to == "/", to == Path, strings.HasPrefix(to, "/static/"):
				continue
			case strings.HasPrefix(to, Path+"/images/"):
				images++
				if status, _ := get(t, to); status != http.StatusOK {
					t.Errorf("%s: %s: %d", name, to, status)
				}
				continue
			case to == "":
				to = name
			}
			target, ok := pages[to]
			if !ok {
				t.Errorf("%s leads to %s, which is nothing", name, m[1])
				continue
			}
			if at == "" {
				continue
			}
			found := false
			for _, a := range anchor.FindAllStringSubmatch(target, -1) {
				found = found || a[1] == at
			}
			if !found {
				t.Errorf("%s leads to %s, which has no such heading", name, m[1])
			}
		}
	}
	t.Log(images, "pictures")
}

func TestListAndSearch(t *testing.T) {
	if status, page := get(t, Path); status != http.StatusOK || !strings.Contains(page, `href="/docs/jobs"`) {
		t.Errorf("%d %s", status, page)
	}
	if status, page := get(t, Path+"?q=page+cache"); status != http.StatusOK || !strings.Contains(strings.ToLower(page), "page cache") {
		t.Errorf("%d %s", status, page)
	}
	if _, page := get(t, Path+"?q=%3Cscript%3E"); strings.Contains(page, "<script>") {
		t.Error("the words of a search are not escaped")
	}
	if status, page := get(t, Path+"/nothing"); status != http.StatusNotFound || !strings.Contains(page, "no guide nothing") {
		t.Errorf("%d %s", status, page)
	}
}
