package sparql

import (
	"fmt"
	"maps"
	"slices"

	"reckon/graph"
)

// selectGraphs limits the data set to the graphs of FROM and FROM NAMED.
func (q *Query) selectGraphs(e *eval) error {
	if len(q.from)+len(q.fromNamed) == 0 {
		return nil
	}
	e.from, e.graphs = []ID{}, []ID{}
	for i, list := range [][]graph.Term{q.from, q.fromNamed} {
		for _, t := range list {
			id, err := e.dataID(e.localID(t))
			if err != nil {
				return err
			}
			if to := []*[]ID{&e.from, &e.graphs}[i]; id < local && !slices.Contains(*to, id) {
				*to = append(*to, id)
			}
		}
	}
	return nil
}

// listGraphs lists the named graphs of the query once.
func (e *eval) listGraphs() (err error) {
	if e.graphs == nil {
		e.graphs, err = e.data.Graphs(e.ctx)
	}
	return err
}

// buildStatements answers a CONSTRUCT or a DESCRIBE.
func (q *Query) buildStatements(e *eval) (*Result, error) {
	t, err := q.sel.eval(e, e.emptyBinding())
	if err != nil {
		return nil, err
	}
	if q.form == describeForm {
		return q.describeResources(e, t)
	}
	out := statementSet{limit: e.limits.Rows, seen: map[graph.Quad]bool{}, list: []graph.Quad{}}
	columns := map[int]bool{}
	for _, x := range q.template {
		for _, s := range x.slots() {
			if s.isVar() && !e.isBlank(q, s.v) {
				columns[s.v] = true
			}
		}
	}
	var list []int
	list = slices.AppendSeq(list, maps.Keys(columns))
	if err := e.fetchTerms(t, list); err != nil {
		return nil, err
	}
	for i := range t.len() {
		minted := map[int]graph.Term{}
		for _, x := range q.template {
			var cells [3]graph.Term
			for j, s := range x.slots() {
				switch {
				case !s.isVar():
					cells[j] = s.term
				case e.isBlank(q, s.v):
					if minted[s.v].IsZero() {
						minted[s.v] = e.newBlankNode()
					}
					cells[j] = minted[s.v]
				case t.row(i)[s.v] != 0:
					cells[j] = e.terms[t.row(i)[s.v]]
				}
			}
			if err := out.addStatement(graph.Quad{S: cells[0], P: cells[1], O: cells[2]}); err != nil {
				return nil, err
			}
		}
		if err := e.checkTime(); err != nil {
			return nil, err
		}
	}
	return &Result{Graph: out.list}, nil
}

// isBlank reports whether a variable stands for a blank node of the template.
func (e *eval) isBlank(q *Query, v int) bool { return q.vars.names[v][0] == ' ' }

// newBlankNode returns a blank node that the data does not have.
func (e *eval) newBlankNode() graph.Term {
	e.minted++
	return graph.BlankNode(fmt.Sprintf("new%x-%d", e.start.UnixNano(), e.minted))
}

// statementSet collects statements that are valid RDF, each once.
type statementSet struct {
	limit int
	seen  map[graph.Quad]bool
	list  []graph.Quad
}

func (s *statementSet) addStatement(q graph.Quad) error {
	if q.P.Kind != graph.IRI || q.S.Kind != graph.IRI && q.S.Kind != graph.Blank || q.O.IsZero() || s.seen[q] {
		return nil
	}
	if len(s.list) >= s.limit {
		return fmt.Errorf("%w: the answer has more than %d statements; narrow it", ErrTooMuch, s.limit)
	}
	s.seen[q] = true
	s.list = append(s.list, q)
	return nil
}

// describeResources returns the statements about each resource and about the blank nodes that they lead to.
func (q *Query) describeResources(e *eval, t *table) (*Result, error) {
	var queue []ID
	seen := map[ID]bool{}
	push := func(id ID) error {
		id, err := e.dataID(id)
		if err == nil && id != 0 && !seen[id] {
			seen[id] = true
			queue = append(queue, id)
		}
		return err
	}
	for _, s := range q.resources {
		if !s.isVar() {
			if err := push(e.localID(s.term)); err != nil {
				return nil, err
			}
			continue
		}
		for i := range t.len() {
			if err := push(t.row(i)[s.v]); err != nil {
				return nil, err
			}
		}
	}
	out := statementSet{limit: e.limits.Rows, seen: map[graph.Quad]bool{}, list: []graph.Quad{}}
	for ; len(queue) > 0; queue = queue[1:] {
		found, err := e.matchQuads(nil, queue[0], 0, 0)
		if err != nil {
			return nil, err
		}
		cells := &table{width: 3, may: make([]bool, 3)}
		for _, f := range found {
			cells.data = append(cells.data, f.S, f.P, f.O)
		}
		if err := e.fetchTerms(cells, []int{0, 1, 2}); err != nil {
			return nil, err
		}
		for _, f := range found {
			if err := out.addStatement(graph.Quad{S: e.terms[f.S], P: e.terms[f.P], O: e.terms[f.O]}); err != nil {
				return nil, err
			}
			if e.terms[f.O].Kind == graph.Blank {
				if err := push(f.O); err != nil {
					return nil, err
				}
			}
		}
	}
	return &Result{Graph: out.list}, nil
}
