package forecast

import (
	"math"

	"reckon/internal/quantiles"
)

// dampedTrend is exponential smoothing with an additive damped trend, ETS(A,Ad,N).
type dampedTrend struct{ alpha, beta, phi float64 }

// run returns the sum of squared one-step errors, and level and slope at the end. Errors are
// clipped at limit, so that outliers do not move the level.
func (p dampedTrend) run(y []float64, limit float64) (sse, level, slope float64) {
	level = y[0]
	for _, v := range y[1:] {
		f := level + p.phi*slope
		e := v - f
		if e > limit {
			e = limit
		} else if e < -limit {
			e = -limit
		}
		sse += e * e
		level = f + p.alpha*e
		slope = p.phi*slope + p.alpha*p.beta*e
	}
	return sse, level, slope
}

// fitDamped chooses the parameters by least squares.
func fitDamped(y []float64, limit float64) dampedTrend {
	of := func(x []float64) dampedTrend {
		return dampedTrend{alpha: 0.01 + 0.98*unit(x[0]), beta: 0.5 * unit(x[1]), phi: 0.8 + 0.18*unit(x[2])}
	}
	x := nelderMead([]float64{0, -2, 0}, 60, func(x []float64) float64 {
		sse, _, _ := of(x).run(y, limit)
		return sse
	})
	return of(x)
}

// unit maps a real number to (0, 1).
func unit(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// simple is simple exponential smoothing, with alpha from a grid search; it returns alpha and the level.
func simple(y []float64, limit float64) (alpha, level float64) {
	bestSSE := math.Inf(1)
	for _, a := range []float64{0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 0.95} {
		l, sse := y[0], 0.0
		for _, v := range y[1:] {
			e := v - l
			if e > limit {
				e = limit
			} else if e < -limit {
				e = -limit
			}
			sse += e * e
			l += a * e
		}
		if sse < bestSSE {
			bestSSE, alpha, level = sse, a, l
		}
	}
	return alpha, level
}

// limit returns the size above which a one-step change is an outlier: six median absolute changes.
func limit(y []float64) float64 {
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

// doubleSeasonal is Holt-Winters with a day, a week and a first-order autoregression of the errors, without trend
// (Taylor 2003). A period of 0 is disabled.
type doubleSeasonal struct {
	alpha, gamma, delta, phi float64
	day, week                int
}

// seasonalState is the state of one pass over the series, with the seasons in rings.
type seasonalState struct {
	level, last float64
	day, week   []float64
}

func (p doubleSeasonal) run(y []float64, s *seasonalState, limit float64) (loss float64) {
	e := 0.0
	warm := max(p.day, p.week)
	di, wi := 0, 0
	for i, v := range y {
		f := s.level + p.phi*e
		if p.day > 0 {
			f += s.day[di]
		}
		if p.week > 0 {
			f += s.week[wi]
		}
		err := v - f
		c := err
		if c > limit {
			c = limit
		} else if c < -limit {
			c = -limit
		}
		if i >= warm {
			loss += math.Abs(err)
		}
		e = p.phi*e + c
		s.level += p.alpha * c
		if p.day > 0 {
			s.day[di] += p.gamma * c
			if di++; di == p.day {
				di = 0
			}
		}
		if p.week > 0 {
			s.week[wi] += p.delta * c
			if wi++; wi == p.week {
				wi = 0
			}
		}
	}
	s.last = e
	return loss
}

// start initialises the seasons with the medians of the first periods.
func (p doubleSeasonal) start(y []float64) *seasonalState {
	s := &seasonalState{}
	head := y[:min(len(y), max(2*p.week, 4*p.day, 2))]
	s.level = mean(head)
	rest := make([]float64, len(head))
	for i, v := range head {
		rest[i] = v - s.level
	}
	if p.day > 0 {
		s.day = profile(rest, p.day)
	}
	if p.week > 0 {
		s.week = profile(rest, p.week)
	}
	return s
}

// profile returns the mean at each phase of a period and subtracts it from the series.
func profile(rest []float64, m int) []float64 {
	out, n := make([]float64, m), make([]float64, m)
	for i, v := range rest {
		out[i%m] += v
		n[i%m]++
	}
	for i := range out {
		out[i] /= max(n[i], 1)
	}
	for i := range rest {
		rest[i] -= out[i%m]
	}
	return out
}

func mean(y []float64) float64 {
	sum := 0.0
	for _, v := range y {
		sum += v / float64(len(y))
	}
	return sum
}

// fitDouble chooses the parameters by the mean absolute one-step error.
func fitDouble(y []float64, day, week int) doubleSeasonal {
	lim := limit(y)
	of := func(x []float64) doubleSeasonal {
		return doubleSeasonal{alpha: 0.3 * unit(x[0]), gamma: 0.5 * unit(x[1]), delta: 0.6 * unit(x[2]), phi: 0.99 * unit(x[3]), day: day,
			week: week}
	}
	begin := of(make([]float64, 4)).start(y)
	s := &seasonalState{day: make([]float64, day), week: make([]float64, week)}
	return of(nelderMead([]float64{-2, -1, -1, 1}, 70, func(x []float64) float64 {
		s.reset(begin)
		return of(x).run(y, s, lim)
	}))
}

func (s *seasonalState) reset(to *seasonalState) {
	s.level, s.last = to.level, 0
	copy(s.day, to.day)
	copy(s.week, to.week)
}

func (p doubleSeasonal) extrapolate(y []float64, horizon int) []float64 {
	s := p.start(y)
	p.run(y, s, limit(y))
	out := make([]float64, horizon)
	e := s.last
	for k := range out {
		e *= p.phi
		out[k] = s.level + e
		at := len(y) + k
		if p.day > 0 {
			out[k] += s.day[at%p.day]
		}
		if p.week > 0 {
			out[k] += s.week[at%p.week]
		}
	}
	return out
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
