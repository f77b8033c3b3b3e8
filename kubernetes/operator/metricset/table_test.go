package metricset

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTableOfTests: each test that doc/metricset-tests.md names is there.
func TestTableOfTests(t *testing.T) {
	page, err := os.ReadFile("../../../doc/metricset-tests.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{"TestBed": true} // what some names begin with
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, dir := range []string{"../../../kubernetes/operator", "../../../interop/metricsetlog", "../../../test/e2e/k8s"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range declared.FindAllSubmatch(text, -1) {
				there[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	names := regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(string(page), -1)
	for _, name := range names {
		if !there[name] {
			t.Errorf("there is no %s", name)
		}
	}
	if len(names) < 60 {
		t.Errorf("%d tests are named", len(names))
	}
}
