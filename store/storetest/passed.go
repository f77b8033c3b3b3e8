package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/store"
)

// testPassed tests that short process groups are summed by site, owner and nodes, including groups at the edges of the
// interval. Lasting must return every other workload, except short process groups that still run.
func testPassed(t *testing.T, c store.Facts) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	var rows []store.Workload
	add := func(kind, owner, node string, from, seconds int, cpu *float64, running bool) {
		w := store.Workload{Site: "lab", ID: fmt.Sprintf("%s/%s/%d", kind, node, len(rows)), Kind: kind, Owner: owner,
			Nodes: []string{node}, State: "completed",
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
	requireNoError(t, c.Upsert(t.Context(), rows))
	got, err := c.Passed(t.Context(), at, at.Add(time.Hour), time.Minute)
	requireNoError(t, err)
	want := []store.EndedGroups{
		{Site: "lab", Owner: "alice", Nodes: []string{"n1"}, Count: 3, CPUSeconds: 1, WallSeconds: 74, First: at,
			Last: at.Add(79 * time.Second)},
		{Site: "lab", Owner: "alice", Nodes: []string{"n2"}, Count: 1, CPUSeconds: 0.5, WallSeconds: 20, First: at,
			Last: at.Add(20 * time.Second)},
		{Site: "lab", Owner: "bob", Nodes: []string{"n1"}, Count: 1, CPUSeconds: 0.5, WallSeconds: 20, First: at.Add(-20 * time.Second),
			Last: at},
	}
	if !slices.EqualFunc(got, want, func(a, b store.EndedGroups) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	lasting, err := c.Lasting(t.Context(), at, at.Add(time.Hour), at.Add(time.Hour), store.GroupMinimum{Ran: time.Minute})
	requireNoError(t, err)
	var ids []string
	for _, w := range lasting {
		ids = append(ids, w.ID)
	}
	if want := []string{"group/n1/4", "group/n1/2", "unit/n1/9"}; !slices.Equal(ids, want) {
		t.Errorf("lasting are %v, want %v", ids, want)
	}
}

// testLeast tests that process groups are listed if they used enough CPU time, memory or a GPU, or if that was not measured.
func testLeast(t *testing.T, c store.Facts) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	var rows []store.Workload
	add := func(kind string, cpu, memory, gpu *float64) {
		rows = append(rows, store.Workload{Site: "lab", ID: fmt.Sprintf("%s/%d", kind, len(rows)), Kind: kind, Owner: "alice",
			Nodes: []string{"n1"}, State: "completed",
			Start: at.Add(time.Duration(len(rows)) * time.Second), Seen: at.Add(time.Hour), End: at.Add(time.Hour),
			Row: figure.Row{CPUSeconds: cpu, MemoryPeakBytes: memory, GPUSeconds: gpu}})
	}
	cpu, little, memory, small, zero := 1.0, 0.99, 64.0, 63.0, 0.0
	add("group", &little, &small, nil)
	add("group", &cpu, &small, nil)
	add("group", &little, &memory, nil)
	add("group", nil, &small, nil)
	add("group", &little, nil, nil)
	add("group", &little, &small, &zero)
	add("unit", &little, &small, nil)
	requireNoError(t, c.Upsert(t.Context(), rows))
	for _, x := range []struct {
		least store.GroupMinimum
		want  string
	}{
		{store.GroupMinimum{Ran: time.Minute}, "unit/6 group/5 group/4 group/3 group/2 group/1 group/0"},
		{store.GroupMinimum{Ran: time.Minute, CPUSeconds: 1, MemoryPeakBytes: 64}, "unit/6 group/5 group/4 group/3 group/2 group/1"},
		{store.GroupMinimum{Ran: 2 * time.Hour, CPUSeconds: 1, MemoryPeakBytes: 64}, "unit/6"},
	} {
		got, err := c.Lasting(t.Context(), at, time.Time{}, at.Add(time.Hour), x.least)
		requireNoError(t, err)
		var ids []string
		for _, w := range got {
			ids = append(ids, w.ID)
		}
		if list := strings.Join(ids, " "); list != x.want {
			t.Errorf("%+v: %s, want %s", x.least, list, x.want)
		}
	}
}
