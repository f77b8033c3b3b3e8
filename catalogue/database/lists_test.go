package database

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reckon/store"
	"reckon/store/storetest"
)

// inMemory opens a catalogue that answers every list from columns.
func inMemory(tb testing.TB) *Catalogue {
	c := openAt(tb, filepath.Join(tb.TempDir(), "c.db"), nil)
	c.lists.many = 1
	return c
}

func TestConformanceFromColumns(t *testing.T) {
	storetest.Facts(t, func(tb testing.TB) store.Facts { return inMemory(tb) })
}

// identities returns rows in order, as texts that distinguish them.
func identities(rows []store.Workload) (out []string) {
	for i := range rows {
		out = append(out, fmt.Sprint(rows[i].Site, " ", rows[i].ID, " ", rows[i].Start.UnixMilli(), " ", rows[i].State, " ", rows[i].Seen.UnixMilli()))
	}
	return out
}

// agree compares the result of the columns with the database's.
func agree(t rapid.TB, c *Catalogue, f store.Filter) {
	t.Helper()
	table, err := c.lists.loadedTable(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if table == nil {
		return // there is no row
	}
	key, down := strings.CutPrefix(f.Sort, "-")
	got, n, err := c.listFromColumns(context.Background(), table, f, sortExpressions[key], down)
	if err != nil {
		t.Fatal(err)
	}
	want, all, err := c.listFromRows(context.Background(), f, sortExpressions[key], down)
	if err != nil {
		t.Fatal(err)
	}
	if n != all || !slices.Equal(identities(got), identities(want)) {
		t.Fatalf("%+v: %d and %d in all\n in memory %q\nin the file %q", f, n, all, identities(got), identities(want))
	}
}

func drawWorkload(t *rapid.T) store.Workload {
	text := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	w := storetest.Row(rapid.IntRange(0, 6).Draw(t, "row"))
	w.Site, w.Kind = text("site", "", "a"), text("kind", "slurm", "unit")
	w.Name = text("name", "train", "train-2", "[x]", "", "Übung", "a\x00b", "\xff")
	w.Owner, w.Account = text("owner", "ann", "bob", ""), text("account", "x", "y")
	w.Partition, w.Command = text("partition", "cpu", "gpu"), text("command", "python3", "python2", "R")
	w.Nodes = rapid.SliceOfN(rapid.SampledFrom([]string{"n1", "node-0010", "n2", `["n1"]`, ""}), 0, 2).Draw(t, "nodes")
	w.State = text("state", "pending", "running", "completed")
	w.Start = w.Start.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "start")) * time.Millisecond)
	if rapid.Bool().Draw(t, "open") {
		w.End = time.Time{}
	}
	switch rapid.IntRange(0, 2).Draw(t, "submit") {
	case 0:
		w.Submit = time.Time{}
	case 1:
		w.Submit = w.Start
	}
	if rapid.Bool().Draw(t, "no code") {
		w.ExitCode = nil
	}
	for _, f := range []**float64{&w.CPUSeconds, &w.EnergyJoules, &w.GPUSeconds} {
		*f = rapid.SampledFrom([]*float64{nil, new(0.0), new(0.1), new(3.0), new(1e12), new(-1.5)}).Draw(t, "figure")
	}
	return w
}

