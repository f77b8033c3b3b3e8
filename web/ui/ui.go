// Package ui holds the web pages: built from src by the program in build, committed as dist.zip and
// embedded, so that neither go build nor a running server needs Node or the internet. The pages
// hold no figures themselves; they query the HTTP API as the viewer who is signed in. Its functions
// are safe for concurrent use.
package ui

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"encoding/json"
	"io/fs"
)

//go:embed dist.zip
var dist []byte

//go:embed src/places.json
var places []byte

// Files returns the built pages. index.html is a template of package html/template with the fields .Version and .Has.
// The other files are those that it refers to.
func Files() fs.FS {
	files, err := zip.NewReader(bytes.NewReader(dist), int64(len(dist)))
	if err != nil {
		panic(err) // embedded, and read by a test
	}
	return files
}

// Paths returns the paths served by index.html, listed in src/places.json. All else is in the query string.
func Paths() []string {
	var list []struct{ Path string }
	if err := json.Unmarshal(places, &list); err != nil {
		panic(err) // embedded, and read by a test
	}
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.Path
	}
	out[0] = "/{$}" // the page of the site, and nothing below it
	return out
}
