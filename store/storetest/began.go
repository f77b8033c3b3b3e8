package storetest

import (
	"slices"
	"testing"
	"time"

	"reckon/store"
)

// testBegan tests that Began returns the workloads that started in [from, to), and the running ones of a kind, in the order of lists.
func testBegan(t *testing.T, c store.Facts) {
	var rows []store.Workload
	for i := range 40 {
		w := Row(i)
		switch i % 8 {
		case 0, 1:
			w.Kind = "group"
		case 2:
			w.End = time.Time{}
		case 3:
			w.CPUSeconds, w.RequestCores = nil, nil
		case 4:
			w.Submit = time.Time{}
		case 5: // it waits
			w.Submit, w.End, w.State = w.Start, time.Time{}, "pending"
		}
		rows = append(rows, w)
	}
	requireNoError(t, c.Upsert(t.Context(), rows))
	from, to := epoch.Add(10*time.Minute), epoch.Add(30*time.Minute)
	all, _, err := c.Workloads(t.Context(), store.Filter{Since: from, Until: to, Sort: "start"})
	requireNoError(t, err)
	var want, wantStarts []string
	for _, w := range all {
		if w.Start.Before(from) && w.Kind != "slurm" {
			continue
		}
		b := store.Workload{Site: w.Site, ID: w.ID, Kind: w.Kind, Owner: w.Owner, Account: w.Account, Partition: w.Partition,
			Command: w.Command, State: w.State,
			Start: w.Start, Seen: w.Seen, End: w.End, Submit: w.Submit}
		b.CPUSeconds, b.RequestCores = w.CPUSeconds, w.RequestCores
		want = append(want, formatRow(b))
		if !w.Start.Before(from) {
			wantStarts = append(wantStarts, formatRow(b))
		}
	}
	var got, starts []string
	requireNoError(t, c.Began(t.Context(), from, to, []string{"slurm"}, func(w *store.Workload) { got = append(got, formatRow(*w)) }))
	if !slices.Equal(got, want) || len(got) < 15 || len(got) == len(all) {
		t.Errorf("%d began of %d\ngot  %v\nwant %v", len(got), len(all), got, want)
	}
	requireNoError(t, c.Began(t.Context(), from, to, nil, func(w *store.Workload) { starts = append(starts, formatRow(*w)) }))
	if !slices.Equal(starts, wantStarts) || len(starts) == len(got) {
		t.Errorf("%d started\ngot  %v\nwant %v", len(starts), starts, wantStarts)
	}
}
