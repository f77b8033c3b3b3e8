// Package sparql implements a documented subset of SPARQL 1.1 (https://www.w3.org/TR/sparql11-query/) over any
// [Dataset], with limits on time, rows and memory.
//
// It accepts all of SELECT, ASK, CONSTRUCT and DESCRIBE but SERVICE and functions of other vendors; and the updates
// DROP GRAPH, INSERT DATA and DELETE DATA. Anything else is an [UnsupportedError] that names the construct. Patterns
// outside of GRAPH match the union of all named graphs, or of those that FROM names. DESCRIBE returns the statements
// about a resource, and about the blank nodes that they lead to.
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

// Query is a parsed query.
type Query struct {
	form      queryForm
	sel       selectNode
	template  []triple // of CONSTRUCT
	resources []slot   // of DESCRIBE
	from      []graph.Term
	fromNamed []graph.Term
	vars      *variables
}

type queryForm uint8

const (
	selectForm queryForm = iota
	askForm
	constructForm
	describeForm
)

// Update is a parsed update: its operations in order.
type Update []Operation

// Operation is one part of an update; exactly one of Drop, Insert and Delete is set.
type Operation struct {
	Drop           string // IRI of a graph
	Silent         bool   // no error if the graph does not exist
	Insert, Delete []graph.Quad
}

// variables numbers the variables of a query; the variables of blank nodes and of paths have names that cannot be written.
type variables struct {
	names []string
	index map[string]int
}

func (v *variables) indexOf(name string) int {
	if at, ok := v.index[name]; ok {
		return at
	}
	v.index[name] = len(v.names)
	v.names = append(v.names, name)
	return len(v.names) - 1
}

func (v *variables) newHidden() int { return v.indexOf(fmt.Sprintf(" %d", len(v.names))) }

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
	path    *path // instead of p
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
	minus  struct{ left, right node }
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
		for _, s := range t.slots() {
			if s.isVar() {
				in[s.v] = true
			}
		}
	}
}

func (t triple) slots() []slot {
	if t.path != nil {
		return []slot{t.s, t.o}
	}
	return []slot{t.s, t.p, t.o}
}
func (n *join) scope(in map[int]bool)     { n.left.scope(in); n.right.scope(in) }
func (n *leftJoin) scope(in map[int]bool) { n.left.scope(in); n.right.scope(in) }
func (n *union) scope(in map[int]bool)    { n.left.scope(in); n.right.scope(in) }
func (n *minus) scope(in map[int]bool)    { n.left.scope(in) }
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
