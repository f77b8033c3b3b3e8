package embedded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"reckon/graph"
	"reckon/graph/sparql"
)

func readOnly(postgres bool) *sql.TxOptions {
	if postgres {
		return &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}
	}
	return &sql.TxOptions{ReadOnly: true}
}

// Query evaluates a SELECT or ASK query over the subgraphs for which visible returns true. If visible is nil, the query
// covers all subgraphs. A failed query returns a graph.SyntaxError, a sparql.UnsupportedError or sparql.ErrTooMuch.
func (s *Store) Query(ctx context.Context, text string, limits sparql.Limits, visible func(graph.Info) bool) (*sparql.Result, error) {
	q, err := sparql.Parse(text)
	if err != nil {
		return nil, err
	}
	if err := s.updateMirror(ctx); err != nil {
		return nil, s.explainQuery(ctx, err)
	}
	s.mirror.mu.RLock()
	defer s.mirror.mu.RUnlock()
	if !s.mirror.loaded { // it was dropped meanwhile
		return nil, fmt.Errorf("%w: the index was dropped meanwhile; send the query again", graph.ErrUnavailable)
	}
	s.mirror.timer.Reset(idleTimeout)
	v := &view{s: s, m: &s.mirror}
	if visible != nil {
		v.visible = map[sparql.ID]bool{}
		for id, info := range s.mirror.graphs {
			v.visible[id] = visible(info)
		}
	}
	var data sparql.Dataset = v
	if s.o.Snapshots != nil || s.o.Latest != nil {
		if data, err = s.withOverlay(ctx, v, visible); err != nil {
			return nil, err
		}
	}
	r, err := q.Run(ctx, data, limits)
	return r, s.explainQuery(ctx, err)
}

func (s *Store) explainQuery(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, sparql.ErrTooMuch) || errors.Is(err, graph.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	return s.o.Explain(ctx, err)
}

// view is the data of one query.
type view struct {
	s       *Store
	m       *mirror
	visible map[sparql.ID]bool // nil: all
}

var _ sparql.Dataset = (*view)(nil)

func (v *view) isVisible(g sparql.ID) bool { return v.visible == nil || v.visible[g] }

// Find implements sparql.Dataset.
func (v *view) Find(ctx context.Context, terms []graph.Term) ([]sparql.ID, error) {
	text := make([]string, len(terms))
	for i, t := range terms {
		text[i] = t.String()
	}
	found := make(map[string]int64, len(terms))
	if err := readIDs(ctx, v.s.o.DB, text, found); err != nil {
		return nil, err
	}
	out := make([]sparql.ID, len(terms))
	for i, t := range text {
		out[i] = sparql.ID(found[t])
	}
	return out, nil
}

