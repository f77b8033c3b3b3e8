package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestMadeUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if _, ok := ReadSimulated(dir); ok {
		t.Error("a directory that is not there is made up")
	}
	want := Simulated{Warning: "not measured", By: "a test", Made: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Seed: 7}
	if err := MarkSimulated(dir, want); err != nil {
		t.Fatal(err)
	}
	if got, ok := ReadSimulated(dir); !ok || got != want {
		t.Errorf("got %+v, %v", got, ok)
	}
	// A mark that cannot be understood is one all the same.
	if err := os.WriteFile(filepath.Join(dir, madeUpFile), []byte("{"), 0o640); err != nil {
		t.Fatal(err)
	}
	if got, ok := ReadSimulated(dir); !ok || got.By != "" {
		t.Errorf("a broken mark: %+v, %v", got, ok)
	}
}
