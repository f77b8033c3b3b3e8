package database

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"reckon/store"
	"reckon/store/storetest"
)

func TestPast(t *testing.T) {
	past(t, openAt(t, filepath.Join(t.TempDir(), "c.db"), nil))
}

// past: dropping what can be built again leaves what can not, and trimming the reverse.
func past(t *testing.T, c *Catalogue) {
	ctx := t.Context()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	begin := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	var rows []store.Workload
	for i := range 24 { // one at the begin of each month
		w := storetest.Row(i)
		w.State = "completed"
		w.Start = begin.AddDate(0, i, 0)
		w.Seen, w.End = w.Start.Add(time.Hour), w.Start.Add(time.Hour)
		rows = append(rows, w)
	}
	rows[23].End = time.Time{}
	check("write", c.Upsert(ctx, rows))
	one := 1.0
	for i := range 24 {
		at := begin.AddDate(0, i, 0)
		check("write roll-ups", c.ReplaceHours(ctx, at, at.Add(2*time.Hour), []store.Use{
			{At: at, Owner: "a", Used: store.Used{CPUSeconds: &one}}, {At: at.Add(time.Hour), Owner: "a", Used: store.Used{CPUSeconds: &one}},
		}, nil))
	}
	check("mark", c.SetWatermark(ctx, begin))
	sum := func(span store.Span, from, to time.Time) float64 {
		t.Helper()
		use, err := c.Use(ctx, store.RollupQuery{From: from, To: to, Span: span})
		check("read roll-ups", err)
		total := 0.0
		for _, u := range use {
			total += *u.CPUSeconds
		}
		return total
	}
	end := begin.AddDate(2, 0, 0)
	// The series begin half an hour into the 13th month: its first hour can not be built again.
	check("drop", c.DropSince(ctx, begin.AddDate(1, 0, 0).Add(30*time.Minute)))
	for _, span := range []store.Span{store.SpanHour, store.SpanDay, store.SpanMonth, store.SpanWhole} {
		if got := sum(span, begin, end); got != 25 {
			t.Errorf("%s: %g CPU seconds are left, want 25", span, got)
		}
	}
	if _, n, err := c.Workloads(ctx, store.Filter{}); n != 12 || err != nil {
		t.Errorf("%d workloads are left, %v; want 12", n, err)
	}
	if list, n, err := c.Workloads(ctx, store.Filter{Nodes: rows[11].Nodes[:1], Until: end}); n != 6 || len(list) != 6 || err != nil {
		t.Errorf("%d workloads of a node are left, %v; want 6", n, err)
	}
	if w, err := c.Watermark(ctx); !w.IsZero() || err != nil {
		t.Errorf("watermark %s, %v", w, err)
	}
	n, err := c.Trim(ctx, begin.AddDate(0, 6, 14))
	check("trim", err)
	if n != 6 {
		t.Errorf("%d workloads were forgotten, want 6", n)
	}
	if got := sum(store.SpanMonth, begin, end); got != 13 {
		t.Errorf("%g CPU seconds are left after trimming, want 13", got)
	}
	if _, n, err := c.Workloads(ctx, store.Filter{Owners: []string{"user1"}, Kinds: []string{"slurm"}}); n != 2 || err != nil {
		t.Errorf("%d workloads of user1 are left, %v; want 2", n, err)
	}
	check("write again", c.Upsert(ctx, rows[20:]))
	if _, n, err := c.Workloads(ctx, store.Filter{}); n != 10 || err != nil {
		t.Errorf("%d workloads, %v; want 10", n, err)
	}
}

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
		[]store.NodeUse{{At: at.Add(50 * time.Hour), Node: "n", UpSeconds: &one}}))
	check(c.PutFindings(ctx, []store.Finding{{ID: "f", Rule: "r", Severity: "low", Evidence: []byte("[]"), State: store.FindingNew}}))
	check(c.SetWatermark(ctx, at))
	for range 2 {
		w, h, f, err := c.CopyTo(ctx, to)
		check(err)
		if w != 2500 || h != 3 || f != 1 {
			t.Errorf("%d workloads, %d hours, %d findings were copied", w, h, f)
		}
		list, n, err := to.Workloads(ctx, store.Filter{ID: "slurm/7"})
		check(err)
		if _, total, _ := to.Workloads(ctx, store.Filter{Limit: 1}); n != 1 || total != 2500 || *list[0].CPUSeconds != *rows[7].CPUSeconds {
			t.Errorf("%d of %d workloads there", n, total)
		}
		use, err := to.Use(ctx, store.RollupQuery{From: at, To: at.Add(200 * time.Hour), Span: store.SpanWhole})
		check(err)
		if len(use) != 1 || *use[0].CPUSeconds != 2 {
			t.Errorf("use there: %+v", use)
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
