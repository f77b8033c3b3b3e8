package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"reckon/figure"
	"reckon/store"
)

// factsPassed: process groups that ended soon are summed up by site, owner and nodes, those at the edge of the interval included;
// Lasting has what is not in the sums, but for groups that run for a short time only.
func factsPassed(t *testing.T, c store.Facts) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	var rows []store.Workload
	add := func(kind, owner, node string, from, seconds int, cpu *float64, running bool) {
		w := store.Workload{Site: "lab", ID: fmt.Sprintf("%s/%s/%d", kind, node, len(rows)), Kind: kind, Owner: owner, Nodes: []string{node}, State: "completed",
			Start: at.Add(time.Duration(from) * time.Second), Row: figure.Row{CPUSeconds: cpu}}
		w.Seen = w.Start.Add(time.Duration(seconds) * time.Second)
		if w.End = w.Seen; running {
			w.End, w.State = time.Time{}, "running"
		}
		rows = append(rows, w)
	}
	half := 0.5
	add("group", "alice", "n1", 0, 10, &half, false)
	add("group", "alice", "n1", 20, 59, &half, false)
	add("group", "alice", "n1", 30, 60, &half, false) // as long as the limit
	add("group", "alice", "n1", 40, 5, nil, false)
	add("group", "alice", "n1", 50, 5, &half, true)
	add("group", "alice", "n2", 0, 20, &half, false)
	add("group", "bob", "n1", -30, 20, &half, false) // ended before
	add("group", "bob", "n1", -20, 20, &half, false) // ends as the interval begins
	add("group", "bob", "n1", 3600, 1, &half, false) // begins as it ends
	add("unit", "bob", "n1", 0, 1, &half, false)
	must(t, c.Upsert(t.Context(), rows))
	got, err := c.Passed(t.Context(), at, at.Add(time.Hour), time.Minute)
	must(t, err)
	want := []store.Passed{
		{Site: "lab", Owner: "alice", Nodes: []string{"n1"}, Count: 3, CPUSeconds: 1, WallSeconds: 74, First: at, Last: at.Add(79 * time.Second)},
		{Site: "lab", Owner: "alice", Nodes: []string{"n2"}, Count: 1, CPUSeconds: 0.5, WallSeconds: 20, First: at, Last: at.Add(20 * time.Second)},
		{Site: "lab", Owner: "bob", Nodes: []string{"n1"}, Count: 1, CPUSeconds: 0.5, WallSeconds: 20, First: at.Add(-20 * time.Second), Last: at},
	}
	if !slices.EqualFunc(got, want, func(a, b store.Passed) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	lasting, err := c.Lasting(t.Context(), at, at.Add(time.Hour), at.Add(time.Hour), time.Minute)
	must(t, err)
	var ids []string
	for _, w := range lasting {
		ids = append(ids, w.ID)
	}
	if want := []string{"group/n1/4", "group/n1/2", "unit/n1/9"}; !slices.Equal(ids, want) {
		t.Errorf("lasting are %v, want %v", ids, want)
	}
}
