// Package graphtest is the conformance suite for stores of the knowledge graph.
package graphtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"reckon/graph"
)

// Store runs the suite on an empty store.
func Store(t *testing.T, s graph.Store) {
	t.Run("versions", func(t *testing.T) { versions(t, s) })
	t.Run("merge", func(t *testing.T) { merge(t, s) })
	t.Run("blank nodes", func(t *testing.T) { blankNodes(t, s) })
	t.Run("ids", func(t *testing.T) { ids(t, s) })
	t.Run("at once", func(t *testing.T) { atOnce(t, s) })
}

func statement(s, o string) graph.Quad {
	return graph.Quad{S: graph.Node("x:" + s), P: graph.Node("x:p"), O: graph.Text(o)}
}

func put(t *testing.T, s graph.Store, id string, p graph.Put) (graph.Info, bool) {
	t.Helper()
	info, changed, err := s.Put(context.Background(), id, p)
	if err != nil {
		t.Fatal(err)
	}
	return info, changed
}

func write(quads ...graph.Quad) graph.Put {
	return graph.Put{Quads: quads, Origin: "test", IfVersion: graph.AnyVersion}
}

func expect(t *testing.T, s graph.Store, id string, want ...graph.Quad) graph.Info {
	t.Helper()
	info, quads, err := s.Get(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := graph.Isomorphic(quads, want); err != nil || !same {
		t.Errorf("%s has %v, want %v (%v)", id, quads, want, err)
	}
	if info.Quads != len(graph.Sorted(want)) || info.ID != id {
		t.Errorf("%+v", info)
	}
	return info
}

func versions(t *testing.T, s graph.Store) {
	const id = "x:versions"
	ctx := context.Background()
	if _, _, err := s.Get(ctx, id); !errors.Is(err, graph.ErrNotFound) {
		t.Error(err)
	}
	first, changed := put(t, s, id, write(statement("a", "1"), statement("a", "2")))
	if !changed || first.Version <= 0 || first.Origin != "test" || time.Since(first.Time).Abs() > time.Hour {
		t.Errorf("%+v", first)
	}
	same, changed := put(t, s, id, write(statement("a", "2"), statement("a", "1"), statement("a", "1")))
	if changed || same.Version != first.Version {
		t.Errorf("nothing changed and the version went from %d to %d", first.Version, same.Version)
	}
	second, changed := put(t, s, id, write(statement("a", "2")))
	if !changed || second.Version <= first.Version {
		t.Errorf("%+v after %+v", second, first)
	}
	expect(t, s, id, statement("a", "2"))
	for want, ok := range map[int64]bool{first.Version: false, 0: false, second.Version: true} {
		p := write(statement("a", "3"))
		p.IfVersion = want
		_, _, err := s.Put(ctx, id, p)
		var stale *graph.VersionError
		if (err == nil) != ok || err != nil && !errors.As(err, &stale) {
			t.Errorf("a condition of %d where %d is: %v", want, second.Version, err)
		}
		if ok {
			break
		}
	}
	gone, err := s.Delete(ctx, id, graph.AnyVersion)
	if err != nil || gone.Version <= second.Version || !gone.Deleted {
		t.Errorf("%+v, %v", gone, err)
	}
	if _, err := s.Delete(ctx, id, graph.AnyVersion); !errors.Is(err, graph.ErrNotFound) {
		t.Error(err)
	}
	if _, err := s.Usage(ctx, id); !errors.Is(err, graph.ErrNotFound) {
		t.Error(err)
	}
	p := write(statement("a", "1"))
	p.IfVersion = 0
	if again, _ := put(t, s, id, p); again.Version <= gone.Version {
		t.Errorf("the version fell from %d to %d over a deletion", gone.Version, again.Version)
	}
	if u, err := s.Usage(ctx, id); err != nil || u.Writes < 3 || u.LastWrite.IsZero() {
		t.Errorf("%+v, %v", u, err)
	}
}

func merge(t *testing.T, s graph.Store) {
	const id = "x:merge"
	put(t, s, id, write(statement("a", "1")))
	p := write(statement("a", "1"), statement("b", "2"))
	p.Merge = true
	if _, changed := put(t, s, id, p); !changed {
		t.Error("a statement more is no change")
	}
	if _, changed := put(t, s, id, p); changed {
		t.Error("the same again is a change")
	}
	expect(t, s, id, statement("a", "1"), statement("b", "2"))
	put(t, s, id, write())
	expect(t, s, id)
}

func blankNodes(t *testing.T, s graph.Store) {
	const id = "x:blank"
	pair := func(a, b string) []graph.Quad {
		return []graph.Quad{{S: graph.BlankNode(a), P: graph.Node("x:p"), O: graph.BlankNode(b)},
			{S: graph.BlankNode(b), P: graph.Node("x:q"), O: graph.Text("end")}}
	}
	put(t, s, id, write(pair("a", "b")...))
	if _, changed := put(t, s, id, write(pair("b", "x9")...)); changed {
		t.Error("other labels are a change")
	}
	expect(t, s, id, pair("a", "b")...)
	p := write(pair("a", "b")...)
	p.Merge = true
	put(t, s, id, p)
	if info, _, err := s.Get(context.Background(), id); err != nil || info.Quads != 4 {
		t.Errorf("merged blank nodes are the same ones: %+v, %v", info, err)
	}
}

func ids(t *testing.T, s graph.Store) {
	ctx := context.Background()
	for _, id := range []string{"node1.example/unique id", "x:ü/%2F?#", "a..b", "https://kubernetes.local/#n"} {
		put(t, s, id, write(statement("a", id)))
		expect(t, s, id, statement("a", id))
	}
	list, err := s.List(ctx)
	if err != nil || !slices.IsSortedFunc(list, func(a, b graph.Info) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	}) || !slices.ContainsFunc(list, func(i graph.Info) bool { return i.ID == "node1.example/unique id" }) {
		t.Errorf("%v, %v", list, err)
	}
	for _, id := range []string{"", "a/../b", "..", "a\nb", "\xff", string(make([]byte, graph.MaxID+1))} {
		if _, _, err := s.Put(ctx, id, write()); err == nil {
			t.Errorf("%.20q is an id", id)
		}
	}
}

// atOnce writes one subgraph concurrently: every version is assigned once, and the last write is stored.
func atOnce(t *testing.T, s graph.Store) {
	const id, writers, each = "x:once", 4, 5
	var mu sync.Mutex
	seen := map[int64]bool{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range each {
				info, _, err := s.Put(context.Background(), id, write(statement("a", fmt.Sprint(w, i))))
				mu.Lock()
				if err != nil || seen[info.Version] {
					t.Errorf("%+v, %v", info, err)
				}
				seen[info.Version] = true
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	info, quads, err := s.Get(context.Background(), id)
	if err != nil || len(quads) != 1 {
		t.Error(quads, err)
	}
	for v := range seen {
		if v > info.Version {
			t.Errorf("version %d was given and %d is there", v, info.Version)
		}
	}
}
