package embedded

import (
	"context"
	"fmt"

	"reckon/graph"
	"reckon/graph/own"
	"reckon/graph/sparql"
)

// maxLatest is the maximum number of series that one query may read the latest value of. Each of these values requires
// a query to the series store.
const maxLatest = 1000

// latestValues caches the graph of latest values for one query.
type latestValues struct {
	graph sparql.ID // its name; 0: there is none
	found map[sparql.ID][]sparql.Quad
	read  map[sparql.ID][]graph.Quad // subgraphs
	asked int
}

// nameLatest assigns an id to the graph of latest values, unless a graph of its name is stored.
func (o *overlay) nameLatest(ctx context.Context) error {
	if o.s.o.Latest == nil {
		return nil
	}
	ids, err := o.termIDs(ctx, []graph.Term{graph.Node(own.LatestGraph)})
	if err != nil {
		return err
	}
	if _, stored := o.m.graphs[ids[0]]; !stored {
		o.latest = latestValues{graph: ids[0], found: map[sparql.ID][]sparql.Quad{}, read: map[sparql.ID][]graph.Quad{}}
	}
	return nil
}

// Unlisted implements sparql.Unlisted.
func (o *overlay) Unlisted(g sparql.ID) bool { return g == o.latest.graph }

// matchLatest yields the latest values of a series, or of all if the pattern leaves the subject open.
func (o *overlay) matchLatest(ctx context.Context, p sparql.Pattern, yield func(sparql.Quad) bool) error {
	subjects := []sparql.ID{p.S}
	if p.S == 0 {
		var err error
		if subjects, err = o.allSeries(ctx); err != nil {
			return err
		}
	}
	for _, s := range subjects {
		list, err := o.latestStatements(ctx, s)
		if err != nil {
			return err
		}
		for _, q := range list {
			if (p.P == 0 || p.P == q.P) && (p.O == 0 || p.O == q.O) && !yield(q) {
				return nil
			}
		}
	}
	return nil
}

// allSeries returns the series that the viewer may see.
func (o *overlay) allSeries(ctx context.Context) (out []sparql.ID, err error) {
	ids, err := o.termIDs(ctx, []graph.Term{graph.Node(own.Namespace + "series")})
	if err != nil {
		return nil, err
	}
	seen := map[sparql.ID]bool{}
	err = o.view.Match(ctx, sparql.Pattern{P: ids[0]}, func(q sparql.Quad) bool {
		if !seen[q.O] {
			seen[q.O] = true
			out = append(out, q.O)
		}
		return true
	})
	return out, err
}

// latestStatements returns the statements about the latest value of one series, found by its subgraph.
func (o *overlay) latestStatements(ctx context.Context, series sparql.ID) ([]sparql.Quad, error) {
	if list, ok := o.latest.found[series]; ok {
		return list, nil
	}
	graphs := map[sparql.ID]bool{}
	if err := o.view.Match(ctx, sparql.Pattern{S: series}, func(q sparql.Quad) bool { graphs[q.G] = true; return true }); err != nil {
		return nil, err
	}
	var quads []graph.Quad
	for g := range graphs {
		more, err := o.graphStatements(ctx, g)
		if err != nil {
			return nil, err
		}
		quads = append(quads, more...)
	}
	if len(quads) > 0 {
		if o.latest.asked++; o.latest.asked > maxLatest {
			return nil, fmt.Errorf("%w: it reads the latest values of more than %d series; write the selecting patterns before GRAPH <%s>",
				sparql.ErrTooMuch, maxLatest, own.LatestGraph)
		}
		terms, err := o.Terms(ctx, []sparql.ID{series})
		if err != nil {
			return nil, err
		}
		if quads, err = o.s.o.Latest.Latest(ctx, quads, terms[0]); err != nil {
			return nil, err
		}
	}
	list, err := o.idQuads(ctx, quads, o.latest.graph)
	o.latest.found[series] = list
	return list, err
}

// graphStatements returns the statements of one graph. Latest values of its series are queried one after another.
func (o *overlay) graphStatements(ctx context.Context, g sparql.ID) ([]graph.Quad, error) {
	if quads, ok := o.latest.read[g]; ok {
		return quads, nil
	}
	quads, err := readQuads(ctx, o.s.o.DB, int64(g))
	if len(o.latest.read) >= 64 {
		clear(o.latest.read)
	}
	o.latest.read[g] = quads
	return quads, err
}
