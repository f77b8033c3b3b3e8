package sparql

import (
	"cmp"
	"slices"
)

// Index holds quads in three sort orders: by subject, by predicate and object, and by object. Within each, quads are
// sorted by graph. It takes 48 bytes per quad. It is immutable and therefore safe for concurrent use.
type Index struct{ byS, byP, byO []Quad }

// sortKey is a quad as two numbers that compare in its order.
type sortKey func(Quad) (high, low uint64)

func keyS(q Quad) (high, low uint64) { return idPair(q.S, q.G), idPair(q.P, q.O) }
func keyP(q Quad) (high, low uint64) { return idPair(q.P, q.O), idPair(q.G, q.S) }
func keyO(q Quad) (high, low uint64) { return idPair(q.O, q.G), idPair(q.S, q.P) }

func idPair(a, b ID) uint64 { return uint64(a)<<32 | uint64(b) }

func (k sortKey) compareQuads(a, b Quad) int {
	ah, al := k(a)
	bh, bl := k(b)
	return cmp.Or(cmp.Compare(ah, bh), cmp.Compare(al, bl))
}

// NewIndex takes ownership of quads, which must have no duplicates.
func NewIndex(quads []Quad) *Index {
	slices.SortFunc(quads, sortKey(keyS).compareQuads)
	quads = slices.Compact(quads)
	x := &Index{byS: quads, byP: slices.Clone(quads), byO: slices.Clone(quads)}
	slices.SortFunc(x.byP, sortKey(keyP).compareQuads)
	slices.SortFunc(x.byO, sortKey(keyO).compareQuads)
	return x
}

// Len returns the number of quads.
func (x *Index) Len() int { return len(x.byS) }

// Quads returns all quads by subject; the caller must not change them.
func (x *Index) Quads() []Quad { return x.byS }

// quadRange returns the part of list from low to high, compared by k. It searches for the end outwards from the start,
// because most parts have only a few quads.
func quadRange(list []Quad, k sortKey, low, high Quad) []Quad {
	h, l := k(low)
	list = list[k.firstAt(list, h, l):]
	if h, l = k(high); l == 1<<64-1 {
		h, l = h+1, 0
	} else {
		l++
	}
	if h == 0 { // there is no higher quad
		return list
	}
	n := 4
	for n < len(list) && k.isBelow(list[n], h, l) {
		n *= 4
	}
	n = min(n, len(list))
	return list[:k.firstAt(list[:n], h, l)]
}

func (k sortKey) isBelow(q Quad, high, low uint64) bool {
	h, l := k(q)
	return h < high || h == high && l < low
}

// firstAt returns the index of the first quad that is not below a key.
func (k sortKey) firstAt(list []Quad, high, low uint64) int {
	from, to := 0, len(list)
	for from < to {
		middle := int(uint(from+to) >> 1)
		if k.isBelow(list[middle], high, low) {
			from = middle + 1
		} else {
			to = middle
		}
	}
	return from
}

const most = ^ID(0)

// rangeOf returns the smallest range of an order that contains all matches.
func (x *Index) rangeOf(p Pattern) []Quad {
	low, high := Quad(p), Quad(p)
	open := func(ids ...*ID) {
		for _, id := range ids {
			*id = most
		}
	}
	switch {
	case p.S != 0:
		switch {
		case p.G == 0:
			low.P, low.O = 0, 0
			open(&high.G, &high.P, &high.O)
		case p.P == 0:
			low.O = 0
			open(&high.P, &high.O)
		case p.O == 0:
			open(&high.O)
		}
		return quadRange(x.byS, keyS, low, high)
	case p.O != 0 && p.P != 0:
		if p.G == 0 {
			open(&high.G)
		}
		open(&high.S)
		return quadRange(x.byP, keyP, low, high)
	case p.O != 0:
		if p.G == 0 {
			open(&high.G)
		}
		open(&high.S, &high.P)
		return quadRange(x.byO, keyO, low, high)
	case p.P != 0:
		low.G = 0
		open(&high.O, &high.G, &high.S)
		return quadRange(x.byP, keyP, low, high)
	}
	return x.byS
}

// Each calls yield with the matching quads until it returns false, and reports whether it never did.
func (x *Index) Each(p Pattern, yield func(Quad) bool) bool {
	for _, q := range x.rangeOf(p) {
		if p.S != 0 && q.S != p.S || p.P != 0 && q.P != p.P || p.O != 0 && q.O != p.O || p.G != 0 && q.G != p.G {
			continue
		}
		if !yield(q) {
			return false
		}
	}
	return true
}

// Count returns an upper bound of the number of matching quads.
func (x *Index) Count(p Pattern) int { return len(x.rangeOf(p)) }
