package database

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/store"
)

func TestWaits(t *testing.T) {
	c := openAt(t, filepath.Join(t.TempDir(), "c.db"), nil)
	t.Cleanup(func() { _ = c.Close() })
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	four, forty := 4.0, 40.0
	job := func(id string, submit, start, end time.Duration, cores *float64) store.Workload {
		w := store.Workload{ID: "slurm/" + id, Kind: "slurm", Partition: "cpu", Nodes: []string{"n1"}, State: "completed", Start: now.Add(start), Seen: now, RequestCores: cores}
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
		job("untold", 0, -time.Hour, 0, &four), job("old", -50*time.Hour, -49*time.Hour, -48*time.Hour, &four), job("unasked", -2*time.Hour, -time.Hour, 0, nil),
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
	// An index leads to what is asked for.
	var plan strings.Builder
	err := c.each(t.Context(), "EXPLAIN QUERY PLAN SELECT "+waitColumns+" FROM workloads"+c.d.indexed("workloads_waits")+" WHERE submit_ms IS NOT NULL AND start_ms >= 1 AND start_ms < 2", nil, func(scan func(...any) error) error {
		var id, parent, unused int
		var text string
		err := scan(&id, &parent, &unused, &text)
		plan.WriteString(text)
		return err
	})
	if err != nil || !strings.Contains(plan.String(), "workloads_waits (start_ms>? AND start_ms<?)") {
		t.Error(plan.String(), err)
	}
}
