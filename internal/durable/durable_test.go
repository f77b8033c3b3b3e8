package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, text := range []string{"a long text", "short"} {
		if err := Replace(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("left beside it: %v, %v", left, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("rights %v, %v; want none for others", info.Mode(), err)
	}
}

// What can not be written leaves what was there.
func TestFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := Replace(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".tmp", 0o750); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new"), 0o640); err == nil {
		t.Error("no error, though the file beside it can not be written")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("%q, %v; want what was there", got, err)
	}
}
