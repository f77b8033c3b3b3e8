package forecast

import (
	"math"

	"reckon/internal/quantiles"
)

// decomposition is a series as trend + seasons + remainder; adjusted is the series without its seasons.
type decomposition struct {
	adjusted []float64
	seasons  [][]float64 // one per period
	periods  []int
}

// seasonAt returns the seasonal component of a step after the end, from the last cycle.
func (d *decomposition) seasonAt(k int) float64 {
	sum := 0.0
	for i, s := range d.seasons {
		m := d.periods[i]
		sum += s[len(s)-m+k%m]
	}
	return sum
}

// decompose computes the decomposition of the working series once.
func (h *history) decompose() *decomposition {
	if h.parts == nil {
		h.parts = mstl(h.z, h.periods)
	}
	return h.parts
}

// mstl removes the seasons one after the other, the shortest first, twice (Bandara et al. 2021).
func mstl(y []float64, periods []int) *decomposition {
	d := &decomposition{adjusted: append([]float64(nil), y...), periods: periods}
	rounds := 2
	if len(periods) < 2 {
		rounds = 1
	}
	d.seasons = make([][]float64, len(periods))
	for round := range rounds {
		for i, m := range periods {
			if round > 0 {
				addScaled(d.adjusted, d.seasons[i], 1)
			}
			var s stl
			d.seasons[i] = s.fitSeason(d.adjusted, m, 7+4*(i+1))
			addScaled(d.adjusted, d.seasons[i], -1)
		}
	}
	return d
}

func addScaled(y, by []float64, factor float64) {
	for i := range y {
		y[i] += factor * by[i]
	}
}

// stl is the procedure of Cleveland et al. (1990), with a robust outer loop.
type stl struct {
	detrended, weights, sub, subWeights, smooth, cycle, low, buffer []float64
}

const outerLoops = 2

// fitSeason returns the season with a period, smoothed over window cycles.
func (s *stl) fitSeason(y []float64, period, window int) []float64 {
	n := len(y)
	trend := make([]float64, n)
	season := make([]float64, n)
	s.detrended, s.cycle, s.low = make([]float64, n), make([]float64, n+2*period), make([]float64, n+2*period)
	s.buffer = make([]float64, n+2*period)
	trendWindow := nextOdd(1.5 * float64(period) / (1 - 1.5/float64(window)))
	for outer := range outerLoops {
		for i := range y {
			s.detrended[i] = y[i] - trend[i]
		}
		s.smoothPhases(period, window)
		s.lowPass(period)
		for i := range season {
			season[i] = s.cycle[period+i] - s.low[i]
			s.detrended[i] = y[i] - season[i]
		}
		loess(s.detrended, s.weights, trendWindow, max(1, trendWindow/8), trend)
		if outer < outerLoops-1 {
			s.setRobustness(y, trend, season)
		}
	}
	return season
}

func nextOdd(v float64) int { return 2*int(math.Ceil(v)/2) + 1 }

// smoothPhases smooths the values of each phase of the period, extending one period beyond both ends.
func (s *stl) smoothPhases(period, window int) {
	n := len(s.detrended)
	for place := range period {
		s.sub, s.subWeights = s.sub[:0], s.subWeights[:0]
		for i := place; i < n; i += period {
			s.sub = append(s.sub, s.detrended[i])
			if s.weights != nil {
				s.subWeights = append(s.subWeights, s.weights[i])
			}
		}
		k := len(s.sub)
		if cap(s.smooth) < k+2 {
			s.smooth = make([]float64, k+16)
		}
		s.smooth = s.smooth[:k+2]
		w := s.subWeights
		if s.weights == nil {
			w = nil
		}
		loess(s.sub, w, window, 1, s.smooth[1:k+1])
		s.smooth[0] = loessAt(s.sub, w, window, -1)
		s.smooth[k+1] = loessAt(s.sub, w, window, float64(k))
		for i, v := range s.smooth {
			if at := place + i*period; at < len(s.cycle) {
				s.cycle[at] = v
			}
		}
	}
}

// lowPass sets the moving averages over period, period and 3 steps in turn. It keeps the first n values.
func (s *stl) lowPass(period int) {
	a := movingAverage(s.cycle, period, s.low)
	b := movingAverage(a, period, s.buffer)
	movingAverage(b, 3, s.low)
}

// movingAverage writes the moving average over n steps to out, which may not be y.
func movingAverage(y []float64, n int, out []float64) []float64 {
	out = out[:len(y)-n+1]
	sum := 0.0
	for i, v := range y {
		sum += v
		if i >= n {
			sum -= y[i-n]
		}
		if i >= n-1 {
			out[i-n+1] = sum / float64(n)
		}
	}
	return out
}

// setRobustness sets bisquare weights from the remainder.
func (s *stl) setRobustness(y, trend, season []float64) {
	if s.weights == nil {
		s.weights = make([]float64, len(y))
	}
	rest := s.buffer[:len(y)]
	for i := range y {
		s.weights[i] = math.Abs(y[i] - trend[i] - season[i])
		rest[i] = s.weights[i]
	}
	h := 6 * quantiles.Median(rest)
	for i, r := range s.weights {
		switch {
		case r <= 0.001*h:
			s.weights[i] = 1
		case r >= 0.999*h:
			s.weights[i] = 1e-6
		default:
			u := r / h
			s.weights[i] = (1 - u*u) * (1 - u*u)
		}
	}
}

// loess smooths y by local lines over a window of steps at every jump-th step, interpolating between them.
func loess(y, weights []float64, window, jump int, out []float64) {
	n := len(y)
	last := 0
	for i := 0; ; i += jump {
		i = min(i, n-1)
		out[i] = loessAt(y, weights, window, float64(i))
		for k := last + 1; k < i; k++ {
			out[k] = out[last] + (out[i]-out[last])*float64(k-last)/float64(i-last)
		}
		last = i
		if i == n-1 {
			return
		}
	}
}

// loessAt returns the local line at x, which may be outside the series, from the window nearest to x.
func loessAt(y, weights []float64, window int, x float64) float64 {
	n := len(y)
	left := 0
	if window < n {
		left = min(max(int(x)-window/2, 0), n-window)
	}
	right := min(left+window, n)
	h := max(x-float64(left), float64(right-1)-x)
	if window > n {
		h += float64(window-n) / 2
	}
	if h <= 0 {
		return y[left]
	}
	h *= 1.0001
	var sw, sx, sy, sxx, sxy float64
	for i := left; i < right; i++ {
		d := float64(i) - x
		u := math.Abs(d) / h
		w := 1 - u*u*u
		w = w * w * w
		if weights != nil {
			w *= weights[i]
		}
		sw += w
		sx += w * d
		sxx += w * d * d
		sy += w * y[i]
		sxy += w * d * y[i]
	}
	if sw <= 0 {
		return y[int(clamp(x, float64(left), float64(right-1)))]
	}
	mx := sx / sw
	div := sxx - sx*mx
	if div <= 1e-9*h*h*sw {
		return sy / sw
	}
	slope := (sxy - mx*sy) / div
	return sy/sw - slope*mx
}
