package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// kindNames returns the names and values of the constants of package workload that are kinds.
func kindNames(t *Tree) (constants, values []string) {
	for _, p := range t.Packages {
		if p.Path != "workload" {
			continue
		}
		for _, f := range p.Files {
			ast.Inspect(f.AST, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok || len(spec.Values) != 1 {
					return true
				}
				if id, typed := spec.Type.(*ast.Ident); typed && id.Name == "Kind" {
					if text, ok := spec.Values[0].(*ast.BasicLit); ok {
						value, _ := strconv.Unquote(text.Value) // the parser accepted it
						constants, values = append(constants, spec.Names[0].Name), append(values, value)
					}
				}
				return true
			})
		}
	}
	return constants, values
}

// findComparedKinds finds code outside workload/ that compares a kind of workload by its name, or lists kinds.
func findComparedKinds(t *Tree) (out []Violation) {
	constants, values := kindNames(t)
	for _, p := range t.Packages {
		if isBelow(p.Path, "workload", "test", "store/storetest") {
			continue
		}
		for _, f := range p.Files {
			if f.Test || f.Generated {
				continue
			}
			k := kindFinder{local: importName(f, t.Module+"/workload"), constants: constants, values: values}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				for _, e := range k.kindNames(n) {
					out = append(out, t.violationAt(f, e, "kind by its name: "+k.nameOf(e)))
				}
				return true
			})
		}
	}
	return out
}

// kindFinder recognises kinds in a file: constants of package workload, which it imports as local, and their values as text.
type kindFinder struct {
	local             string
	constants, values []string
}

// kindNames returns the names of kinds that a node compares or lists.
func (k kindFinder) kindNames(n ast.Node) (out []ast.Expr) {
	compared := func(kind bool, list ...ast.Expr) {
		for _, e := range list {
			if c, text := k.isKind(e); c || text && kind {
				out = append(out, e)
			}
		}
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.EQL || n.Op == token.NEQ {
			compared(isNamedKind(n.X), n.Y)
			compared(isNamedKind(n.Y), n.X)
		}
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			compared(n.Tag != nil && isNamedKind(n.Tag), c.(*ast.CaseClause).List...)
		}
	case *ast.CompositeLit:
		if _, is := n.Type.(*ast.ArrayType); is && len(n.Elts) > 1 &&
			!slices.ContainsFunc(n.Elts, func(e ast.Expr) bool { c, text := k.isKind(e); return !c && !text }) {
			out = append(out, n.Elts[0])
		}
	case *ast.ValueSpec:
		for i, v := range n.Values {
			if i < len(n.Names) && isNamedKind(n.Names[i]) {
				compared(true, v)
			}
		}
	case *ast.CallExpr: // a matcher of the label
		for i := 1; i < len(n.Args); i++ {
			if text, ok := n.Args[i-1].(*ast.BasicLit); ok && text.Value == `"kind"` {
				if _, literal := n.Args[i].(*ast.BasicLit); literal {
					compared(true, n.Args[i])
				}
			}
		}
	}
	return out
}

// isKind reports whether an expression is a constant of package workload, converted or not, or the text of a kind.
func (k kindFinder) isKind(e ast.Expr) (constant, text bool) {
	switch e := e.(type) {
	case *ast.CallExpr: // string(workload.Slurm)
		if fn, ok := e.Fun.(*ast.Ident); ok && fn.Name == "string" && len(e.Args) == 1 {
			return k.isKind(e.Args[0])
		}
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		return ok && k.local != "" && x.Name == k.local && slices.Contains(k.constants, e.Sel.Name), false
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return false, err == nil && slices.Contains(k.values, value)
	}
	return false, false
}

// nameOf returns the text or the constant that is compared.
func (k kindFinder) nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.CallExpr:
		return k.nameOf(e.Args[0])
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.BasicLit:
		return e.Value
	}
	return ""
}

// isNamedKind reports whether an expression has the name of a kind: w.Kind, kind, id.Kind(), l.Get("kind").
func isNamedKind(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.Contains(strings.ToLower(e.Name), "kind")
	case *ast.SelectorExpr:
		return strings.Contains(strings.ToLower(e.Sel.Name), "kind")
	case *ast.CallExpr:
		return isNamedKind(e.Fun) || slices.ContainsFunc(e.Args, isNamedKind)
	case *ast.BasicLit:
		return e.Value == `"kind"`
	}
	return false
}
