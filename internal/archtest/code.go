package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// CodeRules returns conventions for every package.
func CodeRules() []Rule {
	return []Rule{
		{
			"clock", "attribution, account and analysis read no clock, and answer only the one that it was given: the time comes with " +
				"the reading, so that yesterday's recording gives yesterday's answer.",
			func(t *Tree) []Violation {
				return append(t.findCalls(nonTest("answer"), "time", "Now", "Since", "Until", "Sleep"),
					t.findCalls(nonTest("account", "analysis"), "time", "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick",
						"NewTicker", "NewTimer")...)
			}},
		{
			"init", "No init functions: what must exist is made by a constructor and listed in an all package, so that two can live in " +
				"one process.",
			findInitFunctions},
		{
			"state", "No package-level variable that changes: put it into a struct that a constructor returns. Tables, errors and " +
				"descriptions that are never written to are fine.",
			findMutableState},
		{"print", "Only cmd writes to standard output and ends the program: take an io.Writer, return an error, or take a *slog.Logger.",
			func(t *Tree) []Violation {
				at := func(pkg string, f *File) bool { return !isBelow(pkg, "cmd", "test") && !f.Test }
				return slices.Concat(t.findCalls(at, "fmt", "Print", "Printf", "Println"),
					t.findCalls(at, "log", "Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln"),
					t.findCalls(at, "os", "Exit"))
			}},
		{"getenv", "The environment is read once, in cmd and in agent and server: take the value as a field of Config or Options.",
			func(t *Tree) []Violation {
				at := func(pkg string, f *File) bool {
					return !isBelow(pkg, "cmd", "test", "agent", "server") && !f.Test
				}
				return t.findCalls(at, "os", "Getenv", "LookupEnv", "Environ", "ExpandEnv")
			}},
		{
			"sleep", "No time.Sleep in tests: wait for what you need on a channel, or use testing/synctest; a pause is too short on a " +
				"busy machine and too long on all others.",
			func(t *Tree) []Violation {
				return t.findCalls(func(_ string, f *File) bool { return f.Test }, "time", "Sleep")
			}},
		{"comment", "Every package begins with a comment that says what it is, its units, its errors and who may call it from where.",
			findMissingComments},
		{
			"kinds", "No kind compared by its name outside workload/, and none listed: ask workload.Kind what it is (Batch, Person, " +
				"Service, Pod), or give the table in workload/kind.go a column.",
			findComparedKinds},
		{"length", "A file above 600 lines is split by topic; one above 400 is worth a look.",
			findLongFiles},
		{"tour", "Every folder at the root is named in ARCHITECTURE.md: say there what it is for.",
			checkRootFolders},
		{"links", "A link in a page leads to a file that exists: correct it, or write the file.",
			findBrokenLinks},
		{"paths", "A path in backticks exists: correct the page, or write the file. A part in capitals, such as NAME, stands for any.",
			findBrokenPaths},
		{"guides", "README.md leads to every guide: add a link with a word on what the guide is for.",
			findUnlinkedGuides},
	}
}

func nonTest(folders ...string) func(string, *File) bool {
	return func(pkg string, f *File) bool { return isBelow(pkg, folders...) && !f.Test }
}

// findCalls finds uses of functions of a standard library package, under any import name.
func (t *Tree) findCalls(at func(pkg string, f *File) bool, path string, names ...string) (out []Violation) {
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if f.Generated || !at(p.Path, f) {
				continue
			}
			local := importName(f, path)
			ast.Inspect(f.AST, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || local == "" || !slices.Contains(names, sel.Sel.Name) {
					return true
				}
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == local {
					out = append(out, t.violationAt(f, sel, path+"."+sel.Sel.Name))
				}
				return true
			})
		}
	}
	return out
}

func (t *Tree) violationAt(f *File, n ast.Node, text string) Violation {
	return Violation{f.Path, t.Fset.Position(n.Pos()).Line, text}
}

func importName(f *File, path string) string {
	for _, spec := range f.AST.Imports {
		if spec.Path.Value == `"`+path+`"` {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path[strings.LastIndexByte(path, '/')+1:]
		}
	}
	return ""
}

func findInitFunctions(t *Tree) (out []Violation) {
	for _, p := range t.Packages {
		for _, f := range p.Files {
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					out = append(out, t.violationAt(f, fn, "func init"))
				}
			}
		}
	}
	return out
}

