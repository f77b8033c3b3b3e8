package sparql

import (
	"cmp"
	"slices"

	"reckon/graph"
)

// path is a property path (https://www.w3.org/TR/sparql11-query/#propertypaths). op is one of
//
//	'p'  the predicate
//	'!'  any predicate except not, and backwards any except notBack
//	'^'  left backwards
//	'/'  left, then right
//	'|'  left or right
//	'?', '*', '+'  left, repeated
type path struct {
	op           byte
	predicate    graph.Term
	not, notBack []graph.Term
	left, right  *path

	id                   ID // of predicate, by numbered
	notIDs, notBackIDs   []ID
	forwards, isBackward bool // of '!'
}

// withIDs returns a copy with the ids of the predicates in the data.
func (p *path) withIDs(e *eval) (*path, error) {
	if p == nil {
		return nil, nil
	}
	var err error
	ids := func(terms []graph.Term) (out []ID) {
		for _, t := range terms {
			id, failed := e.dataID(e.localID(t))
			if failed != nil {
				err = failed
			}
			out = append(out, id)
		}
		return out
	}
	out := *p
	if p.op == 'p' {
		out.id = ids([]graph.Term{p.predicate})[0]
	}
	out.notIDs, out.notBackIDs = ids(p.not), ids(p.notBack)
	var err1, err2 error
	out.left, err1 = p.left.withIDs(e)
	out.right, err2 = p.right.withIDs(e)
	return &out, cmp.Or(err, err1, err2)
}

// appendPairs appends the ends of the path as S and O; s and o are fixed ends or 0.
func (p *path) appendPairs(e *eval, found []Quad, s, o ID) ([]Quad, error) {
	switch p.op {
	case 'p':
		return e.matchQuads(found, s, p.id, o)
	case '^':
		return p.left.matchBackwards(e, found, s, o)
	case '/':
		return p.matchSequence(e, found, s, o)
	case '|':
		found, err := p.left.appendPairs(e, found, s, o)
		if err != nil {
			return nil, err
		}
		return p.right.appendPairs(e, found, s, o)
	case '!':
		return p.matchNegated(e, found, s, o)
	}
	return p.matchRepeated(e, found, s, o)
}

func (p *path) matchBackwards(e *eval, found []Quad, s, o ID) ([]Quad, error) {
	from := len(found)
	found, err := p.appendPairs(e, found, o, s)
	for i := from; i < len(found); i++ {
		found[i].S, found[i].O = found[i].O, found[i].S
	}
	return found, err
}

func (p *path) matchSequence(e *eval, found []Quad, s, o ID) ([]Quad, error) {
	first, next := p.left, p.right
	from, to := s, ID(0)
	isBack := s == 0 && o != 0
	if isBack {
		first, next, from, to = p.right, p.left, 0, o
	}
	half, err := first.appendPairs(e, nil, from, to)
	if err != nil {
		return nil, err
	}
	var rest []Quad
	for _, q := range half {
		if isBack {
			rest, err = next.appendPairs(e, rest[:0], 0, q.S)
		} else {
			rest, err = next.appendPairs(e, rest[:0], q.O, o)
		}
		if err != nil {
			return nil, err
		}
		for _, r := range rest {
			if isBack {
				r.O = q.O
			} else {
				r.S = q.S
			}
			if found = append(found, r); len(found) > e.limits.Rows {
				return nil, ErrTooMuch
			}
		}
	}
	return found, nil
}

func (p *path) matchNegated(e *eval, found []Quad, s, o ID) ([]Quad, error) {
	pick := func(not []ID, s, o ID, isBack bool) error {
		all, err := e.matchQuads(nil, s, 0, o)
		for _, q := range all {
			if slices.Contains(not, q.P) {
				continue
			}
			if isBack {
				q.S, q.O = q.O, q.S
			}
			found = append(found, q)
		}
		return err
	}
	if p.forwards {
		if err := pick(p.notIDs, s, o, false); err != nil {
			return nil, err
		}
	}
	if p.isBackward {
		if err := pick(p.notBackIDs, o, s, true); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// matchRepeated follows the path at most once, any number of times, or at least once; each pair of ends is found once.
func (p *path) matchRepeated(e *eval, found []Quad, s, o ID) ([]Quad, error) {
	starts := []ID{s}
	isBack := s == 0 && o != 0
	switch {
	case isBack:
		starts[0] = o
	case s == 0:
		var err error
		if starts, err = e.allNodes(); err != nil {
			return nil, err
		}
	}
	for _, start := range starts {
		reached, err := p.reachableFrom(e, start, isBack)
		if err != nil {
			return nil, err
		}
		for _, to := range reached {
			q := Quad{S: start, O: to}
			if isBack {
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

// reachableFrom lists the terms that the repeated path reaches from start.
func (p *path) reachableFrom(e *eval, start ID, isBack bool) (out []ID, err error) {
	seen := map[ID]bool{}
	if p.op != '+' {
		seen[start] = true
		out = append(out, start)
	}
	var found []Quad
	for queue := []ID{start}; len(queue) > 0; queue = queue[1:] {
		if isBack {
			found, err = p.left.appendPairs(e, found[:0], 0, queue[0])
		} else {
			found, err = p.left.appendPairs(e, found[:0], queue[0], 0)
		}
		if err != nil {
			return nil, err
		}
		for _, q := range found {
			to := q.O
			if isBack {
				to = q.S
			}
			if !seen[to] {
				seen[to] = true
				if out = append(out, to); p.op != '?' {
					queue = append(queue, to)
				}
			}
		}
	}
	return out, nil
}

// inGraph drops each pair of a term with itself if the active graph does not contain the term, because a path of length
// zero matches only terms of that graph.
func (e *eval) inGraph(found []Quad) ([]Quad, error) {
	kept := found[:0]
	for _, q := range found {
		isThere := q.S != q.O
		if !isThere {
			var err error
			if isThere, err = e.occursInData(q.S); err != nil {
				return nil, err
			}
		}
		if isThere {
			kept = append(kept, q)
		}
	}
	return kept, nil
}

// occursInData reports whether a term is a subject or object of the active graph. It reads one statement.
func (e *eval) occursInData(id ID) (found bool, err error) {
	if id >= local {
		return false, nil
	}
	for _, g := range e.activeGraphs() {
		for _, p := range []Pattern{{S: id, G: g}, {O: id, G: g}} {
			if err = e.data.Match(e.ctx, p, func(Quad) bool { found = true; return false }); err != nil || found {
				return found, err
			}
		}
	}
	return false, nil
}

// allNodes returns all subjects and objects of the active graph.
func (e *eval) allNodes() ([]ID, error) {
	all, err := e.matchQuads(nil, 0, 0, 0)
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
