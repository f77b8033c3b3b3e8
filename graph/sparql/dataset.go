package sparql

import (
	"context"
	"errors"
	"time"

	"reckon/graph"
)

// ID stands for a term of a data set. 0 is no term. Those from 1<<31 on belong to the query.
type ID uint32

const local ID = 1 << 31

// Dataset is what a query is asked of: the named graphs that the asker may see. It does not change during a query.
type Dataset interface {
	// Find gives the ids of terms, 0 for those that are nowhere in the data.
	Find(ctx context.Context, terms []graph.Term) ([]ID, error)
	// Terms gives the terms of ids.
	Terms(ctx context.Context, ids []ID) ([]graph.Term, error)
	// Graphs are the names of the graphs.
	Graphs(ctx context.Context) ([]ID, error)
	// Match calls yield with each quad that has the given terms, 0 for any, until it returns false.
	Match(ctx context.Context, p Pattern, yield func(Quad) bool) error
	// Estimate is about how many quads match.
	Estimate(p Pattern) int
}

// Unlisted is a data set with graphs that only a query that names them finds.
type Unlisted interface {
	Unlisted(g ID) bool
}

// Pattern is a quad in which 0 stands for anything.
type Pattern struct{ S, P, O, G ID }

// Quad is a statement by its ids.
type Quad struct{ S, P, O, G ID }

// Limits bound a query.
type Limits struct {
	Rows  int           // of the answer and of every step; 0 is 1,000,000
	Cells int           // rows times variables of every step; 0 is 16,000,000, which are 64 MB
	Time  time.Duration // 0 is 30 s
}

// ErrTooMuch is what errors.Is finds when a query passed one of its limits.
var ErrTooMuch = errors.New("the query takes too much")

// Result is the answer of a query.
type Result struct {
	Vars []string
	Rows [][]graph.Term // the zero term where nothing is bound
	Ask  *bool          // of an ASK; nil of a SELECT
}
