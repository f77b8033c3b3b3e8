package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestFilesAreUpToDate(t *testing.T) {
	for path, want := range generatedFiles() {
		if have, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(path))); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is not what the table gives; run go generate ./figure and commit it (%v)", path, err)
		}
	}
}
