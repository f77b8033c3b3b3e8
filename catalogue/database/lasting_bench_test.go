package database

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/store"
	"reckon/store/storetest"
	"reckon/workload"
)

// BenchmarkLasting reads a day as the search for misuse does, of a catalogue with 100,000 process groups of 20 s in it and as many of the day before,
// and 200 that lasted.
func BenchmarkLasting(b *testing.B) {
	c := openAt(b, filepath.Join(b.TempDir(), "c.db"), nil)
	defer c.Close()
	const n = 200_000
	until := time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
	since := until.AddDate(0, 0, -1)
	w := storetest.Row(0)
	w.Kind = string(workload.Group)
	if err := c.Upsert(b.Context(), []store.Workload{w}); err != nil {
		b.Fatal(err)
	}
	copies(b, c, n, since.Add(-24*time.Hour).UnixMilli(), 2*24*time.Hour.Milliseconds()/n)
	for _, q := range []struct {
		name string
		ask  func() (int, error)
	}{
		{"Lasting", func() (int, error) {
			rows, err := c.Lasting(b.Context(), since, until, until, store.GroupMinimum{Ran: time.Minute})
			return len(rows), err
		}},
		{"Passed", func() (int, error) {
			rows, err := c.Passed(b.Context(), since, until, time.Minute)
			return len(rows), err
		}},
	} {
		b.Run(q.name, func(b *testing.B) {
			rows := 0
			for b.Loop() {
				var err error
				if rows, err = q.ask(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(rows), "rows")
		})
	}
}

// copies makes copies of the only row, each of 20 s, but one in a thousand of two minutes.
func copies(b *testing.B, c *Catalogue, n int, from, every int64) {
	b.Helper()
	cols, err := c.db.Query("SELECT name FROM pragma_table_info('workloads')")
	if err != nil {
		b.Fatal(err)
	}
	var names, values []string
	for cols.Next() {
		var name string
		if err := cols.Scan(&name); err != nil {
			b.Fatal(err)
		}
		names = append(names, name)
		start := fmt.Sprintf("%d + i * %d", from, every)
		switch name {
		case "key":
			values = append(values, "key || i")
		case "id":
			values = append(values, "id || i")
		case "start_ms":
			values = append(values, start)
		case "end_ms", "until_ms", "seen_ms":
			values = append(values, start+" + CASE WHEN i % 1000 = 0 THEN 120000 ELSE 20000 END")
		default:
			values = append(values, name)
		}
	}
	cols.Close()
	if _, err := c.db.Exec(fmt.Sprintf("WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d) INSERT INTO workloads (%s) SELECT %s FROM workloads, s",
		n, strings.Join(names, ", "), strings.Join(values, ", "))); err != nil {
		b.Fatal(err)
	}
}