func drawFilter(t *rapid.T) store.Filter {
	mid := storetest.Row(3).Start
	var f store.Filter
	maybe := func(name string, set func()) {
		if rapid.IntRange(0, 3).Draw(t, name) == 0 {
			set()
		}
	}
	maybe("kinds", func() { f.Kinds = []string{"slurm"} })
	maybe("owners", func() { f.Owners = []string{"ann", "nobody", ""} })
	maybe("accounts", func() { f.Accounts = []string{"x"} })
	maybe("partitions", func() { f.Partitions = []string{"gpu", "none"} })
	maybe("states", func() { f.States = []string{"running", "completed"} })
	maybe("nodes", func() { f.Nodes = []string{"n1", `["n1"]`, "node-0010"} })
	maybe("name", func() {
		f.Name = rapid.SampledFrom([]string{"train", "train*", "[[]x]", "?bung", "*", "a*", "[", "[^t]*"}).Draw(t, "pattern")
	})
	maybe("command", func() { f.Command = rapid.SampledFrom([]string{"R", "python?", "none"}).Draw(t, "program") })
	maybe("since", func() { f.Since = mid.Add(time.Minute) })
	maybe("until", func() { f.Until = mid.Add(time.Millisecond) })
	maybe("cpu", func() { f.MinCPU = 0.1 })
	maybe("within", func() { f.Within, f.Until = true, time.UnixMilli(1<<53) })
	maybe("running", func() { f.Running = new(rapid.Bool().Draw(t, "runs")) })
	f.Sort = rapid.SampledFrom([]string{"", "-"}).Draw(t, "down") + rapid.SampledFrom(SortFields()).Draw(t, "sort")
	f.Limit, f.Offset = rapid.IntRange(0, 4).Draw(t, "limit"), rapid.IntRange(0, 3).Draw(t, "offset")
	return f
}

// TestColumnsAgreeWithTheDatabase: after any writes every list has the same rows in the same order, whether the
// columns followed the writes or were read after them.
func TestColumnsAgreeWithTheDatabase(t *testing.T) {
	c := inMemory(t)
	defer c.Close()
	rapid.Check(t, func(t *rapid.T) {
		if err := c.Drop(context.Background()); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 3).Draw(t, "rounds") {
			rows := rapid.SliceOfN(rapid.Custom(drawWorkload), 1, 12).Draw(t, "rows")
			if rapid.Bool().Draw(t, "moves") {
				rows[0].PreviousStarts = []time.Time{rows[len(rows)-1].Start}
				rows[0].ID, rows[0].Site = rows[len(rows)-1].ID, rows[len(rows)-1].Site
			}
			if err := c.Upsert(context.Background(), rows); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 5).Draw(t, "refused") == 0 { // a refused change changes nothing
				if err := c.Upsert(context.Background(), append(slices.Clone(rows), store.Workload{})); err == nil {
					t.Fatal("a row without an id was taken")
				}
			}
			for range 4 {
				agree(t, c, drawFilter(t))
			}
		}
	})
}

// TestColumnsFollowOtherPrograms: writes of another program to the file are in the next list.
func TestColumnsFollowOtherPrograms(t *testing.T) {
	c := inMemory(t)
	defer c.Close()
	other := openAt(t, c.path, nil)
	defer other.Close()
	for i := range 6 {
		writer := []*Catalogue{c, other, other}[i%3]
		if err := writer.Upsert(t.Context(), []store.Workload{storetest.Row(i)}); err != nil {
			t.Fatal(err)
		}
		if rows, n, err := c.Workloads(t.Context(), store.Filter{Sort: "start"}); err != nil || n != i+1 || rows[i].ID != storetest.Row(i).ID {
			t.Fatalf("%d rows after %d were written, %v", n, i+1, err)
		}
		if i%2 == 0 { // at once, not just after a while
			c.lists.mu.Lock()
			c.lists.not = time.Time{}
			c.lists.mu.Unlock()
		}
	}
}

// TestFewRowsTakeNoMemory: a small catalogue has no columns in memory.
func TestFewRowsTakeNoMemory(t *testing.T) {
	c := openAt(t, filepath.Join(t.TempDir(), "c.db"), nil)
	defer c.Close()
	rows := make([]store.Workload, 100)
	for i := range rows {
		rows[i] = storetest.Row(i)
	}
	c.lists.many = 101
	for range 2 {
		if err := c.Upsert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		if _, n, err := c.Workloads(t.Context(), store.Filter{Kinds: []string{"slurm"}}); n != 100 || err != nil {
			t.Fatal(n, err)
		}
		if c.lists.columns != nil {
			t.Fatal("100 rows are in memory")
		}
	}
	if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(100)}); err != nil {
		t.Fatal(err)
	}
	if _, n, err := c.Workloads(t.Context(), store.Filter{}); n != 101 || err != nil || c.lists.columns.Len() != 101 {
		t.Fatalf("%d rows, %v, %d in memory", n, err, c.lists.columns.Len())
	}
}

