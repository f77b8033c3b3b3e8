package database

import (
	"path/filepath"
	"testing"
	"time"

	"reckon/store"
	"reckon/store/storetest"
)

// TestForget: one life goes, or all of an id at a site, and counts follow.
func TestForget(t *testing.T) {
	c := openAt(t, filepath.Join(t.TempDir(), "c.db"), nil)
	var rows []store.Workload
	for i := range 6 {
		w := storetest.Row(i)
		w.ID, w.Site, w.Nodes = "slurm/1", "a", []string{"n1"}
		w.Start = time.Date(2024, 1, 1+i, 0, 0, 0, 0, time.UTC)
		if w.Seen, w.End = w.Start.Add(time.Hour), w.Start.Add(time.Hour); i > 3 {
			w.Site = "b"
		}
		rows = append(rows, w)
	}
	if err := c.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		forget []store.Run
		want   int
	}{
		{nil, 6},
		{[]store.Run{{Site: "a", ID: "slurm/1", Start: rows[1].Start}, {Site: "a", ID: "slurm/2"}, {Site: "c", ID: "slurm/1"}}, 5},
		{[]store.Run{{Site: "a", ID: "slurm/1", Start: rows[1].Start.Add(time.Second)}}, 5},
		{[]store.Run{{Site: "a", ID: "slurm/1"}}, 2},
		{[]store.Run{{Site: "b", ID: "slurm/1"}}, 0},
	} {
		if err := c.Forget(t.Context(), step.forget); err != nil {
			t.Fatal(err)
		}
		for _, f := range []store.Filter{{}, {ID: "slurm/1"}, {Nodes: []string{"n1"}}} {
			list, total, err := c.Workloads(t.Context(), f)
			if err != nil || len(list) != step.want || total != step.want {
				t.Errorf("after %+v: %d rows of %d for %+v, want %d (%v)", step.forget, len(list), total, f, step.want, err)
			}
		}
	}
}