// findMutableState finds package-level variables that have no initial value, have a mutable type, or
// are written by a function of the package.
func findMutableState(t *Tree) (out []Violation) {
	for _, p := range t.Packages {
		vars := map[string]Violation{}
		specs := map[*ast.ValueSpec]bool{}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, d := range f.AST.Decls {
				gen, ok := d.(*ast.GenDecl)
				if !ok || gen.Tok != token.VAR {
					continue
				}
				for _, s := range gen.Specs {
					spec := s.(*ast.ValueSpec)
					specs[spec] = true
					why := ""
					switch {
					case isEmbedded(gen, spec):
						continue
					case len(spec.Values) == 0:
						why = " has no value, so it must change"
					case usesSync(f, spec):
						why = " is made to change"
					}
					for _, name := range spec.Names {
						if name.Name != "_" {
							vars[name.Name] = t.violationAt(f, name, "var "+name.Name+why)
						}
					}
				}
			}
		}
		for name, v := range vars {
			if v.What != "var "+name {
				out = append(out, v)
			} else if w := findWrite(t, p, name, specs); w != nil {
				v.What += fmt.Sprintf(" is written to at %s:%d", w.File, w.Line)
				out = append(out, v)
			}
		}
	}
	return out
}

func isEmbedded(gen *ast.GenDecl, spec *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{gen.Doc, spec.Doc} {
		if doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed") }) {
			return true
		}
	}
	return false
}

// usesSync reports whether a declaration uses a type of sync or sync/atomic. It ignores functions such as
// sync.OnceValue, because a value that is computed once is not mutable state.
func usesSync(f *File, spec *ast.ValueSpec) bool {
	found := false
	look := func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && !strings.HasPrefix(sel.Sel.Name, "Once") &&
				(id.Name == importName(f, "sync") || id.Name == importName(f, "sync/atomic")) {
				found = true
			}
		}
		return !found
	}
	if spec.Type != nil {
		ast.Inspect(spec.Type, look)
	}
	for _, v := range spec.Values {
		if _, isFunc := v.(*ast.FuncLit); !isFunc {
			ast.Inspect(v, look)
		}
	}
	return found
}

// findWrite returns the first place where a function of p assigns to the variable or a part of it, or deletes from it.
func findWrite(t *Tree, p *Package, name string, specs map[*ast.ValueSpec]bool) (found *Violation) {
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		target := func(e ast.Expr) {
			if id := rootVariable(e); found == nil && id != nil && id.Name == name && isPackageLevel(id, specs) {
				v := t.violationAt(f, e, "")
				found = &v
			}
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, l := range n.Lhs {
						target(l)
					}
				}
			case *ast.IncDecStmt:
				target(n.X)
			case *ast.RangeStmt:
				if n.Tok == token.ASSIGN && n.Key != nil {
					target(n.Key)
				}
			case *ast.CallExpr:
				if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "delete" || fn.Name == "clear") && len(n.Args) > 0 {
					target(n.Args[0])
				}
			}
			return found == nil
		})
	}
	return found
}

// rootVariable returns the variable that an assignment changes: x in x.f[i], *x.
func rootVariable(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// isPackageLevel reports whether id refers to a package-level name rather than a local one. specs are the package-level declarations of the
// file. The parser leaves names of other files unresolved (Obj is nil), and these are always package-level.
func isPackageLevel(id *ast.Ident, specs map[*ast.ValueSpec]bool) bool {
	if id.Obj == nil {
		return true
	}
	spec, ok := id.Obj.Decl.(*ast.ValueSpec)
	return ok && specs[spec]
}

func findMissingComments(t *Tree) (out []Violation) {
	for _, p := range t.Packages {
		code := slices.ContainsFunc(p.Files, func(f *File) bool { return !f.Test })
		described := slices.ContainsFunc(p.Files, func(f *File) bool { return !f.Test && f.AST.Doc != nil && len(f.AST.Doc.Text()) > 20 })
		if code && !described {
			out = append(out, Violation{File: p.Path, What: "package without a comment"})
		}
	}
	return out
}

func findLongFiles(t *Tree) (out []Violation) {
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if n := t.Fset.File(f.AST.Pos()).LineCount(); n > 600 && !f.Generated {
				out = append(out, Violation{File: f.Path, What: fmt.Sprintf("%d lines", n)})
			}
		}
	}
	return out
}

// checkRootFolders checks the folders at the root of the repository. It skips empty folders, hidden folders and those in
// .gitignore, because they are not part of the source.
func checkRootFolders(t *Tree) (out []Violation) {
	tour, _ := os.ReadFile(filepath.Join(t.Dir, "ARCHITECTURE.md")) // if it does not exist, nothing is named
	ignored, _ := os.ReadFile(filepath.Join(t.Dir, ".gitignore"))
	entries, err := os.ReadDir(t.Dir)
	if err != nil {
		return []Violation{{File: ".", What: err.Error()}}
	}
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || strings.HasPrefix(name, ".") ||
			slices.Contains(strings.Fields(strings.ReplaceAll(string(ignored), "/", " ")), name) {
			continue
		}
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `/`).Match(tour) {
			out = append(out, Violation{File: name + "/", What: "not named in ARCHITECTURE.md"})
		}
	}
	return out
}