// TestListsWhileRowsAreWritten: from the first list on, which reads the columns during other writes, each
// list has only rows that the filter selects, without duplicates, and in the end all rows of the file.
func TestListsWhileRowsAreWritten(t *testing.T) {
	c := inMemory(t)
	defer c.Close()
	write := func(from, owner int) error {
		rows := make([]store.Workload, 50)
		for i := range rows {
			rows[i] = storetest.Row(from + i)
			rows[i].Owner = fmt.Sprint("user", owner)
			*rows[i].CPUSeconds = float64((from*7 + i*owner) % 31)
		}
		return c.Upsert(t.Context(), rows)
	}
	for i := range 20 {
		if err := write(i*50, i%3); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for reader := range 3 {
		wg.Go(func() {
			for i := range 40 {
				rows, n, err := c.Workloads(t.Context(), store.Filter{Owners: []string{"user1"}, Sort: []string{"-cpu_seconds", "id", "-owner"}[(i+reader)%3], Limit: 60})
				if err != nil || n < len(rows) {
					t.Errorf("%d rows of %d, %v", len(rows), n, err)
				}
				seen := map[string]bool{}
				for k := range rows {
					if rows[k].Owner != "user1" || seen[rows[k].ID] {
						t.Errorf("%s of %s is in the list, once before: %v", rows[k].ID, rows[k].Owner, seen[rows[k].ID])
					}
					seen[rows[k].ID] = true
				}
			}
		})
	}
	for i := range 40 {
		if err := write(i*25, i%3); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	for _, sort := range []string{"-cpu_seconds", "id", "nodes", "-owner"} {
		agree(t, c, store.Filter{Sort: sort, Limit: 500, Offset: 3})
		agree(t, c, store.Filter{Sort: sort, Owners: []string{"user2"}})
	}
}

// TestGlob compares our implementation of shell patterns with SQLite's.
func TestGlob(t *testing.T) {
	c := openAt(t, filepath.Join(t.TempDir(), "c.db"), nil)
	defer c.Close()
	patterns := []string{"", "*", "**", "?", "a*", "*a", "*a*b*", "[a-c]x", "[^a-c]x", "[]]", "[^]]*", "[a", "[", "a]", "[-a]", "[a-]", "[a-c-e]", "[c-a]", "??", "*?", "*[0-9]", "[[]", "ü?", "[ä-ü]*", "a**b", "*.*", "[^]"}
	texts := []string{"", "a", "b", "ab", "aab", "bx", "zx", "]", "]x", "[", "-", "e", "d", "c", "ü1", "öl", "a\nb", "x.y", "a1", "\xff", "é", "^"}
	text := rapid.OneOf(rapid.StringOf(rapid.RuneFrom([]rune("ab-[]^*?cü"))), rapid.SampledFrom(texts))
	check := func(t rapid.TB, pattern, s string) {
		var want bool
		if err := c.db.QueryRowContext(context.Background(), "SELECT $1 GLOB $2", s, pattern).Scan(&want); err != nil {
			t.Fatal(err)
		}
		if got := parseGlob(pattern).matches(s); got != want {
			t.Fatalf("%q against %q: %v", pattern, s, got)
		}
	}
	for _, p := range patterns {
		for _, s := range texts {
			check(t, p, s)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.OneOf(rapid.StringOf(rapid.RuneFrom([]rune("ab-[]^*?cü"))), rapid.SampledFrom(patterns)).Draw(t, "pattern"), text.Draw(t, "text"))
	})
}

func FuzzPattern(f *testing.F) {
	f.Add("*[a-c]?x", "aabcx")
	f.Add("[^]", "]")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		g := parseGlob(pattern)
		g.matches(text)
		if !strings.ContainsAny(pattern, "*?[\x00") && !strings.Contains(text, "\x00") && g.matches(text) != (pattern == text) {
			t.Errorf("%q against %q: %v", pattern, text, g.matches(text))
		}
	})
}
