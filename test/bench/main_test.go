package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplaceSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.md")
	for i, text := range []string{"one\n", "two\n"} {
		if err := replaceSection(path, "node", text); err != nil {
			t.Fatal(err)
		}
		if err := replaceSection(path, "other", "kept\n"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		want := "# Benchmarks\n\n<!-- node begin -->\n" + text + "<!-- node end -->\n\n<!-- other begin -->\nkept\n<!-- other end -->\n"
		if err != nil || string(got) != want {
			t.Errorf("round %d: got\n%s\nwant\n%s", i, got, want)
		}
	}
	if err := os.WriteFile(path, []byte("<!-- node begin -->"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceSection(path, "node", "x"); err == nil {
		t.Error("a section without an end was replaced")
	}
}

// Programs that are missing are named, and the rest goes on; the section of the area is written.
func TestWithoutPrograms(t *testing.T) {
	t.Setenv("PATH", "")
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "b.md")
	args := []string{"-bin", t.TempDir(), "-markdown", file, "node", "-idle", "0", "-busy", "0"}
	if err := run(context.Background(), args, &out); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil || strings.Count(out.String(), "Not measured: ") != 5 || !strings.Contains(string(data), out.String()) {
		t.Errorf("%v\n%s\n%s", err, &out, data)
	}
	for _, args := range [][]string{{"node", "-idle", "x"}, {"nothing"}} {
		if err := run(context.Background(), args, &out); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

// Every area takes its short flags; without public data two of them print that and end well.
func TestAreas(t *testing.T) {
	var out bytes.Buffer
	for _, a := range areas {
		err := run(context.Background(), []string{"-short", a.name, "-nosuchflag"}, &out)
		if err == nil || !strings.Contains(err.Error(), "nosuchflag") {
			t.Errorf("%s: %v: a flag of -short is not taken", a.name, err)
		}
	}
	for _, name := range []string{"foresight", "power"} {
		if err := run(context.Background(), []string{name, "-data", filepath.Join(t.TempDir(), "none")}, &out); err != nil {
			t.Errorf("%s without data: %v", name, err)
		}
	}
}
