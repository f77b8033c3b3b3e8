// Package correlate computes the correlation of the columns of a data set: Pearson's and
// Spearman's coefficients of every pair, the lag of the strongest correlation, and the
// number of points behind each figure.
//
// Gaps are NaN and are left out pair by pair. Samples of a time series are autocorrelated,
// so a thousand rows carry less information than a thousand independent
// ones; the effective number of points (Bartlett 1946) and the interval
// (Fisher's z) account for that. A lag is in rows of an even grid.
//
// The package is pure; its functions are safe for concurrent use.
package correlate

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrInput means that columns cannot be correlated. It is returned wrapped with the reason.
var ErrInput = errors.New("columns cannot be correlated")

// Column is one series on the common grid; NaN marks a gap.
type Column struct {
	Name   string
	Values []float64
}

// Options configure the search. The zero value tries lags of up to 60 rows.
type Options struct {
	// MaxLag is the greatest lag tried, in rows; 0 means 60, negative none.
	MaxLag int
	// MinPoints is the minimum number of common points for a figure; 0 means 8.
	MinPoints int
	// StepSeconds is the spacing of the rows, 0 if unknown.
	StepSeconds float64
	// Breaks are the rows at which a new recording starts: lags do not cross them.
	Breaks []int
}

// Pair is the relation of two columns. Figures are NaN if there are too few common points or a column is constant.
type Pair struct {
	A, B string
	// Points is the number of rows in which both have a value. Effective is the equivalent number
	// of independent points given their autocorrelation.
	Points    int
	Effective float64
	Pearson   float64
	Spearman  float64
	// Low and High are the 95 % confidence interval of Pearson's coefficient.
	Low, High float64
	// Lag is the number of rows by which B follows A at the strongest correlation; if it is negative, A follows B.
	// LagPearson is the coefficient there and LagPoints its number of points.
	Lag        int
	LagPearson float64
	LagPoints  int
	// LagSeconds is Lag in seconds, 0 if the spacing is unknown.
	LagSeconds float64
}

// Matrix is the relation of all columns.
type Matrix struct {
	Names []string
	// Pairs holds each pair once, in the order of the columns.
	Pairs []Pair
	// Warnings name columns that are constant or empty.
	Warnings []string
}

// At returns the pair of columns i and j, in either order; i and j differ.
func (m *Matrix) At(i, j int) Pair {
	if i > j {
		i, j = j, i
	}
	n := len(m.Names)
	return m.Pairs[i*n-i*(i+1)/2+j-i-1]
}

// Strongest returns the pairs in descending order of the lagged coefficient's magnitude.
func (m *Matrix) Strongest() []Pair {
	out := slices.Clone(m.Pairs)
	strength := func(p Pair) float64 {
		if math.IsNaN(p.LagPearson) {
			return -1
		}
		return math.Abs(p.LagPearson)
	}
	slices.SortStableFunc(out, func(a, b Pair) int {
		switch d := strength(b) - strength(a); {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
		return 0
	})
	return out
}

// Pairs correlates every pair of columns.
func Pairs(columns []Column, o Options) (*Matrix, error) {
	if o.MaxLag == 0 {
		o.MaxLag = 60
	}
	if o.MinPoints <= 0 {
		o.MinPoints = 8
	}
	m := &Matrix{}
	for i, c := range columns {
		if len(c.Values) != len(columns[0].Values) {
			return nil, fmt.Errorf("column %s has %d rows, %s has %d: %w", c.Name, len(c.Values), columns[0].Name, len(columns[0].Values),
				ErrInput)
		}
		if slices.ContainsFunc(columns[:i], func(d Column) bool { return d.Name == c.Name }) {
			return nil, fmt.Errorf("column %s occurs twice: %w", c.Name, ErrInput)
		}
		m.Names = append(m.Names, c.Name)
		if w := uselessReason(c, o.MinPoints); w != "" {
			m.Warnings = append(m.Warnings, w)
		}
	}
	run := numberRecordings(columns, o.Breaks)
	for i := range columns {
		for j := i + 1; j < len(columns); j++ {
			m.Pairs = append(m.Pairs, correlatePair(columns[i], columns[j], run, o))
		}
	}
	return m, nil
}

// uselessReason returns why a column carries no information, or "".
func uselessReason(c Column, need int) string {
	n, lo, hi := 0, math.Inf(1), math.Inf(-1)
	for _, v := range c.Values {
		if isFinite(v) {
			n, lo, hi = n+1, min(lo, v), max(hi, v)
		}
	}
	switch {
	case n < need:
		return fmt.Sprintf("column %s has %d points, fewer than %d", c.Name, n, need)
	case lo == hi:
		return fmt.Sprintf("column %s is constant (%g)", c.Name, lo)
	}
	return ""
}

// numberRecordings returns, for each row, the number of the recording that it belongs to.
func numberRecordings(columns []Column, breaks []int) []int {
	if len(columns) == 0 || len(breaks) == 0 {
		return nil
	}
	run := make([]int, len(columns[0].Values))
	for i := range run {
		if i > 0 {
			run[i] = run[i-1]
			if slices.Contains(breaks, i) {
				run[i]++
			}
		}
	}
	return run
}

func correlatePair(a, b Column, run []int, o Options) Pair {
	p := Pair{A: a.Name, B: b.Name}
	x, y := commonRows(a.Values, b.Values, run, 0)
	nan := math.NaN()
	p.Points = len(x)
	p.Pearson, p.Spearman, p.Low, p.High, p.LagPearson = nan, nan, nan, nan, nan
	if len(x) < o.MinPoints {
		return p
	}
	p.Pearson = Pearson(x, y)
	p.Spearman = Pearson(Ranks(x), Ranks(y))
	p.Effective = effectivePoints(x, y)
	p.Low, p.High = confidenceInterval(p.Pearson, p.Effective)
	p.LagPearson, p.LagPoints = p.Pearson, p.Points
	// A lag must have at least half of the points that lag 0 has.
	need := max(o.MinPoints, p.Points/2)
	for lag := 1; lag <= o.MaxLag; lag++ {
		for _, s := range [2]int{lag, -lag} {
			x, y := commonRows(a.Values, b.Values, run, s)
			if len(x) < need {
				continue
			}
			r := Pearson(x, y)
			// A larger lag must be better by more than rounding, so that the smallest wins.
			if math.Abs(r) > math.Abs(p.LagPearson)+1e-9 || math.IsNaN(p.LagPearson) && !math.IsNaN(r) {
				p.Lag, p.LagPearson, p.LagPoints = s, r, len(x)
			}
		}
	}
	p.LagSeconds = float64(p.Lag) * o.StepSeconds
	return p
}

// commonRows returns the values of the rows that have both a and b, with b taken lag rows later.
func commonRows(a, b []float64, run []int, lag int) (x, y []float64) {
	for i := range a {
		j := i + lag
		if j < 0 || j >= len(b) || run != nil && run[i] != run[j] {
			continue
		}
		if isFinite(a[i]) && isFinite(b[j]) {
			x, y = append(x, a[i]), append(y, b[j])
		}
	}
	return x, y
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
