// Package figure defines each figure of a workload in one place: its name everywhere it appears, its
// unit, the series it is computed from, how parts and nodes are aggregated, when a missing series means
// zero, its upper bounds, its exactness, and its texts.
//
// [All] returns the table. [Row], the figures of one run of a workload, [Used], the figures of an hour,
// and [Capacity], the figures of a node in an hour, are generated from it (row.go), as are the
// types of the pages (vocabulary.ts). Everything else reads the table at run time: the
// aggregation in the catalogue, columns in both databases and in memory, sort keys, the
// API's description. A figure with an existing series costs one row here and `go generate ./figure`.
//
// Units are SI base units. A figure that was never measured is nil, never zero. The table
// is a constant: callers must not change what [All] returns. All functions are safe for
// concurrent use.
package figure

import (
	"strings"

	"reckon/metric"
)

//go:generate go run ./gen

// Scope is the set of subjects that a figure describes.
type Scope uint8

// Scopes; a figure may have several.
const (
	// Runs means a figure of one run of a workload, which is a field of [Row] and a column of workloads.
	Runs Scope = 1 << iota
	// Hours: a figure summed over hours, a field of [Used] and a column of uses and node_uses.
	Hours
	// Nodes: a figure of a node in an hour, a field of [Capacity] and a column of node_uses.
	Nodes
)

// Value selects how the samples of one series become a number.
type Value uint8

// Values of a series.
const (
	// Total is the increase of a counter since it began, across its resets.
	Total Value = iota + 1
	// Highest is the largest sample of a gauge.
	Highest
	// Newest is the latest sample of a gauge.
	Newest
	// Current is the latest sample, if it is recent. A part that ended long ago has no current value.
	Current
	// Quantile is the quantile [Figure.Quantile] of a native histogram.
	Quantile
)

// Combine selects how several numbers become one.
type Combine uint8

// Combinations.
const (
	Sum Combine = iota
	Max
	// Latest is the number with the latest sample; the largest one if several share that time.
	Latest
	// UpperBound combines quantiles of nodes into an upper bound of the same quantile of their sum, whatever their
	// dependence. It is the sum of each node's quantile at 1-(1-q)/n.
	UpperBound
	// Sequential combines parts: it takes the maximum of consecutive parts (for histograms, it merges them), and the
	// sum of simultaneous parts. A series without a part replaces the parts of its node.
	Sequential
)

// Aggregation defines how the series of a figure are combined within a part, over the parts of a node, and over the
// nodes. The zero value of a combination is the sum.
type Aggregation struct {
	Value                Value
	Series, Parts, Nodes Combine
	// Whole means that a series without a node covers all nodes and replaces those of single nodes, as in reports of
	// batch systems.
	Whole bool
}

// sums reports whether the figure is the plain sum over all series.
func (h Aggregation) sums() bool {
	return h.Series == Sum && h.Parts == Sum && h.Nodes == Sum && !h.Whole
}

// Sums reports whether the figure is the sum over all its series, so that their division among parts and nodes does not
// matter.
func (f *Figure) Sums() bool { return f.How.sums() }

// Source selects series of a figure: all of a metric, or those with one value of a label.
type Source struct {
	Metric       string
	Label, Value string
}

// String returns the source as a PromQL selector without quotes. Saved states identify series by it.
func (s Source) String() string {
	if s.Label == "" {
		return s.Metric
	}
	return s.Metric + "{" + s.Label + "=" + s.Value + "}"
}

// Zero defines when a figure without a series is zero rather than unknown.
type Zero struct {
	// Held lists figures; the first known one must be above zero, which means that the run was allocated the resource.
	Held []string
	// NodeSeries is a metric that every node of the run must have reported meanwhile, as proof that
	// it would have measured the figure.
	NodeSeries string
}

