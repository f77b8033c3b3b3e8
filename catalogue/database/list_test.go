package database

import (
	"path/filepath"
	"testing"

	"reckon/store"
	"reckon/store/storetest"
)

func TestExact(t *testing.T) {
	for pattern, want := range map[string]string{"": "", "train": "train", "a b": "a b", "[*]x[?][[]y]": "*x?[y]", "100%": "100%"} {
		if got, one := exact(pattern); !one || got != want {
			t.Errorf("%q: %q %v", pattern, got, one)
		}
	}
	for _, pattern := range []string{"*", "tr?in", "[ab]", "x\x00", "[", "[*]*"} {
		if got, one := exact(pattern); one {
			t.Errorf("%q stands for %q alone", pattern, got)
		}
	}
}

// TestNamesOfOneOwner finds the runs with a name, also if the name looks like a pattern.
func TestNamesOfOneOwner(t *testing.T) {
	c := openAt(t, filepath.Join(t.TempDir(), "c.db"), nil)
	t.Cleanup(func() { _ = c.Close() })
	var rows []store.Workload
	for i, name := range []string{"train", "train*", "train[1]", "train", "trainer"} {
		w := storetest.Row(i)
		w.Name, w.Owner = name, []string{"alice", "alice", "alice", "bob", "alice"}[i]
		rows = append(rows, w)
	}
	if err := c.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]int{"train": 1, "train[*]": 1, "train[[]1]": 1, "train*": 4, "Train": 0, "train[*]*": 1} {
		got, total, err := c.Workloads(t.Context(), store.Filter{Owners: []string{"alice"}, Name: pattern, Sort: "-start", Limit: 10})
		if err != nil || len(got) != want || total != want {
			t.Errorf("%s: %d of %d, want %d, %v", pattern, len(got), total, want, err)
		}
	}
}
