// Command build bundles the pages of reckon (../src) into ../dist.zip with esbuild as a Go library,
// so that no Node is needed; the npm packages must lie in ../node_modules (npm ci). With -check it
// writes nothing, and fails if the committed file differs or the first load exceeds its budget.
//
// It is run from the root of the module: go run ./web/ui/build
package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// firstLoad is the maximum number of compressed bytes that a browser fetches before it shows the first page.
const firstLoad = 150_000

func main() {
	check := flag.Bool("check", false, "compare with what is committed, write nothing")
	flag.Parse()
	if err := run(filepath.Join("web", "ui"), *check); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(dir string, check bool) error {
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "preact")); err != nil {
		return fmt.Errorf("%w; run npm ci in %s", err, dir)
	}
	files, err := readBuilt(dir)
	if err != nil {
		return err
	}
	total := 0
	for _, name := range append([]string{"index.html", "app.css"}, importedScripts(files, "app.js")...) {
		n, err := gzipSize(files[name])
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "%-20s %7d bytes, %6d compressed\n", name, len(files[name]), n)
		total += n
	}
	if total > firstLoad {
		return fmt.Errorf("the first load is %d bytes compressed, the budget is %d", total, firstLoad)
	}
	sum, err := sourceSum(dir)
	if err != nil {
		return err
	}
	built, err := writeZip(files, sum)
	if err != nil {
		return err
	}
	at := filepath.Join(dir, distFile)
	if !check {
		return os.WriteFile(at, built, 0o644)
	}
	if have, err := os.ReadFile(at); err != nil || !bytes.Equal(have, built) {
		return fmt.Errorf("%s does not match its sources; run make ui and commit it", at)
	}
	return nil
}

// writeZip writes files to an uncompressed zip archive. It sorts them by name, so that equal sources give equal bytes. sum
// is the digest of the sources and becomes the comment of the archive.
func writeZip(files map[string][]byte, sum string) ([]byte, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.SetComment(sum); err != nil {
		return nil, err
	}
	err := w.Close()
	return buf.Bytes(), err
}

// readBuilt returns the files by their names in the archive.
func readBuilt(dir string) (map[string][]byte, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root, EntryPointsAdvanced: []api.EntryPoint{{InputPath: "src/main.tsx", OutputPath: "app"},
			{InputPath: "src/widget.ts", OutputPath: "widget"}}, // a classic script: it imports nothing
		Outdir: "dist", Bundle: true, Splitting: true, ChunkNames: "[name]-[hash]", Format: api.FormatESModule, Target: api.ES2022,
		Charset:          api.CharsetUTF8,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true, LegalComments: api.LegalCommentsEndOfFile,
		JSX: api.JSXAutomatic, JSXImportSource: "preact", Define: map[string]string{"process.env.NODE_ENV": `"production"`},
		LogLevel: api.LogLevelWarning,
	})
	if len(result.Errors) > 0 {
		return nil, fmt.Errorf("%d errors, printed above", len(result.Errors))
	}
	files := map[string][]byte{}
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	if err := checkStyles(files); err != nil {
		return nil, err
	}
	for name, from := range map[string]string{"index.html": filepath.Join(root, "src", "index.html"),
		"icon.svg": filepath.Join(root, "src", "icon.svg")} {
		if files[name], err = os.ReadFile(from); err != nil {
			return nil, err
		}
	}
	// Preload the imports of the first script, so that they are fetched in parallel with it.
	for _, name := range importedScripts(files, "app.js")[1:] {
		files["index.html"] = bytes.Replace(files["index.html"], []byte("</head>"),
			[]byte(`  <link rel="modulepreload" href="/static/`+name+"\">\n</head>"), 1)
	}
	return files, nil
}

// imported finds the imports that a script needs before it runs; import() is loaded on demand.
var imported = regexp.MustCompile(`(?:from|import)"\./([^"]+\.js)"`)

// importedScripts returns a built script and all that it imports before it runs.
func importedScripts(files map[string][]byte, name string) []string {
	out := []string{name}
	for i := 0; i < len(out); i++ {
		for _, m := range imported.FindAllSubmatch(files[out[i]], -1) {
			if !slices.Contains(out, string(m[1])) {
				out = append(out, string(m[1]))
			}
		}
	}
	return out
}

// checkStyles returns an error if a page that is loaded later has its own styles, which nothing would load.
func checkStyles(files map[string][]byte) error {
	for name := range files {
		if strings.HasSuffix(name, ".css") && name != "app.css" {
			return fmt.Errorf("%s is loaded by nothing: import its styles where the first page does", name)
		}
	}
	return nil
}

func gzipSize(b []byte) (int, error) {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(b); err != nil {
		return 0, err
	}
	err := w.Close()
	return buf.Len(), err
}
