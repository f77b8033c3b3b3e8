package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	widest     = 140 // columns
	mostFields = 30  // of a struct
)

// TestGates holds the size of the hand-written code to the limits in gates.txt.
func TestGates(t *testing.T) {
	limits := gates(t)
	measured, examples := measureCode(t, filepath.Join("..", ".."))
	for name, limit := range limits {
		got, ok := measured[name]
		switch {
		case strings.HasPrefix(name, "flags-"): // held where the commands are
			continue
		case !ok:
			t.Errorf("gates.txt: unknown limit %q", name)
		case got > limit:
			t.Errorf("%s: %d, at most %d by internal/archtest/gates.txt\n\t%s", name, got, limit, strings.Join(examples[name], "\n\t"))
		}
		t.Logf("%s: %d of %d", name, got, limit)
	}
}

// gates reads gates.txt: a name, a number and what it counts.
func gates(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("gates.txt")
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]int{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		n, err := strconv.Atoi(words[1])
		if err != nil || len(words) < 4 {
			t.Fatalf("gates.txt: %q: want a name, a number and what it counts", line)
		}
		limits[words[0]] = n
	}
	return limits
}

// measureCode counts what gates.txt limits, and gives some examples of each.
func measureCode(t *testing.T, root string) (measured map[string]int, examples map[string][]string) {
	t.Helper()
	measured, examples = map[string]int{"lines": 0, "wide": 0, "fields": 0}, map[string][]string{}
	found := func(name, format string, args ...any) {
		measured[name]++
		if len(examples[name]) < 20 {
			examples[name] = append(examples[name], fmt.Sprintf(format, args...))
		}
	}
	goFiles(t, root, func(path string) error {
		if strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(text, []byte("// Code generated ")) || bytes.Contains(text, []byte("\n// Code generated ")) {
			return nil
		}
		if strings.Contains(filepath.ToSlash(path), "/flux/") { // the try of a second batch system, counted by its issue
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		quoted := map[int]bool{} // lines of a text in backquotes, such as a statement of SQL
		ast.Inspect(file, func(node ast.Node) bool {
			if l, ok := node.(*ast.BasicLit); ok && strings.HasPrefix(l.Value, "`") {
				for n := fset.Position(l.Pos()).Line; n <= fset.Position(l.End()).Line; n++ {
					quoted[n] = strings.Contains(l.Value, "\n")
				}
			}
			return true
		})
		n := 0
		for line := range bytes.Lines(text) {
			n++
			if w := utf8.RuneCount(bytes.ReplaceAll(bytes.TrimRight(line, "\n"), []byte("\t"), []byte("    "))); w > widest && !quoted[n] {
				found("wide", "%s:%d: %d columns", path, n, w)
			}
		}
		measured["lines"] += n
		ast.Inspect(file, func(node ast.Node) bool {
			if s, ok := node.(*ast.StructType); ok && s.Fields.NumFields() > mostFields {
				found("fields", "%s: a struct of %d fields", fset.Position(s.Pos()), s.Fields.NumFields())
			}
			return true
		})
		return nil
	})
	return measured, examples
}

// goFiles calls do for each Go file of the repository, without test data and build outputs.
func goFiles(t *testing.T, root string, do func(path string) error) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "bin" || name == "dist"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		return do(path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDecisionsAreListed holds that the index names every decision.
func TestDecisionsAreListed(t *testing.T) {
	dir := filepath.Join("..", "..", "doc", "decisions")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "0*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d decisions, %v", len(pages), err)
	}
	for _, page := range pages {
		if !bytes.Contains(index, []byte("("+filepath.Base(page)+")")) {
			t.Errorf("doc/decisions/README.md does not list %s", filepath.Base(page))
		}
	}
}
