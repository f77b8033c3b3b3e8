package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

// A function may exceed maxFunctionLines or the cyclomatic complexity maxComplexity, but not both. A long function
// without branches is still easy to read.
const (
	maxFunctionLines = 60
	maxComplexity    = 25
)

// functionSize is the size of a function in a file.
type functionSize struct {
	place, name       string
	lines, complexity int
}

// isTooComplex reports whether the function must be split.
func (f *functionSize) isTooComplex() bool {
	return f.lines > maxFunctionLines && f.complexity > maxComplexity
}

// measureFunctions returns the functions of all modules below a directory, except generated files and tests.
func measureFunctions(root string) (out []functionSize, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			out = append(out, measureFile(files, file)...)
		}
		return nil
	})
	return out, err
}

// measureFile returns the functions of a file. A function literal counts as part of its enclosing function.
func measureFile(files *token.FileSet, file *ast.File) (out []functionSize) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		begin, end := files.Position(f.Pos()), files.Position(f.End())
		out = append(out, functionSize{place: begin.String(), name: f.Name.Name, lines: end.Line - begin.Line + 1,
			complexity: cyclomaticComplexity(f.Body)})
	}
	return out
}

// cyclomaticComplexity returns McCabe's complexity: one, plus one for each branch, loop, case and shortcut.
func cyclomaticComplexity(body *ast.BlockStmt) int {
	n := 1
	ast.Inspect(body, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
