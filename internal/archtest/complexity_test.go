package archtest

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestComplexity checks that no function is both long and complex.
func TestComplexity(t *testing.T) {
	list, err := measureFunctions("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 5000 {
		t.Errorf("only %d functions were found", len(list))
	}
	for i := range list {
		if f := &list[i]; f.isTooComplex() {
			t.Errorf("%s: %s has %d lines and a cyclomatic complexity of %d: split it", f.place, f.name, f.lines, f.complexity)
		}
	}
}

// TestComplexityIsCounted: what counts as a branch, and both edges of the rule.
func TestComplexityIsCounted(t *testing.T) {
	const source = `package p
func f(a, b bool, c chan int, n int) {
	if a && b || !a { // 3
	}
	for range n { // 1
	}
	for n > 0 { // 1
	}
	switch n {
	case 1, 2: // 1
	default:
	}
	select {
	case <-c: // 1
	default:
	}
	func() {
		if a { // 1
		}
	}()
}
func g()
func h() {}
`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	list := measureFile(files, file)
	if len(list) != 2 || list[0].complexity != 9 || list[0].lines != strings.Count(source, "\n")-3 || list[1].complexity != 1 {
		t.Errorf("%+v", list)
	}
	for _, c := range []struct {
		lines, complexity int
		want              bool
	}{{60, 26, false}, {61, 25, false}, {61, 26, true}} {
		if f := (functionSize{lines: c.lines, complexity: c.complexity}); f.isTooComplex() != c.want {
			t.Errorf("%+v is too complex: %v", f, !c.want)
		}
	}
}
