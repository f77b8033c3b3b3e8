package database

import (
	"path/filepath"
	"strings"
	"testing"

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
		if !strings.Contains(noted, want) { // besides those that the schema lacks
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
	for i, f := range figure.InScope(figure.Runs) {
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
