package forecast

import (
	"math"

	"reckon/internal/quantiles"
)

// burg fits an autoregression to a series with mean 0 by Burg's method, of an order up to most, chosen by AICc.
func burg(y []float64, most int) []float64 {
	n := len(y)
	f, b := append([]float64(nil), y...), append([]float64(nil), y...)
	a := make([]float64, 0, most)
	energy := 0.0
	for _, v := range y {
		energy += v * v / float64(n)
	}
	if energy <= 0 {
		return nil
	}
	var chosen []float64
	bestAIC := float64(n) * math.Log(energy)
	next := make([]float64, most)
	for k := 1; k <= most && k < n/3; k++ {
		var num, den float64
		for t := k; t < n; t++ {
			num += f[t] * b[t-1]
			den += f[t]*f[t] + b[t-1]*b[t-1]
		}
		if den <= 0 {
			break
		}
		r := 2 * num / den
		copy(next, a)
		for i := range a {
			next[i] = a[i] - r*a[len(a)-1-i]
		}
		a = append(a, 0)
		copy(a, next[:k-1])
		a[k-1] = r
		for t := n - 1; t >= k; t-- {
			ft := f[t]
			f[t] = ft - r*b[t-1]
			b[t] = b[t-1] - r*ft
		}
		energy *= 1 - r*r
		if energy <= 0 {
			return append([]float64(nil), a...)
		}
		free := float64(k + 2)
		if aic := float64(n)*math.Log(energy) + 2*free*float64(n)/max(float64(n)-free-1, 1); aic < bestAIC {
			bestAIC, chosen = aic, append(chosen[:0], a...)
		}
	}
	return chosen
}

// extend continues a series with mean 0 by an autoregression.
func extend(y, a []float64, horizon int) []float64 {
	ext := append(make([]float64, 0, len(a)+horizon), y[max(0, len(y)-len(a)):]...)
	base := len(ext)
	for range horizon {
		v := 0.0
		for i, c := range a {
			if j := len(ext) - 1 - i; j >= 0 {
				v += c * ext[j]
			}
		}
		ext = append(ext, v)
	}
	return ext[base:]
}

// predictors are the inputs of a regression: the values lags before, and the means of the last window values.
type predictors struct{ lags, windows []int }

func (p predictors) longest() int {
	n := 0
	for _, l := range p.lags {
		n = max(n, l)
	}
	for _, l := range p.windows {
		n = max(n, l)
	}
	return n
}

// at fills x for the step after the values that sums covers: sums[i] is the sum of the first i values.
func (p predictors) at(y, sums []float64, t int, center float64, x []float64) {
	for i, l := range p.lags {
		x[i] = y[t-l] - center
	}
	for i, w := range p.windows {
		x[len(p.lags)+i] = (sums[t]-sums[t-w])/float64(w) - center
	}
}

const (
	reweighted = 4    // rounds
	ridgeShare = 1e-3 // of the mean of the diagonal
)

// lagRegression fits y on its past by least absolute deviations (reweighted least squares) with a ridge, and extrapolates.
// It returns nil if the history is too short.
func lagRegression(y []float64, p predictors, horizon int) []float64 {
	k, longest := len(p.lags)+len(p.windows), p.longest()
	n := len(y) - longest
	if n < 4*k+24 {
		return nil
	}
	center := mean(y[len(y)-n:])
	sums := make([]float64, len(y)+1, len(y)+horizon+1)
	for i, v := range y {
		sums[i+1] = sums[i] + v
	}
	x := make([]float64, n*k)
	for t := range n {
		p.at(y, sums, longest+t, center, x[t*k:t*k+k])
	}
	beta := leastAbsolute(x, y[longest:], center, k)
	if beta == nil {
		return nil
	}
	ext := append(make([]float64, 0, len(y)+horizon), y...)
	row := x[:k]
	for t := len(y); t < len(y)+horizon; t++ {
		p.at(ext, sums, t, center, row)
		v := center
		for i, b := range beta {
			v += b * row[i]
		}
		ext = append(ext, v)
		sums = append(sums, sums[t]+v)
	}
	return ext[len(y):]
}

// leastAbsolute fits y - center on the rows of x, each of k values.
func leastAbsolute(x, y []float64, center float64, k int) []float64 {
	n := len(y)
	weights, rest := repeat(1, n), make([]float64, n)
	var beta []float64
	for range reweighted {
		gram, right := make([]float64, k*k), make([]float64, k)
		for t, w := range weights {
			row := x[t*k : t*k+k]
			v := y[t] - center
			for i, xi := range row {
				wx := w * xi
				right[i] += wx * v
				g := gram[i*k : i*k+i+1]
				for j := range g {
					g[j] += wx * row[j]
				}
			}
		}
		ridge := 0.0
		for i := range k {
			ridge += gram[i*k+i] / float64(k)
		}
		for i := range k {
			gram[i*k+i] += ridgeShare*ridge + 1e-300
		}
		next := cholesky(gram, right, k)
		if next == nil {
			return beta
		}
		beta = next
		for t := range rest {
			e := y[t] - center
			for i, b := range beta {
				e -= b * x[t*k+i]
			}
			rest[t] = math.Abs(e)
		}
		copy(weights, rest)
		small := quantiles.Median(weights) / 4
		if small <= 0 {
			return beta
		}
		for t, e := range rest {
			weights[t] = 1 / max(e, small)
		}
	}
	return beta
}

// cholesky solves a symmetric positive definite system, given by its lower half, in place; nil if it is singular.
func cholesky(a, b []float64, n int) []float64 {
	for i := range n {
		for j := 0; j <= i; j++ {
			sum := a[i*n+j]
			for k := range j {
				sum -= a[i*n+k] * a[j*n+k]
			}
			if i != j {
				a[i*n+j] = sum / a[j*n+j]
				continue
			}
			if sum <= 0 || math.IsNaN(sum) {
				return nil
			}
			a[i*n+i] = math.Sqrt(sum)
		}
	}
	x := append([]float64(nil), b...)
	for i := range n {
		for k := range i {
			x[i] -= a[i*n+k] * x[k]
		}
		x[i] /= a[i*n+i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			x[i] -= a[k*n+i] * x[k]
		}
		x[i] /= a[i*n+i]
	}
	return x
}
