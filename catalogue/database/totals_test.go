package database

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"reckon/store"
	"reckon/store/storetest"
)

// TestTotalsOfFilters compares totals of combined filters with the totals of each alone, after rows
// have changed and been deleted.
func TestTotalsOfFilters(t *testing.T) {
	t.Run("each row", func(t *testing.T) { totals(t, openAt(t, filepath.Join(t.TempDir(), "c.db"), nil)) })
	t.Run("columns", func(t *testing.T) { totals(t, inMemory(t)) })
}

func totals(t *testing.T, c *Catalogue) {
	t.Cleanup(func() { _ = c.Close() })
	var rows []store.Workload
	for i := range 120 {
		w := storetest.Row(i)
		w.Account, w.Partition, w.Command = fmt.Sprint("a", i%3), fmt.Sprint("p", i%2), fmt.Sprint("prog", i%4)
		w.Kind = []string{"slurm", "unit"}[i%11/10]
		if i%6 == 0 {
			w.End, w.State = time.Time{}, "running"
		}
		rows = append(rows, w)
	}
	if err := c.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	for i := range rows { // some end, some change owner
		if i%12 == 0 {
			rows[i].End, rows[i].State = rows[i].Start.Add(time.Minute), "timeout"
		}
		if i%10 == 0 {
			rows[i].Account, rows[i].Command = "other", "python3"
		}
	}
	if err := c.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := c.DropSince(t.Context(), rows[100].Seen); err != nil { // and some are deleted
		t.Fatal(err)
	}
	yes := true
	mid := rows[50].Start
	sets := []func(*store.Filter){
		func(f *store.Filter) { f.Owners = []string{"user1", "user2"} }, func(f *store.Filter) { f.Accounts = []string{"a1", "other"} }, func(f *store.Filter) { f.Partitions = []string{"p0"} },
		func(f *store.Filter) { f.States = []string{"failed", "timeout"} }, func(f *store.Filter) { f.Kinds = []string{"slurm"} }, func(f *store.Filter) { f.Command = "prog[12]" },
		func(f *store.Filter) { f.Command = "python3" }, func(f *store.Filter) { f.Running = &yes }, func(f *store.Filter) { f.Nodes = []string{"n1"} },
		func(f *store.Filter) { f.Since, f.Until = mid, mid.Add(20*time.Minute) }, func(f *store.Filter) { f.Since = mid }, func(f *store.Filter) { f.Until = mid },
		func(f *store.Filter) { f.Name = "train-3" }, func(f *store.Filter) { f.Name = "train-[1-4]" }, func(f *store.Filter) { f.MinCPU = 40 },
	}
	ids := func(f store.Filter) map[string]bool {
		list, total, err := c.Workloads(t.Context(), f)
		if err != nil || total != len(list) {
			t.Fatalf("%+v: a total of %d, %d rows, %v", f, total, len(list), err)
		}
		out := map[string]bool{}
		for i := range list {
			out[list[i].ID] = true
		}
		return out
	}
	alone := make([]map[string]bool, len(sets))
	for i, set := range sets {
		var f store.Filter
		set(&f)
		if alone[i] = ids(f); len(alone[i]) == 0 {
			t.Errorf("filter %d selects nothing: it tests nothing", i)
		}
	}
	for i := range sets {
		for j := range i {
			for k := range j {
				var f, again store.Filter
				for _, at := range []int{i, j, k} {
					sets[at](&f)
				}
				// For a field that both set the last one counts, not the intersection.
				for _, at := range []int{k, j, i} {
					sets[at](&again)
				}
				if fmt.Sprint(f) != fmt.Sprint(again) {
					continue
				}
				want := 0
				for id := range alone[i] {
					if alone[j][id] && alone[k][id] {
						want++
					}
				}
				if got := ids(f); len(got) != want {
					t.Errorf("filters %d, %d and %d select %d rows, want %d", i, j, k, len(got), want)
				}
			}
		}
	}
}
