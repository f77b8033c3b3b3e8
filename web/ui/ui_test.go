package ui

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Every address that the server answers has a view, and the page of the site is the first.
func TestPlacesHaveViews(t *testing.T) {
	app, err := os.ReadFile("src/app.tsx")
	if err != nil {
		t.Fatal(err)
	}
	paths := Paths()
	if paths[0] != "/{$}" || !slices.Contains(paths, "/workload") || !slices.Contains(paths, "/about") {
		t.Errorf("addresses %v", paths)
	}
	for i, p := range paths {
		if i > 0 && !strings.Contains(string(app), `"`+p+`": `) {
			t.Errorf("%s has no view in src/app.tsx", p)
		}
	}
}
