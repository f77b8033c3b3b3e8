package archtest

import (
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// findForbiddenImports reports imports by kubernetes/operator of packages of the root module that the operator may not use. Go
// itself allows imports of the root's internal/ packages, because the operator's path starts with the root's path.
func findForbiddenImports(t *Tree) (out []Violation) {
	root := filepath.Join(t.Dir, "kubernetes", "operator")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path == root:
			return nil
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(t.Dir, path)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value) // the parser accepted it
			if isBelow(imp, t.Module) && !isBelow(imp, t.Module+"/kubernetes/operator", t.Module+"/web/client", t.Module+"/metric",
				t.Module+"/workload", t.Module+"/graph") {
				out = append(out, Violation{File: filepath.ToSlash(rel), Line: fset.Position(spec.Pos()).Line, What: "imports " + imp})
			}
		}
		return nil
	})
	if err != nil {
		out = append(out, Violation{File: "kubernetes/operator", What: err.Error()})
	}
	return out
}
