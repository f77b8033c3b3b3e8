package embedded_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/graph/own"
	"reckon/graph/sparql"
)

// lengths returns the length of each series' query as its value, and counts the calls.
type lengths struct{ asked int }

func (l *lengths) Latest(_ context.Context, quads []graph.Quad, only graph.Term) (out []graph.Quad, err error) {
	for _, s := range own.SeriesOf(quads, only) {
		l.asked++
		out = append(out, own.Latest(s, float64(len(s.Query)), time.Unix(0, 0))...)
	}
	return out, nil
}

func putSeries(t *testing.T, s *embedded.Store, id, owner string, queries ...string) {
	t.Helper()
	var quads []graph.Quad
	for i, q := range queries {
		one := graph.Node(id + "#" + strconv.Itoa(i))
		quads = append(quads, graph.Quad{S: graph.Node(id), P: graph.Node(own.Namespace + "series"), O: one},
			graph.Quad{S: one, P: graph.Node(own.Namespace + "query"), O: graph.Text(q)})
	}
	if _, _, err := s.Put(t.Context(), id, graph.Put{Quads: quads, Owner: owner, IfVersion: graph.AnyVersion}); err != nil {
		t.Fatal(err)
	}
}

// The latest values are in a graph that exists only for queries that name it, and only for the series that they select.
func TestLatest(t *testing.T) {
	c := sqlite(t, filepath.Join(t.TempDir(), "c.db"))
	defer c.Close()
	l := &lengths{}
	s := open(t, c, embedded.Options{Latest: l})
	putSeries(t, s, "x:a", "alice", "1", "22", "333")
	putSeries(t, s, "x:b", "bob", "4444")
	const of = "PREFIX rk: <urn:reckon:ns#> "
	three := graph.Number(1).String() + "\n" + graph.Number(2).String() + "\n" + graph.Number(3).String()
	if got := ask(t, s, of+"SELECT ?v { <x:a> rk:series ?s GRAPH <urn:reckon:latest> { ?s rk:latestValue ?v } } ORDER BY ?v"); got != three || l.asked != 3 {
		t.Errorf("%s, asked %d times", got, l.asked)
	}
	alices := func(i graph.Info) bool { return i.Owner == "alice" }
	if got := askAs(t, s, of+"SELECT ?v { GRAPH <urn:reckon:latest> { ?s rk:latestValue ?v } } ORDER BY ?v", alices); got != three {
		t.Errorf("what alice sees: %s", got)
	}
	l.asked = 0
	for _, q := range []string{"SELECT ?v { ?s rk:latestValue ?v }", "SELECT ?v { GRAPH ?g { ?s rk:latestValue ?v } }", "SELECT ?v { <x:a> rk:series ?s GRAPH <urn:reckon:latest> { ?s rk:query ?v } }"} {
		if got := ask(t, s, of+q); got != "" {
			t.Errorf("%s: %s", q, got)
		}
	}
	if got := ask(t, s, of+"SELECT ?g { GRAPH ?g {} } ORDER BY ?g"); got != "<x:a>\n<x:b>" {
		t.Error("graphs:", got)
	}
}

func TestLatestIsBounded(t *testing.T) {
	c := sqlite(t, filepath.Join(t.TempDir(), "c.db"))
	defer c.Close()
	l := &lengths{}
	s := open(t, c, embedded.Options{Latest: l})
	const query = "SELECT ?v { GRAPH <urn:reckon:latest> { ?s <urn:reckon:ns#latestValue> ?v } }"
	list := make([]string, 1000)
	for i := range list {
		list[i] = "q"
	}
	putSeries(t, s, "x:a", "", list...)
	if _, err := s.Query(t.Context(), query, sparql.Limits{}, nil); err != nil || l.asked != 1000 {
		t.Error(l.asked, err)
	}
	putSeries(t, s, "x:b", "", "q")
	if _, err := s.Query(t.Context(), query, sparql.Limits{}, nil); !errors.Is(err, sparql.ErrTooMuch) {
		t.Error("1,001 series:", err)
	}
}
