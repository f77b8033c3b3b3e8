package sparql

import (
	"cmp"
	"slices"
)

func (b *bgp) eval(e *eval, seeds *table) (*table, error) {
	bound := slices.Clone(seeds.may)
	rest := slices.Clone(b.triples)
	t := seeds
	for len(rest) > 0 && t.len() > 0 {
		at, err := e.cheapestTriple(rest, bound)
		if err != nil {
			return nil, err
		}
		next := rest[at]
		rest = slices.Delete(rest, at, at+1)
		for _, s := range next.slots() {
			if s.isVar() {
				bound[s.v] = true
			}
		}
		if t, err = e.matchTriple(next, t); err != nil {
			return nil, err
		}
	}
	for v := range b.variables() {
		t.may[v] = true
	}
	return t, nil
}

func (b *bgp) variables() map[int]bool { return scopeOf(b) }

// cheapestTriple returns the triple that is likely to yield the fewest rows, given the bound variables.
func (e *eval) cheapestTriple(list []triple, bound []bool) (int, error) {
	best, least := 0, -1
	for i, t := range list {
		var p Pattern
		weight := func(s slot, to *ID) (int, error) {
			if s.isVar() {
				if bound[s.v] {
					return 1, nil
				}
				return 0, nil
			}
			id, err := e.dataID(e.localID(s.term))
			if id >= local {
				id = 0
			}
			*to = id
			return 0, err
		}
		var err2 error
		s, err1 := weight(t.s, &p.S)
		if t.path == nil {
			_, err2 = weight(t.p, &p.P)
		}
		o, err3 := weight(t.o, &p.O)
		if err := cmp.Or(err1, err2, err3); err != nil {
			return 0, err
		}
		p.G = e.graph
		n := e.data.Estimate(p)
		if s > 0 {
			n = min(n, 4)
		}
		if o > 0 {
			n = min(n, 64)
		}
		if t.path != nil && s+o == 0 && p.S == 0 && p.O == 0 {
			n = 1 << 40 // a path with two open ends comes last
		}
		if least < 0 || n < least {
			best, least = i, n
		}
	}
	return best, nil
}

// position is subject, predicate or object of a triple: a fixed term, or a variable.
type position struct {
	id ID
	v  int // -1: fixed
}

func (e *eval) fixPosition(s slot) (position, error) {
	if s.isVar() {
		return position{v: s.v}, nil
	}
	id, err := e.dataID(e.localID(s.term))
	return position{id, -1}, err
}

// resolveIn resolves the position in a row: a fixed id, or 0 and the variable to bind.
func (n position) resolveIn(e *eval, row []ID) (id ID, free int, err error) {
	if n.v < 0 {
		return n.id, -1, nil
	}
	if row[n.v] == 0 {
		return 0, n.v, nil
	}
	id, err = e.dataID(row[n.v])
	return id, -1, err
}

// matchTriple extends every row by the matching quads.
func (e *eval) matchTriple(t triple, seeds *table) (*table, error) {
	out := newTable(e.width)
	out.merge(seeds.may)
	out.data = make([]ID, 0, len(seeds.data))
	row := make([]ID, e.width)
	var found []Quad
	subject, err1 := e.fixPosition(t.s)
	object, err3 := e.fixPosition(t.o)
	predicate := position{v: -1}
	along, err2 := t.path.withIDs(e)
	if along == nil {
		predicate, err2 = e.fixPosition(t.p)
	}
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, err
	}
	for i := range seeds.len() {
		seed := seeds.row(i)
		s, sv, err1 := subject.resolveIn(e, seed)
		p, pv, err2 := predicate.resolveIn(e, seed)
		o, ov, err3 := object.resolveIn(e, seed)
		if err := cmp.Or(err1, err2, err3); err != nil {
			return nil, err
		}
		var err error
		if along != nil {
			if found, err = along.appendPairs(e, found[:0], s, o); err == nil && t.s.isVar() && t.o.isVar() && !e.inExists {
				found, err = e.inGraph(found)
			}
		} else {
			found, err = e.matchQuads(found[:0], s, p, o)
		}
		if err != nil {
			return nil, err
		}
		for _, q := range found {
			copy(row, seed)
			if !bindVariable(row, sv, q.S) || !bindVariable(row, pv, q.P) || !bindVariable(row, ov, q.O) {
				continue // one variable in two positions
			}
			if err := e.addRow(out, row); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func bindVariable(row []ID, v int, id ID) bool {
	if v < 0 {
		return true
	}
	if row[v] != 0 && row[v] != id {
		return false
	}
	row[v] = id
	return true
}

// activeGraphs returns the graphs that a pattern is matched in; 0 is the union of all.
func (e *eval) activeGraphs() []ID {
	if e.graph == 0 && e.from != nil {
		return e.from
	}
	return []ID{e.graph}
}

// matchQuads collects the matching triples of the active graph, or of the union of all graphs, without duplicates.
func (e *eval) matchQuads(found []Quad, s, p, o ID) ([]Quad, error) {
	if s >= local || p >= local || o >= local {
		return found, nil // the term does not occur in the data
	}
	several := false
	var failed error
	first := len(found)
	yield := func(q Quad) bool {
		several = several || len(found) > first && q.G != found[first].G
		found = append(found, q)
		if failed = e.checkTime(); failed == nil && len(found) > e.limits.Rows {
			failed = ErrTooMuch
		}
		return failed == nil
	}
	for _, g := range e.activeGraphs() {
		err := e.data.Match(e.ctx, Pattern{s, p, o, g}, yield)
		if err := cmp.Or(err, failed); err != nil {
			return nil, err
		}
	}
	if several {
		list := found[first:]
		slices.SortFunc(list, func(a, b Quad) int {
			return cmp.Or(cmp.Compare(a.S, b.S), cmp.Compare(a.P, b.P), cmp.Compare(a.O, b.O))
		})
		list = slices.CompactFunc(list, func(a, b Quad) bool { return a.S == b.S && a.P == b.P && a.O == b.O })
		found = found[:first+len(list)]
	}
	return found, nil
}
