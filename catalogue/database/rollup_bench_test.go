package database

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"reckon/store"
)

// BenchmarkUseYear queries a year of usage by owner and month, of a site with 200 owners,
// two accounts and three programs each; a tenth is busy in any hour.
func BenchmarkUseYear(b *testing.B) {
	c := openAt(b, filepath.Join(b.TempDir(), "c.db"), nil)
	defer c.Close()
	begin := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for d := range 365 {
		var rows []store.Use
		at := begin.AddDate(0, 0, d)
		for h := range 24 {
			for i := range 120 {
				g := (h*37 + d*11 + i*10) % 1200
				v := float64(g)
				rows = append(rows, store.Use{At: at.Add(time.Duration(h) * time.Hour), Site: "s", Kind: "slurm", Owner: fmt.Sprintf("user%03d", g%200),
					Account: fmt.Sprint("a", g%2), Command: fmt.Sprint("prog", g%3), Used: store.Used{CPUSeconds: &v, MemoryByteSeconds: &v, Started: &v}})
			}
		}
		if err := c.ReplaceHours(context.Background(), at, at.AddDate(0, 0, 1), rows, nil); err != nil {
			b.Fatal(err)
		}
	}
	q := store.RollupQuery{From: begin.Add(5 * time.Hour), To: begin.AddDate(1, 0, 0), Span: store.SpanMonth, By: []string{"owner"}}
	for b.Loop() {
		if rows, err := c.Use(b.Context(), q); err != nil || len(rows) != 12*200 {
			b.Fatal(len(rows), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/year")
}