// Terms implements sparql.Dataset.
func (v *view) Terms(ctx context.Context, ids []sparql.ID) ([]graph.Term, error) {
	out := make([]graph.Term, len(ids))
	missing := v.m.terms.lookup(ids, out)
	at := make(map[int64]int, len(missing))
	for _, i := range missing {
		at[int64(ids[i])] = i
	}
	err := inChunks(missing, func(part []int) (err error) {
		args := make([]any, len(part))
		for i, j := range part {
			args[i] = int64(ids[j])
		}
		rows, err := v.s.o.DB.QueryContext(ctx, `SELECT id, term FROM graph_terms WHERE id IN (`+placeholders(1, len(args))+`)`, args...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		var id int64
		var text string
		for rows.Next() {
			if err := rows.Scan(&id, &text); err != nil {
				return err
			}
			if out[at[id]], err = graph.ParseTerm(text); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	if at := slices.Index(out, graph.Term{}); at >= 0 {
		return nil, fmt.Errorf("%w: %d", sparql.ErrNoTerm, ids[at])
	}
	v.m.terms.add(ids, out, missing)
	return out, nil
}

// Graphs implements sparql.Dataset. Graphs without statements do not exist.
func (v *view) Graphs(context.Context) (out []sparql.ID, err error) {
	for id, info := range v.m.graphs {
		if info.Quads > 0 && v.isVisible(id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Match implements sparql.Dataset.
func (v *view) Match(_ context.Context, p sparql.Pattern, yield func(sparql.Quad) bool) error {
	more := v.m.base.Each(p, func(q sparql.Quad) bool {
		return v.m.stale[q.G] || !v.isVisible(q.G) || yield(q)
	})
	if more && v.m.delta.Len() > 0 {
		v.m.delta.Each(p, func(q sparql.Quad) bool { return !v.isVisible(q.G) || yield(q) })
	}
	return nil
}

// Estimate implements sparql.Dataset.
func (v *view) Estimate(p sparql.Pattern) int { return v.m.base.Count(p) + v.m.delta.Count(p) }

// Update executes the operations of u (DROP GRAPH, INSERT DATA and DELETE DATA), each as one change of the store. may returns an error if
// the caller may not change the subgraph with the given id, which need not exist yet. Statements outside a named graph are an error.
func (s *Store) Update(ctx context.Context, u sparql.Update, p graph.Put, may func(id string) error) error {
	for _, op := range u {
		if op.Drop != "" {
			id := graph.IDOf(op.Drop)
			err := may(id)
			if err == nil {
				_, err = s.Delete(ctx, id, graph.AnyVersion)
			}
			if err != nil && !(op.Silent && errors.Is(err, graph.ErrNotFound)) {
				return err
			}
			continue
		}
		if err := s.applyOperation(ctx, op, p, may); err != nil {
			return err
		}
	}
	return nil
}

// ErrNoGraph reports data without GRAPH.
var ErrNoGraph = errors.New("every statement of the knowledge graph is in a subgraph: write GRAPH <name> { ... }")

func (s *Store) applyOperation(ctx context.Context, op sparql.Operation, p graph.Put, may func(id string) error) error {
	by := map[string][]graph.Quad{}
	for _, q := range append(slices.Clone(op.Insert), op.Delete...) {
		if q.G.IsZero() {
			return ErrNoGraph
		}
		id := graph.IDOf(q.G.Value)
		by[id] = append(by[id], q)
	}
	for id, quads := range by {
		if err := may(id); err != nil {
			return err
		}
		if op.Insert != nil {
			p.Quads, p.Merge, p.IfVersion = quads, true, graph.AnyVersion
			if _, _, err := s.Put(ctx, id, p); err != nil {
				return err
			}
			continue
		}
		if err := s.removeStatements(ctx, id, quads, p); err != nil {
			return err
		}
	}
	return nil
}

// removeStatements removes statements from a subgraph.
func (s *Store) removeStatements(ctx context.Context, id string, quads []graph.Quad, p graph.Put) error {
	for {
		info, have, err := s.Get(ctx, id)
		if errors.Is(err, graph.ErrNotFound) {
			return nil // there is nothing to delete
		}
		if err != nil {
			return err
		}
		gone := map[graph.Quad]bool{}
		for _, q := range quads {
			q.G = graph.Term{}
			gone[q] = true
		}
		p.Quads, p.Merge, p.IfVersion = slices.DeleteFunc(have, func(q graph.Quad) bool { return gone[q] }), false, info.Version
		_, _, err = s.Put(ctx, id, p)
		var version *graph.VersionError
		if !errors.As(err, &version) {
			return err
		}
	}
}

// timestampPrefix begins the names of graphs that hold the state at a time in milliseconds.
const timestampPrefix = "timestamp:"

// Timestamp parses the time in Unix milliseconds from a subgraph id of the form timestamp:MS or ID/timestamp:MS.
// Clients of GLACIATION write such a subgraph at every tick. ok is false for all other ids.
func Timestamp(id string) (ms int64, ok bool) {
	at := strings.LastIndex(id, timestampPrefix)
	if at < 0 || at > 0 && id[at-1] != '/' {
		return 0, false
	}
	ms, err := strconv.ParseInt(id[at+len(timestampPrefix):], 10, 64)
	return ms, err == nil
}
