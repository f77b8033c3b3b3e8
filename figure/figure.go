// Package figure says once what each figure of a workload is: its name everywhere it is
// seen, its unit, the series that it is made of, how parts and nodes add up, when its
// absence is a known zero, what it can not exceed, how exact it is, and its texts.
//
// [All] is the table. [Row], the figures of one run of a workload, [Used], those of an hour,
// and [Capacity], those of a node in an hour, are generated from it (row.go), as are the
// types of the pages (vocabulary.ts). Everything else is driven by the table at run time: what the
// catalogue reads and adds up, columns of both databases and in memory, sort keys, the
// API's description. A figure whose series exists costs one row here and `go generate ./figure`.
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

// Scope says of what a figure is.
type Scope uint8

// The scopes. A figure may have several.
const (
	// Run: of one run of a workload, a field of [Row] and a column of workloads.
	Run Scope = 1 << iota
	// Hour: a sum over hours, a field of [Used] and a column of uses and node_uses.
	Hour
	// Node: of a node in an hour, a field of [Capacity] and a column of node_uses.
	Node
)

// Value says how the samples of one series become a number.
type Value uint8

// The values of a series.
const (
	// Total is what a counter counted since it began, over its resets.
	Total Value = iota + 1
	// Highest is the largest sample of a gauge.
	Highest
	// Newest is the latest sample of a gauge.
	Newest
	// Current is the latest sample while the series is fresh: a part that ended long ago
	// holds nothing now.
	Current
	// Quantile is taken of a native histogram; [Figure.Quantile] says which.
	Quantile
)

// Combine says how several numbers become one.
type Combine uint8

// The combinations.
const (
	Sum Combine = iota
	Max
	// Latest is the one with the latest sample; of several of one time the largest.
	Latest
	// UpperBound is of quantiles of nodes: what their sum keeps to with the same probability,
	// however they depend on each other: the sum of each one's quantile at 1-(1-q)/n.
	UpperBound
	// Sequential is of parts: of those that follow each other the largest counts (of
	// histograms the joint one), and those that ran at the same time add up. A series
	// without a part speaks for all parts of its node.
	Sequential
)

// How is how the series of a figure add up: those of one part, the parts of a node, the nodes.
// The zero combinations are sums.
type How struct {
	Value                Value
	Series, Parts, Nodes Combine
	// Whole: a series without a node speaks for all nodes together, and those of nodes
	// do not count beside it. Schedulers report so.
	Whole bool
}

// sums reports whether all that counts is the sum over all series.
func (h How) sums() bool {
	return h.Series == Sum && h.Parts == Sum && h.Nodes == Sum && !h.Whole
}

// Sums reports whether the figure is the sum over all its series, however they are divided
// among parts and nodes.
func (f *Figure) Sums() bool { return f.How.sums() }

// Source is a series that a figure is made of: all of a metric, or those where a label has
// a value.
type Source struct {
	Metric       string
	Label, Value string
}

// String is the source as PromQL selects it, without quotes. Saved states name series so.
func (s Source) String() string {
	if s.Label == "" {
		return s.Metric
	}
	return s.Metric + "{" + s.Label + "=" + s.Value + "}"
}

// Zero says when a figure that has no series is known to be zero.
type Zero struct {
	// Held are figures of which the first that is known must be above zero: the run was
	// given what the figure is about.
	Held []string
	// NodeSeries is a metric that every node of the run must have reported meanwhile: it
	// says that the node would have measured it.
	NodeSeries string
}

// Figure is one row of the table.
type Figure struct {
	// Key is the JSON key, the sort key and the column of the database.
	Key string
	// Field and Column are other names in Go and in the database; derived from Key when empty.
	Field, Column string
	Unit          metric.Unit
	Heading       string // of a column of a table
	Help          string // one sentence with the unit
	In            Scope
	// Always: null in the JSON of a run where it is unknown; else it is absent. Sums over
	// hours are null.
	Always bool
	// Internal: kept of runs, and not in their JSON.
	Internal bool

	// From are the series that it is made of, and How they add up; none for what is derived
	// or a fact.
	From []Source
	How  How
	// Quantile of the distribution, from 0 to 1.
	Quantile float64
	// Except are series that do not count in hours.
	Except Source

	// As is another figure whose exactness this one has; empty for its own.
	As     string
	Zero   Zero
	AtMost []Bound
}

// GoName is the name of the field in Go.
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

// ColumnName is the name of the column in the database.
func (f *Figure) ColumnName() string {
	if f.Column != "" {
		return f.Column
	}
	return f.Key
}

// Of returns the figures of one scope in the order of the table, which is that of the fields
// that At numbers. The slice is shared: do not change it.
func Of(s Scope) []Figure {
	switch s {
	case Run:
		return ofRun
	case Hour:
		return ofHour
	case Node:
		return ofNode
	}
	return nil
}

var ofRun, ofHour, ofNode = filter(Run), filter(Hour), filter(Node)

func filter(s Scope) (out []Figure) {
	for _, f := range table {
		if f.In&s != 0 {
			out = append(out, f)
		}
	}
	return out
}

// All returns the table.
func All() []Figure { return table }

// Keys returns the keys of the figures of a scope that are in the API.
func Keys(s Scope) []string {
	var out []string
	for _, f := range Of(s) {
		if !f.Internal {
			out = append(out, f.Key)
		}
	}
	return out
}

// Columns returns the columns of the figures of a scope, in the order of At.
func Columns(s Scope) []string {
	var out []string
	for _, f := range Of(s) {
		out = append(out, f.ColumnName())
	}
	return out
}

// Index returns the place of a key in its scope, which is the number that At takes; -1 for
// none.
func Index(s Scope, key string) int {
	list := Of(s)
	for i := range list {
		if list[i].Key == key {
			return i
		}
	}
	return -1
}

// Numbered has figures by number: a [Row], [Used] or [Capacity].
type Numbered interface {
	Len() int
	At(i int) **float64
}

// Add adds the figures of one to those of another of the same type; what neither knows stays
// unknown, and sums are as exact as the worst of what they are made of. They share no numbers
// afterwards.
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
