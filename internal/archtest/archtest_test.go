package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func rules() []Rule { return slices.Concat(ImportRules(), CodeRules()) }

func TestArchitecture(t *testing.T) {
	tree, err := Load(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	used := make([]bool, len(Exceptions()))
	for _, r := range rules() {
		for _, v := range r.Check(tree) {
			excused := false
			for i, e := range Exceptions() {
				if e.matches(r.Name, v) {
					excused, used[i] = true, true
				}
			}
			if !excused {
				t.Errorf("%s\n\t%s: %s", v, r.Name, r.Do)
			}
		}
	}
	for i, e := range Exceptions() {
		if _, err := os.Stat(filepath.Join(tree.Dir, e.File)); err == nil && !used[i] {
			t.Errorf("exceptions.go: nothing at %s (%s) breaks %q any more; delete the exception", e.File, e.What, e.Rule)
		}
		if len(e.Reason) < 20 {
			t.Errorf("exceptions.go: %s %s: give a reason that convinces", e.Rule, e.File)
		}
	}
	checkLoaded(t, tree)
}

// checkLoaded checks that the rules had input.
func checkLoaded(t *testing.T, tree *Tree) {
	for _, path := range []string{"metric", "sensor", "internal/archtest"} {
		i := slices.IndexFunc(tree.Packages, func(p *Package) bool { return p.Path == path })
		if i < 0 || len(tree.Packages[i].Files) == 0 || len(tree.Packages[i].Deps) == 0 {
			t.Errorf("package %s was not loaded with its files and dependencies", path)
		}
	}
}

// The module in testdata/fake breaks each rule at least once, and complies with it in a
// place that looks similar. want.txt lists exactly the expected violations.
func TestRulesCanFail(t *testing.T) {
	tree, err := Load(filepath.Join("testdata", "fake"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("testdata", "fake", "want.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rules() {
		n := len(got)
		for _, v := range r.Check(tree) {
			got = append(got, r.Name+"\t"+v.String())
		}
		if len(got) == n {
			t.Errorf("rule %s finds nothing wrong in testdata/fake", r.Name)
		}
		if len(r.Do) < 40 {
			t.Errorf("rule %s does not tell what to do", r.Name)
		}
	}
	slices.Sort(got)
	want := strings.Split(strings.TrimSpace(string(data)), "\n")
	for _, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("found, not in want.txt: %s", g)
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("in want.txt, not found: %s", w)
		}
	}
}
