package main

import (
	"slices"
	"testing"
)

func TestCommandsOf(t *testing.T) {
	given := []string{"0=python train.py --lr=1", "1=sh", "all=mpirun", "perf=fast"}
	for index, want := range map[string][]string{"0": {"perf=fast", "python train.py --lr=1"}, "1": {"perf=fast", "sh"}, "2": {"perf=fast", "mpirun"}, "": {"perf=fast", "mpirun"}} {
		got, err := selectCommands(given, index)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", index, got, err, want)
		}
	}
	if _, err := selectCommands([]string{""}, "0"); err == nil {
		t.Error("an empty command is taken")
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "4096": 4096, "4k": 4000, "4Ki": 4096, "4KiB": 4096, "1G": 1e9, "2Gi": 2 << 30} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "-1", "1X", "1.5G", "9000000Ti"} {
		if n, err := parseBytes(text); err == nil {
			t.Errorf("%q: %d", text, n)
		}
	}
}
