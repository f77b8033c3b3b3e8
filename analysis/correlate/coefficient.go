package correlate

import (
	"math"
	"slices"
)

// Pearson returns the linear correlation of x and y, NaN where either is constant.
func Pearson(x, y []float64) float64 {
	n := float64(len(x))
	if len(x) < 2 || len(x) != len(y) {
		return math.NaN()
	}
	var mx, my float64
	for i := range x {
		mx, my = mx+x[i]/n, my+y[i]/n
	}
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xy, xx, yy = xy+dx*dy, xx+dx*dx, yy+dy*dy
	}
	if isConstant(xx, mx, n) || isConstant(yy, my, n) {
		return math.NaN()
	}
	return min(max(xy/math.Sqrt(xx*yy), -1), 1)
}

// isConstant reports whether a sum of squares is only rounding error around mean.
func isConstant(ss, mean, n float64) bool { return ss <= n*mean*mean*1e-24 }

// Ranks returns the rank of each value from 1; equal values share their mean rank.
func Ranks(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case v[a] < v[b]:
			return -1
		case v[a] > v[b]:
			return 1
		}
		return a - b
	})
	out := make([]float64, len(v))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && v[order[j]] == v[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			out[k] = float64(i+j+1) / 2
		}
		i = j
	}
	return out
}

// effectivePoints returns the effective number of independent points of x and y. It is n divided by one plus twice the sum over lags of the
// products of both autocorrelations. The sum ends at the first lag with an autocorrelation below noise.
func effectivePoints(x, y []float64) float64 {
	n := len(x)
	noise := 2 / math.Sqrt(float64(n))
	sum := 1.0
	for lag := 1; lag < n/4; lag++ {
		rx, ry := Pearson(x[:n-lag], x[lag:]), Pearson(y[:n-lag], y[lag:])
		if math.IsNaN(rx) || math.IsNaN(ry) || rx < noise || ry < noise {
			break
		}
		sum += 2 * (1 - float64(lag)/float64(n)) * rx * ry
	}
	return min(max(float64(n)/sum, 2), float64(n))
}

// confidenceInterval returns the 95 % confidence interval of a coefficient by Fisher's z.
func confidenceInterval(r, n float64) (low, high float64) {
	if math.IsNaN(r) {
		return r, r
	}
	if n <= 4 {
		return -1, 1
	}
	z, d := math.Atanh(min(max(r, -1+1e-15), 1-1e-15)), 1.96/math.Sqrt(n-3)
	return math.Tanh(z - d), math.Tanh(z + d)
}
