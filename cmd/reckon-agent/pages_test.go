package main

import (
	"os"
	"path/filepath"
	"testing"

	"reckon/cmd/commandtest"
)

// TestPages checks README.md and the guides against the existing commands and flags.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("../../doc/guides/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no guides", err)
	}
	found := 0
	for _, page := range append(pages, "../../README.md", "../../doc/README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commandtest.FindCommands(string(text), "reckon-agent") {
			found++
			if err := commandtest.Check(newRoot(), c); err != nil {
				t.Errorf("%s:%d: %s: %v", page, c.Line, c.Text, err)
			}
		}
	}
	if found < 15 {
		t.Errorf("%d commands found in the pages, want more", found)
	}
}
