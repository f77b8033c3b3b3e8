package forecast_test

import (
	"fmt"
	"testing"
	"time"

	"reckon/answer/forecast"
	"reckon/figure"
	"reckon/store"
)

// TestRenamedNode: a node with a new name is forecast after two days of measurements, from those alone; the old name is no longer forecast,
// and its earlier forecasts and their errors remain.
func TestRenamedNode(t *testing.T) {
	s := open(t)
	days := func(node string, from, to int, cores float64) {
		var rows []store.NodeUse
		up, all, v := 3600.0, 16*3600.0, cores*3600
		for h := from * 24; h < to*24; h++ {
			rows = append(rows, store.NodeUse{At: begin.Add(time.Duration(h) * time.Hour), Site: "lab", Node: node, Capacity: figure.Capacity{UpSeconds: &up, CoreSeconds: &all, CoreUsedSeconds: &v}})
		}
		if err := s.ReplaceHours(t.Context(), begin.AddDate(0, 0, from), begin.AddDate(0, 0, to), nil, rows); err != nil {
			t.Fatal(err)
		}
		if err := s.SetWatermark(t.Context(), begin.AddDate(0, 0, to)); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(node string, since int) (n int, point float64) {
		list, err := s.Forecasts(t.Context(), store.ForecastFilter{Subject: forecast.Node, Since: begin.AddDate(0, 0, since)})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if f.Name == node {
				n, point = n+1, f.Point[0]
			}
		}
		return n, point
	}
	days("old", 0, 20, 4)
	s.look(t, begin.AddDate(0, 0, 20).Add(3*time.Hour))
	days("new", 20, 21, 8)
	s.look(t, begin.AddDate(0, 0, 21).Add(3*time.Hour))
	if n, _ := kept("new", 20); n != 0 {
		t.Errorf("%d forecasts from one day", n)
	}
	days("new", 21, 23, 8)
	s.look(t, begin.AddDate(0, 0, 23).Add(3*time.Hour))
	if n, v := kept("new", 20); n != 1 || v != 8 {
		t.Errorf("the new name has %d forecasts, of %v cores", n, v)
	}
	if n, v := kept("old", 0); n != 1 || v != 4 {
		t.Errorf("the old name has %d forecasts, of %v cores", n, v)
	}
	if n, _ := kept("old", 22); n != 0 {
		t.Error("the old name is forecast after it was gone")
	}
}

// TestManyShort: 100,000 workloads of one minute each are not services: they get no forecasts, and all other subjects do.
func TestManyShort(t *testing.T) {
	s := open(t)
	s.fill(t, 4)
	rows := make([]store.Workload, 0, 10_000)
	for i := range 100_000 {
		start := begin.Add(time.Duration(i) * time.Second)
		kind := []string{"unit", "pod", "slurm"}[i%3]
		rows = append(rows, store.Workload{Site: "lab", ID: fmt.Sprintf("%s/w%d", kind, i), Kind: kind, Owner: "alice", Start: start, End: start.Add(time.Minute), Seen: start.Add(time.Minute)})
		if len(rows) == cap(rows) {
			if err := s.Upsert(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
			rows = rows[:0]
		}
	}
	if n := s.look(t, begin.AddDate(0, 0, 4).Add(3*time.Hour)); n != 4 { // cores of the site, two nodes and an owner
		t.Errorf("%d forecasts, want 4", n)
	}
}
