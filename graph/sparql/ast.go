// Package sparql implements a documented subset of SPARQL 1.1 (https://www.w3.org/TR/sparql11-query/) over any
// [Dataset], with limits on time, rows and memory.
//
// It accepts SELECT and ASK with patterns, GRAPH (an empty one lists graphs), UNION, OPTIONAL, FILTER with EXISTS and
// NOT EXISTS, BIND, VALUES, sub-SELECT, expressions with casts, regex and replace, GROUP BY with aggregates, HAVING,
// ORDER BY, LIMIT and OFFSET, paths of a/b, a* and a+; and the updates DROP GRAPH, INSERT DATA and DELETE DATA.
// Anything else is an [UnsupportedError] that names the construct. Patterns outside of GRAPH match the union of all
// named graphs.
//
// A parsed query may be used by several goroutines at once.
package sparql

import (
	"fmt"

	"reckon/graph"
)

// UnsupportedError names a construct of SPARQL that is not supported.
type UnsupportedError struct {
	Construct    string
	Line, Column int
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s is not supported by the embedded store; a remote store supports all of SPARQL", e.Line,
		e.Column, e.Construct)
}

// Query is a parsed SELECT or ASK.
type Query struct {
	ask  bool
	sel  selectNode
	vars *variables
}

// Update is a parsed update: its operations in order.
type Update []Operation

// Operation is one part of an update; exactly one of Drop, Insert and Delete is set.
type Operation struct {
	Drop           string // IRI of a graph
	Silent         bool   // no error if the graph does not exist
	Insert, Delete []graph.Quad
}

// variables numbers the variables of a query; those of blank nodes and of paths have names that cannot be written.
type variables struct {
	names []string
	index map[string]int
}

func (v *variables) of(name string) int {
	if at, ok := v.index[name]; ok {
		return at
	}
	v.index[name] = len(v.names)
	v.names = append(v.names, name)
	return len(v.names) - 1
}

func (v *variables) fresh() int { return v.of(fmt.Sprintf(" %d", len(v.names))) }

// slot is a term or a variable in a pattern.
type slot struct {
	term graph.Term
	v    int // when term is zero
}

func (s slot) isVar() bool { return s.term.IsZero() }

// node is a part of the algebra.
type node interface {
	// scope adds the variables that the node may bind.
	scope(in map[int]bool)
	eval(e *eval, seeds *table) (*table, error)
}

type triple struct {
	s, p, o slot
	repeat  byte // 0, '*' or '+', for a path of one predicate
}

type (
	bgp      struct{ triples []triple }
	join     struct{ left, right node }
	leftJoin struct {
		left, right node
		filters     []expr
		tag         int // variable that identifies rows of the left side
	}
	union  struct{ left, right node }
	filter struct {
		inner      node
		conditions []expr
	}
	extend struct {
		inner node
		v     int
		e     expr
	}
	graphNode struct {
		name  slot
		inner node
	}
	values struct {
		vars []int
		rows [][]graph.Term
	}
	unit struct{}
)

type projection struct {
	v int
	e expr // nil: the variable itself
}

type order struct {
	e    expr
	desc bool
}

// selectNode is a SELECT, at the top or nested.
type selectNode struct {
	distinct   bool
	star       bool
	project    []projection
	where      node
	grouped    bool
	group      []projection // e nil: a variable
	having     []expr
	aggregates []*aggregate
	order      []order
	limit      int // -1: none
	offset     int
}

// aggregate is COUNT or another aggregate; its result is in the variable v.
type aggregate struct {
	name      string
	distinct  bool
	e         expr // nil: COUNT(*)
	separator string
	v         int
}

func (b *bgp) scope(in map[int]bool) {
	for _, t := range b.triples {
		for _, s := range []slot{t.s, t.p, t.o} {
			if s.isVar() {
				in[s.v] = true
			}
		}
	}
}
func (n *join) scope(in map[int]bool)     { n.left.scope(in); n.right.scope(in) }
func (n *leftJoin) scope(in map[int]bool) { n.left.scope(in); n.right.scope(in) }
func (n *union) scope(in map[int]bool)    { n.left.scope(in); n.right.scope(in) }
func (n *filter) scope(in map[int]bool)   { n.inner.scope(in) }
func (n *extend) scope(in map[int]bool)   { n.inner.scope(in); in[n.v] = true }
func (n *graphNode) scope(in map[int]bool) {
	n.inner.scope(in)
	if n.name.isVar() {
		in[n.name.v] = true
	}
}
func (n *values) scope(in map[int]bool) {
	for _, v := range n.vars {
		in[v] = true
	}
}
func (unit) scope(map[int]bool) {}
func (n *selectNode) scope(in map[int]bool) {
	for _, p := range n.project {
		in[p.v] = true
	}
}

func scopeOf(n node) map[int]bool {
	in := map[int]bool{}
	n.scope(in)
	return in
}
