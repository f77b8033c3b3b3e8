package main

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommittedIsBuiltFromSources fails when a source changed and the pages were not built again: it needs no npm. Where npm is, script/ui builds and compares.
func TestCommittedIsBuiltFromSources(t *testing.T) {
	want, err := sourceSum("..")
	if err != nil {
		t.Fatal(err)
	}
	built, err := zip.OpenReader(filepath.Join("..", distFile))
	if err != nil {
		t.Fatal(err)
	}
	defer built.Close()
	if built.Comment != want {
		t.Errorf("web/ui/%s was not built from web/ui/src; run make ui (it needs npm) and commit it\nhave %s\nwant %s", distFile, built.Comment, want)
	}
}

// TestSumSeesEveryChange changes one byte at each place that counts.
func TestSumSeesEveryChange(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "web", "ui")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base := map[string]string{
		"go.mod": "require (\n\tgithub.com/evanw/esbuild v0.1.0 // indirect\n)\n", "web/ui/src/a.ts": "1", "web/ui/src/pages/b.tsx": "2",
		"web/ui/package-lock.json": "{}", "web/ui/build/main.go": "package main", "web/ui/build/sum.go": "package main",
	}
	for name, text := range base {
		write(name, text)
	}
	sum := func() string {
		t.Helper()
		text, err := sourceSum(dir)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	first := sum()
	if sum() != first {
		t.Fatal("the same sources give two sums")
	}
	for name, text := range base {
		write(name, strings.Replace(text+" ", "v0.1.0", "v0.1.1", 1))
		if sum() == first {
			t.Errorf("a change of %s is not seen", name)
		}
		write(name, text)
	}
	write("go.mod", "module x\n")
	if _, err := sourceSum(dir); err == nil {
		t.Error("a go.mod without esbuild is taken")
	}
}
