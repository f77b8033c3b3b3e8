// Package quantiles computes the median and other quantiles of values. Its functions are pure and
// safe for concurrent use.
package quantiles

import (
	"math"
	"slices"
)

// Median returns the median, or NaN if there are no values. It may reorder them.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return v[(len(v)-1)/2]/2 + v[len(v)/2]/2
}

// Linear returns the quantile q, 0 to 1, of sorted values, interpolated linearly; NaN of no values.
func Linear(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Nearest returns the q-quantile (0 to 1) of sorted values by the nearest-rank method: the smallest value such that a
// share q of the values does not exceed it. It returns the zero value if there are no values.
func Nearest[T any](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	i := int(math.Ceil(q*float64(len(sorted))-1e-7)) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
