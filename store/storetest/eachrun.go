package storetest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"reckon/figure"
	"reckon/store"
)

// testEachRun: EachRun has the runs that the lists have, with the facts and figures that it promises.
func testEachRun(t *testing.T, c store.Facts) {
	var rows []store.Workload
	for i := range 40 {
		w := Row(i)
		w.QOS, w.Nodes = []string{"", "high", "normal"}[i%3], []string{"n1", "n2", "n3"}[:i%4]
		switch i % 5 {
		case 0:
			w.End = time.Time{}
		case 1:
			w.CPUSeconds = nil
		case 2: // it waits
			w.Submit, w.End, w.State = w.Start, time.Time{}, "pending"
		case 3:
			w.Exactness = figure.Degrees{"cpu_seconds": figure.AtLeast}
		}
		rows = append(rows, w)
	}
	requireNoError(t, c.Upsert(t.Context(), rows))
	facts := func(w *store.Workload) string {
		b, err := json.Marshal(store.Workload{Site: w.Site, Kind: w.Kind, Name: w.Name, Owner: w.Owner, Account: w.Account,
			Partition: w.Partition,
			Command:   w.Command, State: w.State, QOS: w.QOS, Nodes: slices.Clone(w.Nodes), Start: w.Start, Seen: w.Seen, End: w.End,
			Submit: w.Submit, Row: figure.Row{CPUSeconds: w.CPUSeconds, RequestCores: w.RequestCores, Exactness: w.Exactness}})
		requireNoError(t, err)
		return string(b)
	}
	for _, f := range []store.Filter{{}, {Since: epoch.Add(10 * time.Minute), Until: epoch.Add(30 * time.Minute)}, {Nodes: []string{"n2"}},
		{Owners: []string{rows[3].Owner}, Limit: 1}} {
		all := f
		all.Limit = 0
		list, _, err := c.Workloads(t.Context(), all)
		requireNoError(t, err)
		var want, got []string
		for i := range list {
			want = append(want, facts(&list[i]))
		}
		requireNoError(t, c.EachRun(t.Context(), store.RunQuery{Filter: f, Figures: []string{"cpu_seconds", "request_cores"}},
			func(w *store.Workload) { got = append(got, facts(w)) }))
		slices.Sort(want)
		slices.Sort(got)
		if len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("%+v:\n%q, want\n%q", f, got, want)
		}
	}
	if err := c.EachRun(t.Context(), store.RunQuery{Figures: []string{"nothing"}}, func(*store.Workload) {}); err == nil {
		t.Error("a figure that there is not is no error")
	}
}
