package database

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"reckon/figure"
	"reckon/store"
	"reckon/store/storetest"
)

func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	c := openAt(t, filepath.Join(dir, "c.db"), nil)
	defer c.Close()
	if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(1)}); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "it's a copy.db")
	if err := c.Snapshot(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if err := c.Snapshot(t.Context(), to); err == nil {
		t.Error("a copy was written over another")
	}
	d := openAt(t, to, nil)
	defer d.Close()
	if _, n, err := d.Workloads(context.Background(), store.Filter{}); n != 1 || err != nil {
		t.Errorf("%d rows in the copy, %v", n, err)
	}
}

// copied fills one catalogue, copies it twice, and compares.
func copied(t *testing.T, to *Catalogue) {
	ctx := t.Context()
	c := openAt(t, filepath.Join(t.TempDir(), "c.db"), nil)
	defer c.Close()
	var rows []store.Workload
	for i := range 2500 {
		rows = append(rows, storetest.Row(i))
	}
	for _, i := range []int{0, 7, 1999, 2000, 2499} { // on both sides of a page
		rows[i].Steps = []store.Step{{ID: "0", Name: "solve", State: "failed"}}
	}
	one := 1.0
	at := time.Date(2025, 1, 1, 5, 0, 0, 0, time.UTC)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(c.Upsert(ctx, rows))
	check(c.ReplaceHours(ctx, at, at.Add(100*time.Hour), []store.Use{{At: at, Owner: "a", Used: store.Used{CPUSeconds: &one}}, {At: at.Add(99 * time.Hour), Owner: "b", Used: store.Used{CPUSeconds: &one}}},
		[]store.NodeUse{{At: at.Add(50 * time.Hour), Node: "n", Capacity: figure.Capacity{UpSeconds: &one}}}))
	check(c.PutFindings(ctx, []store.Finding{{ID: "f", Rule: "r", Severity: "low", Evidence: []byte("[]"), State: store.FindingNew}}))
	for _, made := range []time.Duration{0, 30 * time.Hour, 100 * time.Hour} {
		check(c.PutForecasts(ctx, []store.Forecast{{Subject: "site", Figure: "cores", Made: at.Add(made), Step: time.Hour, Point: []float64{1}, Low: []float64{0}, High: []float64{2}}}))
	}
	check(c.SetWatermark(ctx, at))
	for range 2 {
		w, h, f, err := c.CopyTo(ctx, to)
		check(err)
		if w != 2500 || h != 3 || f != 1 {
			t.Errorf("%d workloads, %d hours, %d findings were copied", w, h, f)
		}
		list, n, err := to.Workloads(ctx, store.Filter{IDs: []string{"slurm/7"}})
		check(err)
		if _, total, _ := to.Workloads(ctx, store.Filter{Limit: 1}); n != 1 || total != 2500 || *list[0].CPUSeconds != *rows[7].CPUSeconds {
			t.Errorf("%d of %d workloads there", n, total)
		}
		for _, i := range []int{0, 6, 7, 1999, 2000, 2499} {
			steps, err := to.Steps(ctx, store.Run{Site: rows[i].Site, ID: rows[i].ID, Start: rows[i].Start})
			if err != nil || len(steps) != len(rows[i].Steps) {
				t.Errorf("%d steps of %s there, %v", len(steps), rows[i].ID, err)
			}
		}
		use, err := to.Use(ctx, store.RollupQuery{From: at, To: at.Add(200 * time.Hour), Span: store.SpanWhole})
		check(err)
		if len(use) != 1 || *use[0].CPUSeconds != 2 {
			t.Errorf("use there: %+v", use)
		}
		if list, err := to.Forecasts(ctx, store.ForecastFilter{}); err != nil || len(list) != 3 {
			t.Errorf("%d forecasts there, %v", len(list), err)
		}
		if mark, err := to.Watermark(ctx); err != nil || !mark.Equal(at) {
			t.Errorf("watermark %s, %v", mark, err)
		}
	}
}

func TestCopy(t *testing.T) {
	to := openAt(t, filepath.Join(t.TempDir(), "d.db"), nil)
	defer to.Close()
	copied(t, to)
}
