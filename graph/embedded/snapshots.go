package embedded

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"reckon/graph"
	"reckon/graph/sparql"
)

// Snapshots builds graphs named timestamp:MS from series when a query selects them. They contain the state at a time.
type Snapshots interface {
	// Times returns the available times, in Unix milliseconds.
	Times(ctx context.Context) ([]int64, error)
	// At builds the graph of a time from the subgraphs that visible accepts; nil accepts all.
	At(ctx context.Context, ms int64, visible func(graph.Info) bool) ([]graph.Quad, error)
}

// firstSnapshotID is the first term id reserved for snapshots. Lower ids belong to the database, higher ones to the query.
const firstSnapshotID = sparql.ID(1) << 30

// overlay is a view with graphs built on demand: snapshots and the latest values.
type overlay struct {
	*view
	visible func(graph.Info) bool
	latest  latestValues
	times   map[sparql.ID]int64 // graph
	made    map[sparql.ID]*sparql.Index
	ids     map[graph.Term]sparql.ID
	terms   []graph.Term
}

// withOverlay adds the graphs that are built on demand; a stored graph of the same name takes precedence.
func (s *Store) withOverlay(ctx context.Context, v *view, visible func(graph.Info) bool) (sparql.Dataset, error) {
	o := &overlay{view: v, visible: visible, times: map[sparql.ID]int64{}, made: map[sparql.ID]*sparql.Index{},
		ids: map[graph.Term]sparql.ID{}}
	if err := o.nameLatest(ctx); err != nil || s.o.Snapshots == nil {
		return o, err
	}
	times, err := s.o.Snapshots.Times(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]graph.Term, len(times))
	for i, ms := range times {
		names[i] = graph.Node(timestampPrefix + strconv.FormatInt(ms, 10))
	}
	ids, err := o.termIDs(ctx, names)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if _, stored := v.m.graphs[id]; !stored {
			o.times[id] = times[i]
		}
	}
	return o, nil
}

// termIDs returns ids for terms: the database's, or own ones.
func (o *overlay) termIDs(ctx context.Context, terms []graph.Term) ([]sparql.ID, error) {
	out, err := o.view.Find(ctx, terms)
	if err != nil {
		return nil, err
	}
	for i, id := range out {
		if id != 0 {
			continue
		}
		own, ok := o.ids[terms[i]]
		if !ok {
			own = firstSnapshotID + sparql.ID(len(o.terms))
			o.ids[terms[i]] = own
			o.terms = append(o.terms, terms[i])
		}
		out[i] = own
	}
	return out, nil
}

// Find implements sparql.Dataset. It also assigns an id to a term that is not stored, because a snapshot that is built
// later may contain the term.
func (o *overlay) Find(ctx context.Context, terms []graph.Term) ([]sparql.ID, error) {
	return o.termIDs(ctx, terms)
}

// Terms implements sparql.Dataset.
func (o *overlay) Terms(ctx context.Context, ids []sparql.ID) ([]graph.Term, error) {
	out := make([]graph.Term, len(ids))
	var rest []sparql.ID
	var at []int
	for i, id := range ids {
		if id >= firstSnapshotID {
			out[i] = o.terms[id-firstSnapshotID]
		} else {
			rest, at = append(rest, id), append(at, i)
		}
	}
	terms, err := o.view.Terms(ctx, rest)
	for i, t := range terms {
		out[at[i]] = t
	}
	return out, err
}

// Graphs implements sparql.Dataset.
func (o *overlay) Graphs(ctx context.Context) ([]sparql.ID, error) {
	out, err := o.view.Graphs(ctx)
	out = slices.AppendSeq(out, maps.Keys(o.times))
	return out, err
}

// Match implements sparql.Dataset. Snapshots are matched only by name: the union of all graphs does not include them.
func (o *overlay) Match(ctx context.Context, p sparql.Pattern, yield func(sparql.Quad) bool) error {
	if p.G != 0 && p.G == o.latest.graph {
		return o.matchLatest(ctx, p, yield)
	}
	ms, ok := o.times[p.G]
	if !ok {
		return o.view.Match(ctx, p, yield)
	}
	x, err := o.buildSnapshot(ctx, p.G, ms)
	if err != nil {
		return err
	}
	x.Each(p, yield)
	return nil
}

func (o *overlay) buildSnapshot(ctx context.Context, g sparql.ID, ms int64) (*sparql.Index, error) {
	if x := o.made[g]; x != nil {
		return x, nil
	}
	quads, err := o.s.o.Snapshots.At(ctx, ms, o.visible)
	if err != nil {
		return nil, err
	}
	list, err := o.idQuads(ctx, quads, g)
	if err != nil {
		return nil, err
	}
	if len(o.made) >= 16 { // a query visits graphs one after another
		clear(o.made)
	}
	o.made[g] = sparql.NewIndex(list)
	return o.made[g], nil
}

// idQuads returns the statements of a graph by the ids of their terms.
func (o *overlay) idQuads(ctx context.Context, quads []graph.Quad, g sparql.ID) ([]sparql.Quad, error) {
	terms := make([]graph.Term, 0, 3*len(quads))
	for _, q := range quads {
		terms = append(terms, q.S, q.P, q.O)
	}
	ids, err := o.termIDs(ctx, terms)
	if err != nil {
		return nil, err
	}
	list := make([]sparql.Quad, len(quads))
	for i := range quads {
		list[i] = sparql.Quad{S: ids[3*i], P: ids[3*i+1], O: ids[3*i+2], G: g}
	}
	return list, nil
}

// Estimate implements sparql.Dataset.
func (o *overlay) Estimate(p sparql.Pattern) int {
	if x := o.made[p.G]; x != nil {
		return x.Count(p)
	}
	if _, ok := o.times[p.G]; ok || p.G != 0 && p.G == o.latest.graph {
		return estimateUnbuilt(p)
	}
	return o.view.Estimate(p)
}

// estimateUnbuilt prefers patterns with more terms.
func estimateUnbuilt(p sparql.Pattern) int {
	n := 100_000
	if p.S != 0 {
		n /= 1000
	}
	if p.O != 0 {
		n /= 30
	}
	if p.P != 0 {
		n /= 10
	}
	return n
}
