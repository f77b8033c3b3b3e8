package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"reckon/graph"
)

// Several subgraphs are written at once: all of them, or none.
func TestPutAll(t *testing.T) {
	s, ctx := fresh(t), context.Background()
	changes, stop := s.Watch()
	defer stop()
	one := func(id, value string, version int64) graph.Change {
		return graph.Change{ID: id, Put: graph.Put{Quads: []graph.Quad{{S: graph.Node("x:s"), P: graph.Node("x:p"), O: graph.Text(value)}}, IfVersion: version}}
	}
	for i, test := range []struct {
		list []graph.Change
		want int
	}{
		{nil, 0},
		{[]graph.Change{one("x:a", "1", 0), one("x:b", "1", 0)}, 2},
		{[]graph.Change{one("x:a", "1", graph.AnyVersion), one("x:b", "2", graph.AnyVersion), one("x:c", "1", graph.AnyVersion)}, 2},
	} {
		if got, err := s.PutAll(ctx, test.list); err != nil || got != test.want {
			t.Errorf("%d: %d changed, %v, want %d", i, got, err, test.want)
		}
		for range test.want {
			<-changes
		}
	}
	var version *graph.VersionError
	if _, err := s.PutAll(ctx, []graph.Change{one("x:a", "9", graph.AnyVersion), one("x:b", "9", 1)}); !errors.As(err, &version) {
		t.Error(err)
	}
	if _, err := s.PutAll(ctx, []graph.Change{one("x:a", "9", graph.AnyVersion), one("x/../y", "9", 0)}); err == nil {
		t.Error("an id with .. is taken")
	}
	if got := ask(t, s, `SELECT ?o { GRAPH <x:a> { ?s ?p ?o } }`); got != `"1"` {
		t.Error(got)
	}
	if len(changes) != 0 {
		t.Error("a change that was not kept is announced")
	}
}

// BenchmarkPutAll against one transaction for each subgraph.
func BenchmarkPutAll(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, n := fresh(b), 0
			for b.Loop() {
				var list []graph.Change
				for range size {
					n++
					var quads []graph.Quad
					for p := range 60 {
						quads = append(quads, graph.Quad{S: graph.Node(fmt.Sprintf("x:%d", n)), P: graph.Node(fmt.Sprintf("x:p%d", p)), O: graph.Text(fmt.Sprintf("%d of %d", p%7, n))})
					}
					list = append(list, graph.Change{ID: fmt.Sprintf("x:%d", n), Put: graph.Put{Quads: quads, IfVersion: graph.AnyVersion}})
				}
				if _, err := s.PutAll(context.Background(), list); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/subgraph")
		})
	}
}
