package storetest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"reckon/figure"
	"reckon/store"
)

// Facts runs all test suites for a fact database. open returns an empty database, which the suite closes.
func Facts(t *testing.T, open func(testing.TB) store.Facts) {
	t.Helper()
	catalogue := func(tb testing.TB) store.Catalogue { return open(tb) }
	t.Run("Catalogue", func(t *testing.T) { Catalogue(t, catalogue) })
	t.Run("Rollups", func(t *testing.T) { Rollups(t, catalogue) })
	for _, c := range []struct {
		name string
		test func(*testing.T, store.Facts)
	}{
		{"Findings", testFindings},
		{"Forecasts", testForecasts},
		{"MetricRuns", testMetricRuns},
		{"State", testState},
		{"Forget", testForget},
		{"Past", testTrim},
		{"Waits", testWaits},
		{"Steps", testSteps},
		{"Passed", testPassed},
		{"Least", testLeast},
		{"Began", testBegan},
		{"EachRun", testEachRun},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := open(t)
			c.test(t, f)
			requireNoError(t, f.Close())
		})
	}
}

// testFindings tests that acknowledged and muted findings survive a drop of the catalogue, which
// is derived from the series.
func testFindings(t *testing.T, c store.Facts) {
	Findings(t, c)
	requireNoError(t, c.Drop(t.Context()))
	if _, n, err := c.Findings(t.Context(), store.FindingFilter{}); err != nil || n != 12 {
		t.Errorf("%d findings after Drop, %v", n, err)
	}
}

// testForecasts: forecasts survive dropping the catalogue too.
func testForecasts(t *testing.T, c store.Facts) {
	Forecasts(t, c)
	requireNoError(t, c.Drop(t.Context()))
	if list, err := c.Forecasts(t.Context(), store.ForecastFilter{}); err != nil || len(list) != 8 {
		t.Errorf("%d forecasts after Drop, %v", len(list), err)
	}
}

// testState tests that keys are independent of each other and of the watermark, and are removed by Drop.
func testState(t *testing.T, c store.Facts) {
	ctx := t.Context()
	check := func(key string, want []byte) {
		t.Helper()
		if got, err := c.State(ctx, key); err != nil || !bytes.Equal(got, want) {
			t.Errorf("state %s: %q, %v; want %q", key, got, err, want)
		}
	}
	check("a", nil)
	requireNoError(t, c.SetState(ctx, "a", []byte{0, 1, 0xff}))
	requireNoError(t, c.SetState(ctx, "b", []byte("b")))
	requireNoError(t, c.SetState(ctx, "a", []byte("new")))
	requireNoError(t, c.SetWatermark(ctx, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	check("a", []byte("new"))
	check("b", []byte("b"))
	requireNoError(t, c.Drop(ctx))
	check("a", nil)
	check("b", nil)
}

// testForget tests that one run, or all of an id at a site, can be removed, and that counts follow.
func testForget(t *testing.T, c store.Facts) {
	var rows []store.Workload
	for i := range 6 {
		w := Row(i)
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
		for _, f := range []store.Filter{{}, {IDs: []string{"slurm/1"}}, {Nodes: []string{"n1"}}} {
			list, total, err := c.Workloads(t.Context(), f)
			if err != nil || len(list) != step.want || total != step.want {
				t.Errorf("after %+v: %d rows of %d for %+v, want %d (%v)", step.forget, len(list), total, f, step.want, err)
			}
		}
	}
}

// testTrim: DropSince keeps data that cannot be rebuilt, and Trim removes only that.
func testTrim(t *testing.T, c store.Facts) {
	ctx := t.Context()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	begin := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	var rows []store.Workload
	for i := range 24 { // one at the beginning of each month
		w := Row(i)
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
			{At: at, Owner: "a", Used: store.Used{CPUSeconds: &one}},
			{At: at.Add(time.Hour), Owner: "a", Used: store.Used{CPUSeconds: &one}},
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
	// The series begin half an hour into the 13th month: its first hour cannot be rebuilt.
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

// testWaits: completed and ongoing waits, by requested resources.
func testWaits(t *testing.T, c store.Facts) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	four, forty := 4.0, 40.0
	job := func(id string, submit, start, end time.Duration, cores *float64) store.Workload {
		w := store.Workload{ID: "slurm/" + id, Kind: "slurm", Partition: "cpu", Nodes: []string{"n1"}, State: "completed",
			Start: now.Add(start), Seen: now, Row: figure.Row{RequestCores: cores}}
		if submit != 0 {
			w.Submit = now.Add(submit)
		}
		if end != 0 {
			w.End = now.Add(end)
		}
		return w
	}
	waits := job("waits", -3*time.Hour, -3*time.Hour, 0, &four)
	waits.State, waits.Reason = "pending", "Resources"
	rows := []store.Workload{
		job("ended", -2*time.Hour, -time.Hour, -time.Minute, &four), job("runs", -2*time.Hour, -time.Hour, 0, &forty), waits,
		job("untold", 0, -time.Hour, 0, &four), job("old", -50*time.Hour, -49*time.Hour, -48*time.Hour, &four),
		job("unasked", -2*time.Hour, -time.Hour, 0, nil),
	}
	if err := c.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	ask := func(q store.WaitQuery) (got []string) {
		q.Since, q.Until = now.AddDate(0, 0, -1), now
		err := c.Waits(t.Context(), q, func(w *store.Wait) error {
			text := "begun"
			if w.Start.IsZero() {
				text = "waits for " + w.Reason
			}
			if w.RequestCores != nil {
				text += map[float64]string{4: " 4", 40: " 40"}[*w.RequestCores]
			}
			if w.Partition != "cpu" || w.Nodes[0] != "n1" || !w.Submit.Before(now) || w.End.IsZero() {
				t.Errorf("%+v", w)
			}
			got = append(got, text)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		return got
	}
	if got := ask(store.WaitQuery{}); !slices.Equal(got, []string{"begun", "begun 4", "begun 40", "waits for Resources 4"}) {
		t.Error(got)
	}
	if got := ask(store.WaitQuery{Begun: true, Cores: &store.Range{Low: 2, High: 8}}); !slices.Equal(got, []string{"begun 4"}) {
		t.Error(got)
	}
	if got := ask(store.WaitQuery{Cores: &store.Range{Low: 2, High: 8}, GPUs: &store.Range{Low: 1, High: 2}}); len(got) != 0 {
		t.Error(got)
	}
}
