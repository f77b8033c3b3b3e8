package database

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/store"
	"reckon/store/storetest"
)

func TestExact(t *testing.T) {
	for pattern, want := range map[string]string{"": "", "train": "train", "a b": "a b", "[*]x[?][[]y]": "*x?[y]", "100%": "100%"} {
		if got, one := exactName(pattern); !one || got != want {
			t.Errorf("%q: %q %v", pattern, got, one)
		}
	}
	for _, pattern := range []string{"*", "tr?in", "[ab]", "x\x00", "[", "[*]*"} {
		if got, one := exactName(pattern); one {
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

// TestLasting: of process groups those that ran for a minute are listed, of other workloads all.
func TestLasting(t *testing.T) {
	c := openAt(t, filepath.Join(t.TempDir(), "c.db"), nil)
	t.Cleanup(func() { _ = c.Close() })
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	var rows []store.Workload
	for i, w := range []struct {
		id      string
		seconds int
		ended   bool
	}{
		{"group/n1/1-1", 59, true}, {"group/n1/2-2", 60, true}, {"group/n1/3-3", 59, false}, {"group/n1/4-4", 60, false},
		{"unit/a", 1, true}, {"unit/b", 1, false},
	} {
		r := storetest.Row(i)
		r.ID = w.id
		r.Kind, _, _ = strings.Cut(w.id, "/")
		r.Submit, r.Start, r.Seen, r.End = time.Time{}, at, at.Add(time.Duration(w.seconds)*time.Second), time.Time{}
		if w.ended {
			r.End = r.Seen
		}
		rows = append(rows, r)
	}
	if err := c.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		since, now time.Duration
		want       string
	}{
		{0, 59 * time.Second, "unit/a unit/b"}, {0, time.Minute, "group/n1/2-2 group/n1/3-3 group/n1/4-4 unit/a unit/b"},
		{time.Minute, time.Hour, "group/n1/2-2 group/n1/3-3 group/n1/4-4 unit/b"}, {61 * time.Second, time.Hour, "group/n1/3-3 group/n1/4-4 unit/b"},
	} {
		got, err := c.Lasting(t.Context(), at.Add(x.since), time.Time{}, at.Add(x.now), store.GroupMinimum{Ran: time.Minute})
		var ids []string
		for _, w := range got {
			ids = append(ids, w.ID)
		}
		slices.Sort(ids)
		if err != nil || strings.Join(ids, " ") != x.want {
			t.Errorf("since %s: %s, want %s, %v", x.since, ids, x.want, err)
		}
	}
}
