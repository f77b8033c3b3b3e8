package server

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"
	"time"

	"reckon/graph"
	"reckon/server/backup"
)

// TestGraphIsKept: what others wrote into the knowledge graph is there after the catalogue was rebuilt, and in a backup that was restored,
// where versions only rise: somebody may have seen those that the backup does not have.
func TestGraphIsKept(t *testing.T) {
	data := t.TempDir()
	s, stop := start(t, data)
	put := func(s *Server, text string) graph.Info {
		t.Helper()
		quads := []graph.Quad{{S: graph.Node("x:s"), P: graph.Node("x:p"), O: graph.Text(text)}, {S: graph.Node("x:s"), P: graph.Node("x:q"), O: graph.BlankNode("b")}}
		info, _, err := s.graph.store.Put(t.Context(), "x:theirs", graph.Put{Quads: quads, Origin: "them", Owner: "alice", Time: time.Unix(1000, 0), IfVersion: graph.AnyVersion})
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	get := func(s *Server, text string) graph.Info {
		t.Helper()
		info, quads, err := s.graph.store.Get(t.Context(), "x:theirs")
		if err != nil || len(quads) != 2 || quads[0].O != graph.Text(text) && quads[1].O != graph.Text(text) || info.Origin != "them" || info.Owner != "alice" {
			t.Fatal(info, quads, err)
		}
		return info
	}
	first := put(s, "1")
	var archive bytes.Buffer
	if err := s.newDataCopier().Backup(t.Context(), func() io.Writer { return &archive }); err != nil {
		t.Fatal(err)
	}
	second := put(s, "2")
	stop()
	if _, err := Rebuild(t.Context(), Places{Data: data}, nil, nil); err != nil {
		t.Fatal(err)
	}
	s, stop = start(t, data)
	if info := get(s, "2"); info.Version != second.Version {
		t.Errorf("a rebuild made version %d of %d", info.Version, second.Version)
	}
	stop()
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Extract(&archive, restored); err != nil {
		t.Fatal(err)
	}
	s, stop = start(t, restored)
	defer stop()
	if info := get(s, "1"); info.Version <= second.Version || info.Version <= first.Version {
		t.Errorf("the backup has version %d, and %d was seen", info.Version, second.Version)
	}
}
