// Package archtest enforces the architecture: which package may import which, and
// conventions that no compiler checks (ARCHITECTURE.md and doc/decisions give the
// reasons).
//
// [Load] lists the packages of a module with `go list` and parses their files, those for
// other systems and behind build tags included. Each [Rule] checks that tree. The tests
// run every rule over this module, where it must find nothing, and over the module in
// testdata/fake, where it must find the deliberate violations: a rule that cannot fail
// is useless. [Exceptions] are the few places that may break a rule, each with its
// reason; an exception that is no longer needed is an error too.
package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Tree is a module.
type Tree struct {
	Dir      string
	Module   string // its path
	Packages []*Package
	Fset     *token.FileSet
}

// Package is one package of the module.
type Package struct {
	Path  string // import path without the module: "sensor/rapl"
	Name  string
	Dir   string
	Files []*File
	Deps  []string // everything it links, as full import paths
}

// File is one Go file.
type File struct {
	Path      string // relative to the module, with slashes
	Test      bool
	Generated bool
	AST       *ast.File
	Imports   []Import
}

// Import is one import of a file.
type Import struct {
	Path string // for our own packages without the module, with "./" in front: "./sensor/rapl"
	Line int
}

// Violation is a violation of a rule.
type Violation struct {
	File string // or package, or folder
	Line int
	What string
}

// String returns the start of a line of test output.
func (v Violation) String() string {
	if v.Line == 0 {
		return v.File + ": " + v.What
	}
	return fmt.Sprintf("%s:%d: %s", v.File, v.Line, v.What)
}

// Rule is one rule.
type Rule struct {
	Name string
	// Do is the remedy, printed with a violation.
	Do    string
	Check func(*Tree) []Violation
}

// goListPackage is the output of `go list` that we use.
type goListPackage struct {
	ImportPath, Dir, Name                                              string
	GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles, Deps []string
	Module                                                             *struct{ Path, Dir string }
}

// Load reads the module that holds dir.
func Load(dir string) (*Tree, error) {
	cmd := exec.Command("go", "list", "-e",
		"-json=ImportPath,Dir,Name,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Deps,Module", "./...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list in %s: %w", dir, err)
	}
	t := &Tree{Fset: token.NewFileSet()}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l goListPackage
		if err := dec.Decode(&l); err == io.EOF {
			return t, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list in %s: %w", dir, err)
		}
		if l.Module == nil {
			return nil, fmt.Errorf("go list in %s: %s belongs to no module", dir, l.ImportPath)
		}
		t.Dir, t.Module = l.Module.Dir, l.Module.Path
		if err := t.addPackage(&l); err != nil {
			return nil, err
		}
	}
}

func (t *Tree) addPackage(l *goListPackage) error {
	p := &Package{Path: strings.TrimPrefix(strings.TrimPrefix(l.ImportPath, l.Module.Path), "/"), Name: l.Name, Dir: l.Dir, Deps: l.Deps}
	for _, name := range slices.Concat(l.GoFiles, l.CgoFiles, l.IgnoredGoFiles, l.TestGoFiles, l.XTestGoFiles) {
		full := filepath.Join(l.Dir, name)
		parsed, err := parser.ParseFile(t.Fset, full, nil, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("parse %s: %w", full, err)
		}
		rel, err := filepath.Rel(l.Module.Dir, full)
		if err != nil {
			return fmt.Errorf("parse %s: %w", full, err)
		}
		f := &File{Path: filepath.ToSlash(rel), Test: strings.HasSuffix(name, "_test.go"), Generated: ast.IsGenerated(parsed), AST: parsed}
		for _, spec := range parsed.Imports {
			path, _ := strconv.Unquote(spec.Path.Value) // the parser accepted it
			if rest, ours := strings.CutPrefix(path+"/", l.Module.Path+"/"); ours {
				path = "./" + strings.TrimSuffix(rest, "/")
			}
			f.Imports = append(f.Imports, Import{path, t.Fset.Position(spec.Pos()).Line})
		}
		p.Files = append(p.Files, f)
	}
	t.Packages = append(t.Packages, p)
	return nil
}

// isBelow reports whether path is one of the folders or below one. A folder that ends in /* matches only paths below it.
func isBelow(path string, folders ...string) bool {
	for _, f := range folders {
		below, only := strings.CutSuffix(f, "/*")
		if path == below && !only || strings.HasPrefix(path, below+"/") {
			return true
		}
	}
	return false
}

// findImports reports each import that bad matches, in the files of packages that at matches.
func (t *Tree) findImports(tests bool, at func(pkg string) bool, bad func(pkg, imp string) bool) (out []Violation) {
	for _, p := range t.Packages {
		if !at(p.Path) {
			continue
		}
		for _, f := range p.Files {
			for _, i := range f.Imports {
				if (tests || !f.Test) && bad(p.Path, i.Path) {
					out = append(out, Violation{f.Path, i.Line, "imports " + strings.TrimPrefix(i.Path, "./")})
				}
			}
		}
	}
	return out
}
