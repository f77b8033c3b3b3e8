package forecast

import (
	"math"

	"reckon/internal/quantiles"
)

// dampedTrend is exponential smoothing with an additive damped trend, ETS(A,Ad,N).
type dampedTrend struct{ alpha, beta, phi float64 }

// smooth returns the sum of squared one-step errors and the final level and slope. Errors are clipped at limit.
func (p dampedTrend) smooth(y []float64, limit float64) (sse, level, slope float64) {
	level = y[0]
	c := errorClipper{limit: limit}
	for _, v := range y[1:] {
		f := level + p.phi*slope
		e := c.clip(v - f)
		sse += e * e
		level = f + p.alpha*e
		slope = p.phi*slope + p.alpha*p.beta*e
	}
	return sse, level, slope
}

// errorClipper limits errors, so that outliers do not move a level. Several errors in a row on one side mean that the level has moved.
type errorClipper struct {
	limit float64
	same  float64 // how many in a row were beyond the limit, with their sign
}

// shiftedErrors is the number of consecutive errors beyond the limit from which the level counts as moved.
const shiftedErrors = 4

func (c *errorClipper) clip(e float64) float64 {
	switch {
	case math.Abs(e) <= c.limit:
		c.same = 0
		return e
	case c.same*e < 0:
		c.same = 0
	}
	if c.same += math.Copysign(1, e); math.Abs(c.same) >= shiftedErrors {
		return e
	}
	return math.Copysign(c.limit, e)
}

// fitDamped chooses the parameters by least squares.
func fitDamped(y []float64, limit float64) dampedTrend {
	of := func(x []float64) dampedTrend {
		return dampedTrend{alpha: 0.01 + 0.98*toUnitInterval(x[0]), beta: 0.5 * toUnitInterval(x[1]), phi: 0.8 + 0.18*toUnitInterval(x[2])}
	}
	x := nelderMead([]float64{0, -2, 0}, 60, func(x []float64) float64 {
		sse, _, _ := of(x).smooth(y, limit)
		return sse
	})
	return of(x)
}

// toUnitInterval maps a real number to (0, 1).
func toUnitInterval(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// smoothSimply does simple exponential smoothing with alpha from a grid search. It returns alpha and the level.
func smoothSimply(y []float64, limit float64) (alpha, level float64) {
	bestSSE := math.Inf(1)
	for _, a := range []float64{0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 0.95} {
		l, sse, c := y[0], 0.0, errorClipper{limit: limit}
		for _, v := range y[1:] {
			e := c.clip(v - l)
			sse += e * e
			l += a * e
		}
		if sse < bestSSE {
			bestSSE, alpha, level = sse, a, l
		}
	}
	return alpha, level
}

// outlierLimit returns the size above which a one-step change is an outlier: six median absolute changes.
func outlierLimit(y []float64) float64 {
	d := make([]float64, 0, len(y))
	for i := 1; i < len(y); i++ {
		d = append(d, math.Abs(y[i]-y[i-1]))
	}
	m := quantiles.Median(d)
	if math.IsNaN(m) || m == 0 {
		return math.Inf(1)
	}
	return 8 * m
}

func mean(y []float64) float64 {
	sum := 0.0
	for _, v := range y {
		sum += v / float64(len(y))
	}
	return sum
}

// nelderMead minimises f from x in at most calls evaluations.
func nelderMead(x []float64, calls int, f func([]float64) float64) []float64 {
	n := len(x)
	pts := make([][]float64, n+1)
	val := make([]float64, n+1)
	for i := range pts {
		pts[i] = append([]float64(nil), x...)
		if i > 0 {
			pts[i][i-1] += 1.5
		}
		val[i] = f(pts[i])
	}
	calls -= n + 1
	mid, trial := make([]float64, n), make([]float64, n)
	at := func(t float64, worst []float64) float64 {
		for j := range trial {
			trial[j] = mid[j] + t*(worst[j]-mid[j])
		}
		calls--
		return f(trial)
	}
	for calls > 0 {
		low, high, second := 0, 0, 0
		for i, v := range val {
			if v < val[low] {
				low = i
			}
			if v > val[high] {
				high = i
			}
		}
		second = low
		for i, v := range val {
			if i != high && v > val[second] {
				second = i
			}
		}
		for j := range mid {
			mid[j] = 0
			for i := range pts {
				if i != high {
					mid[j] += pts[i][j] / float64(n)
				}
			}
		}
		v := at(-1, pts[high])
		switch {
		case v < val[low]:
			copyOf := append([]float64(nil), trial...)
			if w := at(-2, pts[high]); w < v {
				copy(pts[high], trial)
				val[high] = w
			} else {
				copy(pts[high], copyOf)
				val[high] = v
			}
		case v < val[second]:
			copy(pts[high], trial)
			val[high] = v
		default:
			if w := at(0.5, pts[high]); w < val[high] {
				copy(pts[high], trial)
				val[high] = w
				continue
			}
			for i := range pts {
				if i == low {
					continue
				}
				for j := range pts[i] {
					pts[i][j] = (pts[i][j] + pts[low][j]) / 2
				}
				val[i] = f(pts[i])
				calls--
			}
		}
	}
	low := 0
	for i, v := range val {
		if v < val[low] {
			low = i
		}
	}
	return pts[low]
}
