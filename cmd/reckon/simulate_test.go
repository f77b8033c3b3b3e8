package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// call runs the program and returns its output.
func call(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = execute(t.Context(), deps{stdin: strings.NewReader(""), stdout: &o, stderr: &e, getenv: func(string) string { return "" }}, args)
	return o.String(), e.String(), code
}

func TestSimulate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	out, errs, code := call(t, "simulate", "--nodes", "4", "--jobs", "30", "--for", "2h", "--export", "1m", "--tick", "30s", "--data", dir)
	if code != 0 || !strings.Contains(out, `Site "simulated", simulated: 4 nodes with 32 cores`) ||
		!strings.Contains(out, "30 jobs in 2h") || !strings.Contains(out, "reckon serve --data "+dir) {
		t.Fatalf("code %d\n%s\n%s", code, out, errs)
	}
	for _, f := range []string{"series", "catalogue.db"} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Error(err)
		}
	}
	// One node in eight has GPUs, or none.
	for _, tt := range []struct {
		args []string
		want string
	}{{nil, ", 1 of them with GPUs,"}, {[]string{"--gpu-nodes", "0"}, ", 0 of them with GPUs,"},
		{[]string{"--gpu-nodes", "2"}, ", 2 of them with GPUs,"}} {
		args := append([]string{"simulate", "--nodes", "8", "--jobs", "8", "--for", "10m", "--data", filepath.Join(t.TempDir(), "site")},
			tt.args...)
		if out, errs, code := call(t, args...); code != 0 || !strings.Contains(out, tt.want) {
			t.Errorf("%v: code %d, want %q\n%s%s", args, code, tt.want, out, errs)
		}
	}
	for want, args := range map[string][]string{
		"--gpu-nodes -1: give 0":    {"simulate", "--gpu-nodes", "-1"},
		"write it like 1x":          {"simulate", "--speed", "fast"},
		"not both":                  {"simulate", "--data", dir, "--push", "http://127.0.0.1:1"},
		"give one minute to a year": {"simulate", "--for", "1s"},
		"nodes: give":               {"simulate", "--nodes", "-3"},
		"no longer than the time":   {"simulate", "--tick", "1m"},
		"--from":                    {"simulate", "--from", "yesterdayish"},
		"write http://":             {"simulate", "--push", "server:9870"},
		"has no effect":             {"up", "--demo", "--replay", "x"},
	} {
		if out, errs, code := call(t, args...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%v: code %d\n%s%s", args, code, out, errs)
		}
	}
	// If no server responds, this is reported at once, with a remedy.
	if _, errs, code := call(t, "simulate", "--push", "http://127.0.0.1:1", "--nodes", "2", "--jobs", "3", "--for", "10m"); code != 1 ||
		!strings.Contains(errs, "reckon serve") {
		t.Errorf("code %d, %s", code, errs)
	}
}

func TestDemoKeepsOthers(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "mine")
	if err := os.WriteFile(own, []byte("measured"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs, code := call(t, "up", "--demo", "--data", dir, "--listen", "127.0.0.1:0")
	if code != 1 || !strings.Contains(errs, "holds data that is not from a demo") {
		t.Errorf("code %d, %s", code, errs)
	}
	if got, err := os.ReadFile(own); err != nil || string(got) != "measured" {
		t.Errorf("what was there is %q, %v", got, err)
	}
}
