package database

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/store"
	"reckon/store/storetest"
)

// A database without the columns of some figures, and with one of a removed figure, as
// made by another program: the columns are added at the next opening, existing data is
// kept.
func TestColumnsOfFigures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	c := openAt(t, path, nil)
	if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(1)}); err != nil {
		t.Fatal(err)
	}
	lackColumns(t, c)
	c.Close()
	c = openAt(t, path, nil)
	defer c.Close()
	checkColumns(t, c)
}

// lackColumns drops columns, as if the figures were new.
func lackColumns(t *testing.T, c *Catalogue) {
	t.Helper()
	for _, q := range []string{
		"DROP INDEX IF EXISTS workloads_by_threads", "ALTER TABLE workloads DROP COLUMN threads", "ALTER TABLE uses DROP COLUMN network_bytes",
		"ALTER TABLE node_uses DROP COLUMN network_bytes", "ALTER TABLE node_uses DROP COLUMN up_seconds",
		"ALTER TABLE workloads ADD COLUMN gone_figure DOUBLE PRECISION",
	} {
		if _, err := c.db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
}

func checkColumns(t *testing.T, c *Catalogue) {
	t.Helper()
	rows, n, err := c.Workloads(t.Context(), store.Filter{Sort: "-threads"})
	if err != nil || n != 1 {
		t.Fatalf("%d rows, %v", n, err)
	}
	if rows[0].Threads != nil || rows[0].CPUSeconds == nil || *rows[0].CPUSeconds != *storetest.Row(1).CPUSeconds {
		t.Errorf("threads %v, CPU %v", rows[0].Threads, rows[0].CPUSeconds)
	}
	want := storetest.Row(2)
	if err := c.Upsert(t.Context(), []store.Workload{want}); err != nil {
		t.Fatal(err)
	}
	rows, _, err = c.Workloads(t.Context(), store.Filter{Sort: "-threads", Limit: 1})
	if err != nil || rows[0].Threads == nil || *rows[0].Threads != *want.Threads {
		t.Errorf("a new column is not kept: %v", err)
	}
	var noted string
	q, err := c.db.Query(`SELECT table_name, column_name FROM figure_columns ORDER BY 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for q.Next() {
		var table, column string
		if err := q.Scan(&table, &column); err != nil {
			t.Fatal(err)
		}
		noted += table + "." + column + " "
	}
	for _, want := range []string{"node_uses.network_bytes ", "node_uses.up_seconds ", "uses.network_bytes ", "workloads.threads "} {
		if !strings.Contains(noted, want) { // besides those without a numbered migration
			t.Errorf("noted %q, want %q", noted, want)
		}
	}
	if err := q.Err(); err != nil {
		t.Fatal(err)
	}
	if c.d.indexes {
		var n int
		if err := c.db.QueryRow(`SELECT count(*) FROM pg_indexes WHERE indexname = 'workloads_by_threads'`).Scan(&n); err != nil || n != 1 {
			t.Errorf("%d indexes of the new column, %v", n, err)
		}
	}
}

// Every figure of a run has a column, a sort key and a place in memory, and is read back
// unchanged.
func TestEveryFigureIsKept(t *testing.T) {
	c := openAt(t, filepath.Join(t.TempDir(), "c.db"), nil)
	defer c.Close()
	want := storetest.Row(3)
	for i := range want.Row.Len() {
		v := float64(i) + 0.25
		*want.Row.At(i) = &v
	}
	if err := c.Upsert(t.Context(), []store.Workload{want}); err != nil {
		t.Fatal(err)
	}
	for i, f := range figure.Of(figure.Runs) {
		rows, _, err := c.Workloads(t.Context(), store.Filter{Sort: f.Key})
		if err != nil {
			t.Fatal(err)
		}
		if got := *rows[0].Row.At(i); got == nil || *got != float64(i)+0.25 {
			t.Errorf("%s is not kept", f.Key)
		}
	}
	if got := strings.Join(heldNumbers[len(heldTimes):], " "); got != strings.Join(figure.Columns(figure.Runs), " ") {
		t.Errorf("columns in memory: %s", got)
	}
}

// Core-hours of an earlier program were estimated from samples: all of them are marked so when the
// column is added, and later ones have their own exactness.
func TestOldCoreHoursAreEstimated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	c := openAt(t, path, nil)
	at := time.Date(2025, 1, 1, 5, 0, 0, 0, time.UTC)
	v := func(x float64) *float64 { return &x }
	hour := func(n int, held float64, estimated *float64) {
		t.Helper()
		from := at.Add(time.Duration(n) * time.Hour)
		use := []store.Use{{At: from, Owner: "a", Used: store.Used{HeldCoreSeconds: &held, HeldEstimatedCoreSeconds: estimated}}, {At: from, Owner: "b", Used: store.Used{CPUSeconds: v(1)}}}
		if err := c.ReplaceHours(t.Context(), from, from.Add(time.Hour), use, nil); err != nil {
			t.Fatal(err)
		}
	}
	hour(0, 7200, nil)
	hour(1, 3600, nil)
	for _, table := range []string{"uses", "node_uses"} {
		if _, err := c.db.Exec("ALTER TABLE " + table + " DROP COLUMN held_estimated_core_seconds"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.db.Exec(`DELETE FROM figure_columns WHERE column_name = 'held_estimated_core_seconds'`); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c = openAt(t, path, nil)
	defer c.Close()
	hour(2, 1800, nil)
	hour(3, 900, v(300))
	for _, tt := range []struct {
		span            store.Span
		owner           string
		held, estimated []float64 // -1 is unknown
	}{
		{store.SpanHour, "a", []float64{7200, 3600, 1800, 900}, []float64{7200, 3600, -1, 300}},
		{store.SpanWhole, "a", []float64{13500}, []float64{11100}},
		{store.SpanDay, "b", []float64{-1}, []float64{-1}},
	} {
		list, err := c.Use(t.Context(), store.RollupQuery{From: at, To: at.Add(4 * time.Hour), Span: tt.span, Owners: []string{tt.owner}})
		if err != nil {
			t.Fatal(err)
		}
		if tt.span == store.SpanDay && len(list) > 1 {
			t.Fatalf("%d days", len(list))
		}
		number := func(p *float64) float64 {
			if p == nil {
				return -1
			}
			return *p
		}
		var held, estimated []float64
		for _, u := range list {
			held, estimated = append(held, number(u.HeldCoreSeconds)), append(estimated, number(u.HeldEstimatedCoreSeconds))
		}
		if !slices.Equal(held, tt.held) || !slices.Equal(estimated, tt.estimated) {
			t.Errorf("%s of %s: held %v, estimated %v; want %v and %v", tt.span, tt.owner, held, estimated, tt.held, tt.estimated)
		}
	}
}
