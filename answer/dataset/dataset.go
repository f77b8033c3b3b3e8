// Package dataset handles data sets: measured series joined by time into one table,
// with labels as columns, counters as rates and gaps marked, and the data
// dictionary stored beside the file.
//
// A [Frame] has one row per time and set of row labels. Times are milliseconds
// since the Unix epoch, values are SI base units, and a gap is NaN in memory, an
// empty field in CSV and a null in Parquet: never zero. The package does not depend on the
// source of the series (our store or any Prometheus-compatible API).
//
// Readers and writers take streams; nothing here opens a file. A Frame is not
// safe for concurrent use.
package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"reckon/metric"
)

// ErrData means that a data set cannot be read or created. It is wrapped with the location and the reason.
var ErrData = errors.New("not a usable data set")

// TimeColumn is the name of the time column in files.
const TimeColumn = "time"

// Point is one sample: milliseconds since the epoch and a value.
type Point struct {
	T int64
	V float64
}

// Label is a name and a value.
type Label struct{ Name, Value string }

// Series is one time series from a source.
type Series struct {
	Name   string
	Kind   metric.Kind
	Unit   metric.Unit
	Help   string
	Labels []Label
	Points []Point
}

// Column is a column of numbers.
type Column struct {
	Name string
	Unit string
	Help string
	// Source is the series that the column was computed from, with its labels.
	Source string
	// Rate is true if the column was computed from a counter.
	Rate   bool
	Values []float64
}

// LabelColumn is a column of strings.
type LabelColumn struct {
	Name   string
	Values []string
}

// Frame is a table. All columns have as many entries as Time.
type Frame struct {
	Time    []int64
	Labels  []LabelColumn
	Columns []Column
	// StepSeconds is the spacing of the grid, 0 if there is none.
	StepSeconds float64
}

// Rows returns the number of rows.
func (f *Frame) Rows() int { return len(f.Time) }

// Column returns the column with a name, or nil.
func (f *Frame) Column(name string) *Column {
	for i := range f.Columns {
		if f.Columns[i].Name == name {
			return &f.Columns[i]
		}
	}
	return nil
}

// Label returns the label column with a name, or nil.
func (f *Frame) Label(name string) *LabelColumn {
	for i := range f.Labels {
		if f.Labels[i].Name == name {
			return &f.Labels[i]
		}
	}
	return nil
}

// checkShape returns an error unless all columns have unique names and as many rows as there are times.
func (f *Frame) checkShape() error {
	seen := map[string]bool{TimeColumn: true}
	one := func(name string, n int) error {
		if n != len(f.Time) {
			return fmt.Errorf("column %s has %d rows, time has %d: %w", name, n, len(f.Time), ErrData)
		}
		if name == "" || seen[name] {
			return fmt.Errorf("column name %q is empty or occurs twice: %w", name, ErrData)
		}
		seen[name] = true
		return nil
	}
	for _, l := range f.Labels {
		if err := one(l.Name, len(l.Values)); err != nil {
			return err
		}
	}
	for _, c := range f.Columns {
		if err := one(c.Name, len(c.Values)); err != nil {
			return err
		}
	}
	return nil
}

// recordingKey returns the labels of row i as a string, which identifies the recording of the row.
func (f *Frame) recordingKey(i int) string {
	var b strings.Builder
	for _, l := range f.Labels {
		b.WriteString(l.Values[i])
		b.WriteByte(0)
	}
	return b.String()
}

// Tidy sorts the rows by labels and time. Of rows with the same labels and time, it keeps the first. It also returns
// warnings about constant or empty columns, and about a data set with a single workload.
func (f *Frame) Tidy() (warnings []string) {
	order := make([]int, f.Rows())
	keys := make([]string, f.Rows())
	for i := range order {
		order[i], keys[i] = i, f.recordingKey(i)
	}
	cmp := func(a, b int) int {
		if c := strings.Compare(keys[a], keys[b]); c != 0 {
			return c
		}
		switch {
		case f.Time[a] < f.Time[b]:
			return -1
		case f.Time[a] > f.Time[b]:
			return 1
		}
		return 0
	}
	back := 0
	for i := 1; i < len(order); i++ {
		if keys[i] == keys[i-1] && f.Time[i] < f.Time[i-1] {
			back++
		}
	}
	if back > 0 {
		warnings = append(warnings, fmt.Sprintf("timestamps not monotonic (%d times): rows were sorted", back))
	}
	slices.SortStableFunc(order, cmp)
	kept := order[:0]
	for _, i := range order {
		if len(kept) == 0 || cmp(kept[len(kept)-1], i) != 0 {
			kept = append(kept, i)
		}
	}
	if n := f.Rows() - len(kept); n > 0 {
		warnings = append(warnings, fmt.Sprintf("%d rows repeat the time of another row with the same labels and were dropped", n))
	}
	f.selectRows(kept)
	return append(warnings, f.contentWarnings()...)
}

func (f *Frame) selectRows(rows []int) {
	f.Time = selectValues(f.Time, rows)
	for i := range f.Labels {
		f.Labels[i].Values = selectValues(f.Labels[i].Values, rows)
	}
	for i := range f.Columns {
		f.Columns[i].Values = selectValues(f.Columns[i].Values, rows)
	}
}

func selectValues[T any](v []T, rows []int) []T {
	out := make([]T, len(rows))
	for k, i := range rows {
		out[k] = v[i]
	}
	return out
}

// contentWarnings returns warnings about the contents of the columns.
func (f *Frame) contentWarnings() (warnings []string) {
	for _, c := range f.Columns {
		n, lo, hi := c.valueRange()
		switch {
		case n == 0:
			warnings = append(warnings, fmt.Sprintf("column %s is empty", c.Name))
		case lo == hi && n > 1:
			warnings = append(warnings, fmt.Sprintf("column %s is constant (%g)", c.Name, lo))
		}
	}
	if l := f.Label("workload"); l != nil && len(l.Values) > 0 &&
		!slices.ContainsFunc(l.Values, func(v string) bool { return v != l.Values[0] }) {
		warnings = append(warnings, fmt.Sprintf("only one workload (%s): results do not generalise to others", l.Values[0]))
	}
	return warnings
}

// valueRange returns the number of points of c and their range.
func (c *Column) valueRange() (n int, lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, v := range c.Values {
		if !math.IsNaN(v) {
			n, lo, hi = n+1, min(lo, v), max(hi, v)
		}
	}
	return n, lo, hi
}
