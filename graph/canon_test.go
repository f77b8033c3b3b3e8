package graph_test

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"reckon/graph"
)

// Graphs of few blank nodes, most of them alike.
func anyGraph(t *rapid.T) []graph.Quad {
	node := rapid.Custom(func(t *rapid.T) graph.Term {
		return graph.BlankNode("n" + strconv.Itoa(rapid.IntRange(0, 4).Draw(t, "node")))
	})
	quad := rapid.Custom(func(t *rapid.T) graph.Quad {
		q := graph.Quad{S: node.Draw(t, "s"), P: graph.Node("x:" + rapid.SampledFrom([]string{"p", "q"}).Draw(t, "p")), O: node.Draw(t, "o")}
		if rapid.IntRange(0, 3).Draw(t, "literal") == 0 {
			q.O = graph.Text("a")
		}
		return q
	})
	return graph.Sorted(rapid.SliceOfN(quad, 1, 8).Draw(t, "quads"))
}

func TestCanonicalIgnoresLabels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quads := anyGraph(t)
		shift := rapid.IntRange(1, 4).Draw(t, "shift")
		other := make([]graph.Quad, len(quads))
		for i, q := range quads {
			for _, x := range []*graph.Term{&q.S, &q.O} {
				if x.Kind == graph.Blank {
					n, _ := strconv.Atoi(x.Value[1:])
					x.Value = "z" + strconv.Itoa((n+shift)%5)
				}
			}
			other[len(quads)-1-i] = q
		}
		if same, err := graph.Isomorphic(quads, other); err != nil || !same {
			t.Fatalf("%v and %v are the same: %v", quads, other, err)
		}
		if same, _ := graph.Isomorphic(quads, append(other, graph.Quad{S: graph.BlankNode("new"), P: graph.Node("x:p"), O: graph.Text("b")})); same {
			t.Fatal("a statement more makes no difference")
		}
	})
}

// The canonical form matches another implementation's: see the head of the file.
func TestCanonicalAsOthers(t *testing.T) {
	file, err := txtar.ParseFile("testdata/canon.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(file.Files); i += 2 {
		quads, err := graph.ReadNQuads(bytes.NewReader(file.Files[i].Data), graph.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		canonical, err := graph.Canonical(quads)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if err := graph.WriteNQuads(&got, canonical); err != nil {
			t.Fatal(err)
		}
		if want := string(file.Files[i+1].Data); got.String() != want {
			t.Errorf("of\n%s\nis\n%s\nwant\n%s", file.Files[i].Data, got.String(), want)
		}
	}
	if len(file.Files) != 160 {
		t.Error(len(file.Files), "files")
	}
}

func TestBlankNodeBomb(t *testing.T) {
	var quads []graph.Quad // every node with every other
	for i := range 12 {
		for j := range 12 {
			if i != j {
				quads = append(quads, graph.Quad{S: graph.BlankNode(strconv.Itoa(i)), P: graph.Node("x:p"), O: graph.BlankNode(strconv.Itoa(j))})
			}
		}
	}
	if _, err := graph.Canonical(quads); !errors.Is(err, graph.ErrTooSymmetric) {
		t.Errorf("a bomb of blank nodes: %v", err)
	}
}