// Figure is one row of the table.
type Figure struct {
	// Key is the JSON key, the sort key and the column of the database.
	Key string
	// Field and Column override the names in Go and in the database; derived from Key when empty.
	Field, Column string
	Unit          metric.Unit
	Heading       string // column heading in tables
	Help          string // one sentence, with the unit
	In            Scope
	// Always means that an unknown figure is null in the JSON of a run instead of omitted. An
	// unknown sum over hours is always null.
	Always bool
	// Internal: stored for runs but omitted from their JSON.
	Internal bool

	// From lists the series that the figure is computed from, and How their aggregation. Both are
	// empty for derived figures and facts.
	From []Source
	How  Aggregation
	// Quantile to take from the distribution, 0 to 1.
	Quantile float64
	// Except selects series that hourly sums leave out.
	Except Source

	// As is the key of the figure that shares its exactness with this one; empty for its own.
	As string
	// Also is the key under which reckon_figure_exactness reports additional reasons for inexactness, if any.
	Also   string
	Zero   Zero
	AtMost []Bound
}

// GoName returns the name of the Go field.
func (f *Figure) GoName() string {
	if f.Field != "" {
		return f.Field
	}
	var b strings.Builder
	for word := range strings.SplitSeq(f.Key, "_") {
		switch word {
		case "cpu", "gpu", "io", "oom":
			b.WriteString(strings.ToUpper(word))
		case "gpus":
			b.WriteString("GPUs")
		default:
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// ColumnName returns the name of the database column.
func (f *Figure) ColumnName() string {
	if f.Column != "" {
		return f.Column
	}
	return f.Key
}

// InScope returns the figures of one scope in the order of the table, which is also the order of At. The
// slice is shared and must not be modified.
func InScope(s Scope) []Figure {
	switch s {
	case Runs:
		return figuresOfRuns
	case Hours:
		return figuresOfHours
	case Nodes:
		return figuresOfNodes
	}
	return nil
}

var figuresOfRuns, figuresOfHours, figuresOfNodes = figuresIn(Runs), figuresIn(Hours), figuresIn(Nodes)

func figuresIn(s Scope) (out []Figure) {
	for _, f := range table {
		if f.In&s != 0 {
			out = append(out, f)
		}
	}
	return out
}

// All returns the table.
func All() []Figure { return table }

// Keys returns the keys of the figures of a scope that appear in the API.
func Keys(s Scope) []string {
	var out []string
	for _, f := range InScope(s) {
		if !f.Internal {
			out = append(out, f.Key)
		}
	}
	return out
}

// Columns returns the columns of the figures of a scope, in the order of At.
func Columns(s Scope) []string {
	var out []string
	for _, f := range InScope(s) {
		out = append(out, f.ColumnName())
	}
	return out
}

// Index returns the position of a key in its scope, as used by At, or -1 if there is none.
func Index(s Scope, key string) int {
	list := InScope(s)
	for i := range list {
		if list[i].Key == key {
			return i
		}
	}
	return -1
}

// Numbered gives access to figures by index: a [Row], [Used] or [Capacity].
type Numbered interface {
	Len() int
	At(i int) **float64
}

// Add adds the figures of from to the figures of to. A figure unknown in both stays unknown. A sum is as exact as its least
// exact term. to shares no pointers with from afterwards.
func Add[T Numbered](to, from T) {
	for i := range to.Len() {
		add := *from.At(i)
		if add == nil {
			continue
		}
		sum, p := *add, to.At(i)
		if *p != nil {
			sum += **p
		}
		*p = &sum
	}
	if sum, ok := any(to).(*Used); ok {
		for key, e := range any(from).(*Used).Exactness {
			sum.Exactness.Add(key, e)
		}
	}
}

// Plus adds a value to a sum. An unknown value adds nothing. The sum and the value share no pointer afterwards.
func Plus(to **float64, v *float64) {
	if v == nil {
		return
	}
	sum := *v
	if *to != nil {
		sum += **to
	}
	*to = &sum
}

// Ratio divides part by whole. It returns nil if one of them is unknown or the whole is 0.
func Ratio(part, whole *float64) *float64 {
	if part == nil || whole == nil || *whole <= 0 {
		return nil
	}
	v := *part / *whole
	return &v
}
