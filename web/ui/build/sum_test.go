package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommittedIsBuiltFromSources fails when somebody changed a source, or a built file,
// and did not build: it needs no npm. Where npm is, script/ui builds and compares.
func TestCommittedIsBuiltFromSources(t *testing.T) {
	dir := ".."
	files := map[string][]byte{}
	entries, err := os.ReadDir(filepath.Join(dir, "dist"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, "dist", e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	want, err := sums(dir, files)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(dir, sumFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("web/ui/%s does not belong to web/ui/src and web/ui/dist; run make ui (it needs npm) and commit web/ui\nhave:\n%swant:\n%s", sumFile, have, want)
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
		b, err := sums(dir, map[string][]byte{"app.js": []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
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
	if _, err := sums(dir, nil); err == nil {
		t.Error("a go.mod without esbuild is taken")
	}
}
