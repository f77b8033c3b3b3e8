package sparql_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"reckon/graph/sparql"
)

// For every kind of pattern, the index returns the matching quads, each once, and never underestimates their number.
func TestIndexMatches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	one := func() sparql.ID {
		if r.IntN(20) == 0 {
			return ^sparql.ID(0) // the highest id
		}
		return sparql.ID(1 + r.IntN(6))
	}
	quads := make([]sparql.Quad, 400)
	for i := range quads {
		quads[i] = sparql.Quad{S: one(), P: one(), O: one(), G: one()}
	}
	x := sparql.NewIndex(slices.Clone(quads))
	slices.SortFunc(quads, compareQuads)
	quads = slices.Compact(quads)
	for range 5000 {
		some := func() sparql.ID {
			if r.IntN(2) == 0 {
				return 0
			}
			return one()
		}
		p := sparql.Pattern{S: some(), P: some(), O: some(), G: some()}
		want := slices.DeleteFunc(slices.Clone(quads), func(q sparql.Quad) bool {
			return p.S != 0 && q.S != p.S || p.P != 0 && q.P != p.P || p.O != 0 && q.O != p.O || p.G != 0 && q.G != p.G
		})
		var got []sparql.Quad
		x.Each(p, func(q sparql.Quad) bool { got = append(got, q); return true })
		slices.SortFunc(got, compareQuads)
		if !slices.Equal(got, want) || x.Count(p) < len(want) {
			t.Fatalf("%+v: %v (counted %d), want %v", p, got, x.Count(p), want)
		}
	}
}

func compareQuads(a, b sparql.Quad) int {
	return slices.Compare([]sparql.ID{a.S, a.P, a.O, a.G}, []sparql.ID{b.S, b.P, b.O, b.G})
}
