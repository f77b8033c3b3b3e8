package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadProjects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "projects.yaml")
	for text, want := range map[string]string{"alice: astro\nbob: genomics\n": "", "alice\n": "write a line USER: PROJECT", "alice: a\nalice: b\n": "line 2"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readProjects(file)
		if want == "" && (err != nil || got["bob"] != "genomics") || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file)) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
