// Package ui holds the pages that people see in a browser: built from src by the
// program in build, committed under dist and embedded, so that neither go build nor a
// running server needs Node or the internet. The pages hold no figures themselves; they
// ask the HTTP API as the viewer who is signed in. Its functions are safe for
// concurrent use.
package ui

import (
	"embed"
	"io/fs"
)

//go:embed dist
var dist embed.FS

// Files are index.html, a template of package html/template that is told the .Version
// and what the server .Has, and the files that it refers to.
func Files() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // "dist" is a valid path
	}
	return sub
}

// Paths are the addresses that index.html answers; what follows is in the query string.
func Paths() []string {
	return []string{"/{$}", "/nodes", "/node", "/workloads", "/workload", "/owners", "/usage", "/findings", "/power", "/data", "/explore", "/about"}
}
