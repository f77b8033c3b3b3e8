package sparql

import (
	"context"
	"errors"
	"time"

	"reckon/graph"
)

// ID is the id of a term of a data set. 0 is no term. Ids from 1<<31 on belong to the query.
type ID uint32

const local ID = 1 << 31

// Dataset is the input of a query: the named graphs that the viewer may see. It does not change during a query.
type Dataset interface {
	// Find returns the ids of terms, 0 for terms that do not occur in the data.
	Find(ctx context.Context, terms []graph.Term) ([]ID, error)
	// Terms returns the terms with the given ids.
	Terms(ctx context.Context, ids []ID) ([]graph.Term, error)
	// Graphs returns the names of the graphs.
	Graphs(ctx context.Context) ([]ID, error)
	// Match calls yield with each quad that has the given terms, 0 for any, until it returns false.
	Match(ctx context.Context, p Pattern, yield func(Quad) bool) error
	// Estimate returns the approximate number of matching quads.
	Estimate(p Pattern) int
}

// Unlisted is a data set with graphs that are matched only by name.
type Unlisted interface {
	Unlisted(g ID) bool
}

// Pattern is a quad with 0 as a wildcard.
type Pattern struct{ S, P, O, G ID }

// Quad is a statement by its ids.
type Quad struct{ S, P, O, G ID }

// Limits limit a query.
type Limits struct {
	Rows  int           // of the result and of every step; 0 is 1,000,000
	Cells int           // rows times variables of every step; 0 is 16,000,000, which are 64 MB
	Time  time.Duration // 0 is 30 s
}

// ErrTooMuch reports, by errors.Is, that a query exceeded one of its limits.
var ErrTooMuch = errors.New("the query exceeds a limit")

// Result is the result of a query.
type Result struct {
	Vars []string
	Rows [][]graph.Term // the zero term for an unbound variable
	Ask  *bool          // for an ASK; nil for a SELECT
	// Graph has the statements of a CONSTRUCT or a DESCRIBE, without duplicates; nil for other queries.
	Graph []graph.Quad
}
