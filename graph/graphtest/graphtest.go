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
	t.Run("versions", func(t *testing.T) { testVersions(t, s) })
	t.Run("merge", func(t *testing.T) { testMerge(t, s) })
	t.Run("blank nodes", func(t *testing.T) { testBlankNodes(t, s) })
	t.Run("ids", func(t *testing.T) { testIDs(t, s) })
	t.Run("at once", func(t *testing.T) { testConcurrent(t, s) })
}

func newStatement(s, o string) graph.Quad {
	return graph.Quad{S: graph.Node("x:" + s), P: graph.Node("x:p"), O: graph.Text(o)}
}

func mustPut(t *testing.T, s graph.Store, id string, p graph.Put) (graph.Info, bool) {
	t.Helper()
	info, changed, err := s.Put(context.Background(), id, p)
	if err != nil {
		t.Fatal(err)
	}
	return info, changed
}

func newPut(quads ...graph.Quad) graph.Put {
	return graph.Put{Quads: quads, Origin: "test", IfVersion: graph.AnyVersion}
}

func expectQuads(t *testing.T, s graph.Store, id string, want ...graph.Quad) graph.Info {
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

func testVersions(t *testing.T, s graph.Store) {
	const id = "x:versions"
	ctx := context.Background()
	if _, _, err := s.Get(ctx, id); !errors.Is(err, graph.ErrNotFound) {
		t.Error(err)
	}
	first, changed := mustPut(t, s, id, newPut(newStatement("a", "1"), newStatement("a", "2")))
	if !changed || first.Version <= 0 || first.Origin != "test" || time.Since(first.Time).Abs() > time.Hour {
		t.Errorf("%+v", first)
	}
	same, changed := mustPut(t, s, id, newPut(newStatement("a", "2"), newStatement("a", "1"), newStatement("a", "1")))
	if changed || same.Version != first.Version {
		t.Errorf("nothing changed and the version went from %d to %d", first.Version, same.Version)
	}
	second, changed := mustPut(t, s, id, newPut(newStatement("a", "2")))
	if !changed || second.Version <= first.Version {
		t.Errorf("%+v after %+v", second, first)
	}
	expectQuads(t, s, id, newStatement("a", "2"))
	for want, ok := range map[int64]bool{first.Version: false, 0: false, second.Version: true} {
		p := newPut(newStatement("a", "3"))
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
	p := newPut(newStatement("a", "1"))
	p.IfVersion = 0
	if again, _ := mustPut(t, s, id, p); again.Version <= gone.Version {
		t.Errorf("the version fell from %d to %d over a deletion", gone.Version, again.Version)
	}
	if u, err := s.Usage(ctx, id); err != nil || u.Writes < 3 || u.LastWrite.IsZero() {
		t.Errorf("%+v, %v", u, err)
	}
}

func testMerge(t *testing.T, s graph.Store) {
	const id = "x:merge"
	mustPut(t, s, id, newPut(newStatement("a", "1")))
	p := newPut(newStatement("a", "1"), newStatement("b", "2"))
	p.Merge = true
	if _, changed := mustPut(t, s, id, p); !changed {
		t.Error("a statement more is no change")
	}
	if _, changed := mustPut(t, s, id, p); changed {
		t.Error("the same again is a change")
	}
	expectQuads(t, s, id, newStatement("a", "1"), newStatement("b", "2"))
	mustPut(t, s, id, newPut())
	expectQuads(t, s, id)
}

func testBlankNodes(t *testing.T, s graph.Store) {
	const id = "x:blank"
	pair := func(a, b string) []graph.Quad {
		return []graph.Quad{{S: graph.BlankNode(a), P: graph.Node("x:p"), O: graph.BlankNode(b)},
			{S: graph.BlankNode(b), P: graph.Node("x:q"), O: graph.Text("end")}}
	}
	mustPut(t, s, id, newPut(pair("a", "b")...))
	if _, changed := mustPut(t, s, id, newPut(pair("b", "x9")...)); changed {
		t.Error("other labels are a change")
	}
	expectQuads(t, s, id, pair("a", "b")...)
	p := newPut(pair("a", "b")...)
	p.Merge = true
	mustPut(t, s, id, p)
	if info, _, err := s.Get(context.Background(), id); err != nil || info.Quads != 4 {
		t.Errorf("merged blank nodes are the same ones: %+v, %v", info, err)
	}
}

func testIDs(t *testing.T, s graph.Store) {
	ctx := context.Background()
	for _, id := range []string{"node1.example/unique id", "x:ü/%2F?#", "a..b", "https://kubernetes.local/#n"} {
		mustPut(t, s, id, newPut(newStatement("a", id)))
		expectQuads(t, s, id, newStatement("a", id))
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
		if _, _, err := s.Put(ctx, id, newPut()); err == nil {
			t.Errorf("%.20q is an id", id)
		}
	}
}

// testConcurrent writes one subgraph concurrently: every version is assigned once, and the last write is stored.
func testConcurrent(t *testing.T, s graph.Store) {
	const id, writers, each = "x:once", 4, 5
	var mu sync.Mutex
	seen := map[int64]bool{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range each {
				info, _, err := s.Put(context.Background(), id, newPut(newStatement("a", fmt.Sprint(w, i))))
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
