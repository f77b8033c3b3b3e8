package sparql

import (
	"context"
	"fmt"

	"reckon/graph"
)

// Memory is a data set in memory. It is safe for concurrent use once it is built.
type Memory struct {
	*Index
	ids   map[graph.Term]ID
	terms []graph.Term
	names []ID
}

// NewMemory builds a data set from quads. Quads without a graph go to the graph urn:default.
func NewMemory(quads []graph.Quad) *Memory {
	m := &Memory{ids: map[graph.Term]ID{}, terms: []graph.Term{{}}}
	list := make([]Quad, len(quads))
	for i, q := range quads {
		if q.G.IsZero() {
			q.G = graph.Node("urn:default")
		}
		list[i] = Quad{m.id(q.S), m.id(q.P), m.id(q.O), m.id(q.G)}
	}
	seen := map[ID]bool{}
	for _, q := range list {
		if !seen[q.G] {
			seen[q.G] = true
			m.names = append(m.names, q.G)
		}
	}
	m.Index = NewIndex(list)
	return m
}

func (m *Memory) id(t graph.Term) ID {
	id, ok := m.ids[t]
	if !ok {
		id = ID(len(m.terms))
		m.ids[t] = id
		m.terms = append(m.terms, t)
	}
	return id
}

var _ Dataset = (*Memory)(nil)

// Find implements Dataset.
func (m *Memory) Find(_ context.Context, terms []graph.Term) ([]ID, error) {
	out := make([]ID, len(terms))
	for i, t := range terms {
		out[i] = m.ids[t]
	}
	return out, nil
}

// Terms implements Dataset.
func (m *Memory) Terms(_ context.Context, ids []ID) ([]graph.Term, error) {
	out := make([]graph.Term, len(ids))
	for i, id := range ids {
		if int(id) >= len(m.terms) {
			return nil, fmt.Errorf("%w: %d", ErrNoTerm, id)
		}
		out[i] = m.terms[id]
	}
	return out, nil
}

// Graphs implements Dataset.
func (m *Memory) Graphs(context.Context) ([]ID, error) { return m.names, nil }

// Match implements Dataset.
func (m *Memory) Match(_ context.Context, p Pattern, yield func(Quad) bool) error {
	m.Each(p, yield)
	return nil
}

// Estimate implements Dataset.
func (m *Memory) Estimate(p Pattern) int { return m.Count(p) }
