package database

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"reckon/store"
	"reckon/store/storetest"
)

// TestRowsWithOtherFigures writes rows that have other figures each time, more kinds than statements are kept for: what a row
// lacks now is gone from it.
func TestRowsWithOtherFigures(t *testing.T) {
	c := openAt(t, filepath.Join(t.TempDir(), "c.db"), nil)
	defer c.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 4 {
		want := map[string]store.Workload{}
		var rows []store.Workload
		for i := range 3 * maxInserts {
			w := storetest.Row(i)
			for k := range w.Row.Len() {
				if r.IntN(3) > 0 && i > 0 {
					*w.Row.At(k) = nil
				}
			}
			rows, want[w.ID] = append(rows, w), w
		}
		if err := c.Upsert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		got, _, err := c.Workloads(t.Context(), store.Filter{})
		if err != nil || len(got) != len(want) {
			t.Fatal(len(got), err)
		}
		for _, w := range got {
			if x := want[w.ID]; !reflect.DeepEqual(w.Row, x.Row) {
				t.Fatalf("round %d, %s: %+v, want %+v", round, w.ID, w.Row, x.Row)
			}
		}
		if n := len(c.inserts.by); n > maxInserts {
			t.Fatal(n, "statements")
		}
	}
}

// BenchmarkUpsertGroups writes 350 rows such as process groups': twenty figures of some sixty.
func BenchmarkUpsertGroups(b *testing.B) {
	c := openAt(b, filepath.Join(b.TempDir(), "c.db"), nil)
	defer c.Close()
	rows := make([]store.Workload, 350)
	start, n := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for i := range rows {
			n++
			at := start.Add(time.Duration(n) * 50 * time.Millisecond)
			w := store.Workload{Site: "s", ID: fmt.Sprintf("group/n1/%d-%d", n, at.UnixMilli()), Kind: "group", Name: "sh", Owner: "root", Command: "sh", Nodes: []string{"n1"}, Start: at, Seen: at, End: at}
			for k := range 20 {
				*w.Row.At(3 * k % w.Row.Len()) = new(float64)
			}
			rows[i] = w
		}
		b.StartTimer()
		if err := c.Upsert(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N*len(rows)), "µs/row")
}
