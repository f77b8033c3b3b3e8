// Command gen generates code from the table of package figure: figure/row.go, the figures as Go
// structs, web/ui/src/lib/vocabulary.ts, the same for the pages with the workload kinds, and doc/figures.md.
// Run it with go generate ./figure.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	for path, text := range generatedFiles() {
		if err := os.WriteFile(filepath.Join("..", filepath.FromSlash(path)), text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

// generatedFiles returns the generated files by their path in the repository.
func generatedFiles() map[string][]byte {
	return map[string][]byte{"figure/row.go": goTypes(), "web/ui/src/lib/vocabulary.ts": pageTypes(), "doc/figures.md": figureList()}
}
