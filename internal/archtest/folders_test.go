package archtest

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

// TestFolders: internal/ has few folders, and no folder at the root is most of the program.
func TestFolders(t *testing.T) {
	lines, foundations, err := countLines(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 15 || lines["sensor"] < 10_000 || !slices.Contains(foundations, "archtest") {
		t.Fatalf("%v, %v", lines, foundations)
	}
	for _, c := range crowdedFolders(lines, foundations) {
		t.Error(c)
	}
}

func TestCrowded(t *testing.T) {
	folders := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint(i))
		}
		return out
	}
	for name, tt := range map[string]struct {
		lines       map[string]int
		foundations int
		want        int
	}{
		"a fifth":               {map[string]int{"a": 20, "b": 16, "c": 16, "d": 16, "e": 16, "f": 16}, 15, 0},
		"a line more":           {map[string]int{"a": 21, "b": 16, "c": 16, "d": 16, "e": 16, "f": 15}, 15, 1},
		"sixteen folders":       {map[string]int{"a": 20, "b": 20, "c": 20, "d": 20, "e": 20}, 16, 1},
		"both, and two of them": {map[string]int{"a": 50, "b": 50}, 16, 3},
	} {
		if got := crowdedFolders(tt.lines, folders(tt.foundations)); len(got) != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
