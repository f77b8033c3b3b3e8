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
		at, err := e.cheapest(rest, bound)
		if err != nil {
			return nil, err
		}
		next := rest[at]
		rest = slices.Delete(rest, at, at+1)
		for _, s := range []slot{next.s, next.p, next.o} {
			if s.isVar() {
				bound[s.v] = true
			}
		}
		if t, err = e.triple(next, t); err != nil {
			return nil, err
		}
	}
	for v := range b.bound() {
		t.may[v] = true
	}
	return t, nil
}

func (b *bgp) bound() map[int]bool { return scopeOf(b) }

// cheapest returns the triple that is likely to yield the fewest rows, given the bound variables.
func (e *eval) cheapest(list []triple, bound []bool) (int, error) {
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
			id, err := e.canonical(e.intern(s.term))
			if id >= local {
				id = 0
			}
			*to = id
			return 0, err
		}
		s, err1 := weight(t.s, &p.S)
		_, err2 := weight(t.p, &p.P)
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
		if t.repeat != 0 && s+o == 0 && p.S == 0 && p.O == 0 {
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

func (e *eval) position(s slot) (position, error) {
	if s.isVar() {
		return position{v: s.v}, nil
	}
	id, err := e.canonical(e.intern(s.term))
	return position{id, -1}, err
}

// in resolves the position in a row: a fixed id, or 0 and the variable to bind.
func (n position) in(e *eval, row []ID) (id ID, free int, err error) {
	if n.v < 0 {
		return n.id, -1, nil
	}
	if row[n.v] == 0 {
		return 0, n.v, nil
	}
	id, err = e.canonical(row[n.v])
	return id, -1, err
}

// triple extends every row by the matching quads.
func (e *eval) triple(t triple, seeds *table) (*table, error) {
	out := newTable(e.width)
	out.merge(seeds.may)
	out.data = make([]ID, 0, len(seeds.data))
	row := make([]ID, e.width)
	var found []Quad
	subject, err1 := e.position(t.s)
	predicate, err2 := e.position(t.p)
	object, err3 := e.position(t.o)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, err
	}
	for i := range seeds.len() {
		seed := seeds.row(i)
		s, sv, err1 := subject.in(e, seed)
		p, pv, err2 := predicate.in(e, seed)
		o, ov, err3 := object.in(e, seed)
		if err := cmp.Or(err1, err2, err3); err != nil {
			return nil, err
		}
		var err error
		if t.repeat != 0 {
			found, err = e.path(found[:0], s, p, o, t.repeat == '*')
		} else {
			found, err = e.match(found[:0], s, p, o)
		}
		if err != nil {
			return nil, err
		}
		for _, q := range found {
			copy(row, seed)
			if !put(row, sv, q.S) || !put(row, pv, q.P) || !put(row, ov, q.O) {
				continue // one variable in two positions
			}
			if err := e.add(out, row); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func put(row []ID, v int, id ID) bool {
	if v < 0 {
		return true
	}
	if row[v] != 0 && row[v] != id {
		return false
	}
	row[v] = id
	return true
}

// match collects the matching triples of the active graph, or of the union of all graphs, without duplicates.
func (e *eval) match(found []Quad, s, p, o ID) ([]Quad, error) {
	if s >= local || p >= local || o >= local {
		return found, nil // the term does not occur in the data
	}
	several := false
	var failed error
	err := e.data.Match(e.ctx, Pattern{s, p, o, e.graph}, func(q Quad) bool {
		several = several || len(found) > 0 && q.G != found[0].G
		found = append(found, q)
		if failed = e.tick(); failed == nil && len(found) > e.limits.Rows {
			failed = ErrTooMuch
		}
		return failed == nil
	})
	if err := cmp.Or(err, failed); err != nil {
		return nil, err
	}
	if several {
		slices.SortFunc(found, func(a, b Quad) int {
			return cmp.Or(cmp.Compare(a.S, b.S), cmp.Compare(a.P, b.P), cmp.Compare(a.O, b.O))
		})
		found = slices.CompactFunc(found, func(a, b Quad) bool { return a.S == b.S && a.P == b.P && a.O == b.O })
	}
	return found, nil
}

// path follows a predicate any number of times, including zero times if zero is true.
func (e *eval) path(found []Quad, s, p, o ID, zero bool) ([]Quad, error) {
	starts := []ID{s}
	backwards := s == 0 && o != 0
	switch {
	case backwards:
		starts[0] = o
	case s == 0:
		var err error
		if starts, err = e.nodes(); err != nil {
			return nil, err
		}
	}
	for _, start := range starts {
		reached, err := e.reach(start, p, backwards, zero)
		if err != nil {
			return nil, err
		}
		for _, to := range reached {
			q := Quad{S: start, P: p, O: to}
			if backwards {
				q.S, q.O = to, start
			}
			if o == 0 || q.O == o {
				if found = append(found, q); len(found) > e.limits.Rows {
					return nil, ErrTooMuch
				}
			}
		}
	}
	return found, nil
}

// reach lists the terms that a predicate reaches from start.
func (e *eval) reach(start, p ID, backwards, zero bool) (out []ID, err error) {
	seen := map[ID]bool{}
	if zero {
		seen[start] = true
		out = append(out, start)
	}
	var found []Quad
	for queue := []ID{start}; len(queue) > 0; queue = queue[1:] {
		if backwards {
			found, err = e.match(found[:0], 0, p, queue[0])
		} else {
			found, err = e.match(found[:0], queue[0], p, 0)
		}
		if err != nil {
			return nil, err
		}
		for _, q := range found {
			to := q.O
			if backwards {
				to = q.S
			}
			if !seen[to] {
				seen[to] = true
				out, queue = append(out, to), append(queue, to)
			}
		}
	}
	return out, nil
}

// nodes returns all subjects and objects of the active graph.
func (e *eval) nodes() ([]ID, error) {
	all, err := e.match(nil, 0, 0, 0)
	if err != nil {
		return nil, err
	}
	seen := map[ID]bool{}
	var out []ID
	for _, q := range all {
		for _, id := range []ID{q.S, q.O} {
			if !seen[id] {
				seen[id] = true
				out = append(out, id)
			}
		}
	}
	return out, nil
}
