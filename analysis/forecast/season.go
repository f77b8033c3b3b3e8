package forecast

import (
	"math"
	"math/cmplx"
	"slices"

	"reckon/internal/quantiles"
)

// history is a series as used by the methods. It caches intermediate results that several of them need.
type history struct {
	y         []float64
	filled    []bool
	day, week int // steps; 0 if the history has less than two of them
	// periods are the detected seasons, in steps, the shortest first.
	periods []int
	log     bool // the swing is proportional to the level: additive methods work on logarithms
	z       []float64
	parts   *decomposition // of z
	// tuned is fitted once, on the shortest history of the back-test. Refitting it for each origin costs four times as much and gains
	// nothing.
	tuned **dampedTrend
}

func newHistory(p prepared) *history {
	h := &history{y: p.y, filled: p.filled, tuned: new(*dampedTrend)}
	if p.day > 0 && len(p.y) >= 2*p.day {
		h.day = p.day
	}
	if p.week > 0 && len(p.y) >= 2*p.week {
		h.week = p.week
	}
	h.periods = findSeasons(p.y, h.day, h.week)
	h.log = isMultiplicative(p.y, h.mainSeason())
	h.transform()
	return h
}

// upTo returns the history up to a step, with the seasons that it covers at least twice.
func (h *history) upTo(step int) *history {
	b := &history{y: h.y[:step], filled: h.filled[:step], log: h.log, z: h.z[:step], tuned: h.tuned}
	if step >= 2*h.day {
		b.day = h.day
	}
	if step >= 2*h.week {
		b.week = h.week
	}
	for _, m := range h.periods {
		if step >= 2*m {
			b.periods = append(b.periods, m)
		}
	}
	return b
}

// mainSeason returns the shortest detected season, or the day, or 0.
func (h *history) mainSeason() int {
	if len(h.periods) > 0 {
		return h.periods[0]
	}
	return h.day
}

func (h *history) transform() {
	h.z = h.y
	if !h.log {
		return
	}
	h.z = make([]float64, len(h.y))
	for i, v := range h.y {
		h.z[i] = math.Log(v)
	}
}

// maxOvershoot is the distance by which a forecast or its band may leave the range of past values, as a multiple of that range.
const maxOvershoot = 2

// untransform transforms a forecast back from the scale of the methods, and limits it.
func (h *history) untransform(z []float64) []float64 {
	low, high := slices.Min(h.y), slices.Max(h.y)
	room := maxOvershoot * (high - low)
	for i := range z {
		if h.log {
			z[i] = math.Exp(min(z[i], 700))
		}
		if math.IsNaN(z[i]) {
			z[i] = h.y[len(h.y)-1]
		}
		z[i] = clamp(z[i], low-room, high+room)
	}
	return z
}

// findSeasons returns the periods of y in steps, found by autocorrelation. It tests the day, another period shorter than
// half of the history, and the week in the remainder.
func findSeasons(y []float64, day, week int) []int {
	var out []int
	rest := detrend(y)
	acf := autocorrelation(rest)
	if day > 0 && isSignificant(acf, day, len(y)) {
		out = append(out, day)
	} else if m := highestPeak(acf, len(y)); m > 1 {
		out = append(out, m)
	}
	if week > 0 {
		rest = deseasonalize(rest, out)
		if isSignificant(autocorrelation(rest), week, len(y)) {
			out = append(out, week)
		}
	}
	return out
}

// isSignificant reports whether an autocorrelation passes Bartlett's test at 90 % and explains a minimum of variance.
func isSignificant(acf []float64, lag, n int) bool {
	if lag >= len(acf) || lag < 2 {
		return false
	}
	sum := 0.0
	for k := 1; k < lag; k++ {
		sum += acf[k] * acf[k]
	}
	limit := 1.645 * math.Sqrt((1+2*sum)/float64(n))
	return acf[lag] > min(limit, 0.9) && acf[lag] > 0.1
}

// highestPeak returns the lag of the highest significant local maximum of the autocorrelation.
func highestPeak(acf []float64, n int) int {
	found, height := 0, 0.3
	for k := 4; k < min(len(acf)-1, n/3); k++ {
		if acf[k] > acf[k-1] && acf[k] >= acf[k+1] && acf[k] > height*1.05 && isSignificant(acf, k, n) {
			found, height = k, acf[k]
		}
	}
	return found
}

// deseasonalize subtracts the mean profile of each period.
func deseasonalize(y []float64, periods []int) []float64 {
	out := slices.Clone(y)
	for _, m := range periods {
		sum, n := make([]float64, m), make([]float64, m)
		for i, v := range out {
			sum[i%m] += v
			n[i%m]++
		}
		for i := range out {
			out[i] -= sum[i%m] / n[i%m]
		}
	}
	return out
}

// detrend subtracts the least-squares line.
func detrend(y []float64) []float64 {
	n := float64(len(y))
	var sy, sxy float64
	mid := (n - 1) / 2
	for i, v := range y {
		sy += v / n
		sxy += (float64(i) - mid) * v
	}
	slope := sxy / max(n*(n*n-1)/12, 1)
	out := make([]float64, len(y))
	for i, v := range y {
		out[i] = v - sy - slope*(float64(i)-mid)
	}
	return out
}

// autocorrelation of a series with mean 0, for all lags up to half its length, by FFT.
func autocorrelation(y []float64) []float64 {
	size := 1
	for size < 2*len(y) {
		size *= 2
	}
	x := make([]complex128, size)
	scale := 0.0
	for _, v := range y {
		scale = max(scale, math.Abs(v))
	}
	out := make([]float64, len(y)/2+1)
	if scale == 0 {
		return out
	}
	for i, v := range y {
		x[i] = complex(v/scale, 0)
	}
	fft(x)
	for i, v := range x {
		a := cmplx.Abs(v)
		x[i] = complex(a*a, 0)
	}
	fft(x) // on a symmetric real series the transform is its own inverse, except for scale
	for k := range out {
		out[k] = real(x[k]) / real(x[0])
	}
	return out
}

// fft computes the radix-2 transform in place. The length must be a power of two.
func fft(x []complex128) {
	n := len(x)
	for i, j := 1, 0; i < n; i++ {
		bit := n >> 1
		for ; j&bit != 0; bit >>= 1 {
			j ^= bit
		}
		j ^= bit
		if i < j {
			x[i], x[j] = x[j], x[i]
		}
	}
	for size := 2; size <= n; size *= 2 {
		s, c := math.Sincos(-2 * math.Pi / float64(size))
		step := complex(c, s)
		for i := 0; i < n; i += size {
			w := complex(1, 0)
			for k := i; k < i+size/2; k++ {
				a, b := x[k], x[k+size/2]*w
				x[k], x[k+size/2] = a+b, a-b
				w *= step
			}
		}
	}
}

// isMultiplicative reports whether the daily swing grows with the level, which means that the slope of log swing
// on log level exceeds one half. It returns false for series with idle times or bursts far from the median,
// because logarithms make their forecasts worse.
func isMultiplicative(y []float64, season int) bool {
	if season == 0 || len(y) < 4*season || slices.Min(y) <= 0 {
		return false
	}
	if mid := quantiles.Median(slices.Clone(y)); slices.Min(y) < mid/10 || slices.Max(y) > mid*10 {
		return false
	}
	var n, sx, sy, sxx, sxy float64
	for i := len(y) % season; i+season <= len(y); i += season {
		var mean, abs float64
		for _, v := range y[i : i+season] {
			mean += v / float64(season)
		}
		for _, v := range y[i : i+season] {
			abs += math.Abs(v-mean) / float64(season)
		}
		if abs <= 0 {
			continue
		}
		a, b := math.Log(mean), math.Log(abs)
		n, sx, sy, sxx, sxy = n+1, sx+a, sy+b, sxx+a*a, sxy+a*b
	}
	if n < 4 {
		return false
	}
	div := sxx - sx*sx/n
	return div > 1e-6*n && (sxy-sx*sy/n)/div > 0.5
}

// shiftedDays is the maximum age in days of a new level that counts as a shift.
const shiftedDays = 7

// hasLevelShift reports whether the level changed two to seven days ago. The medians of the days since
// must lie outside the medians of the two weeks before, by more than their whole range.
func hasLevelShift(p prepared) bool {
	if p.day == 0 {
		return false
	}
	var days []float64
	for end := len(p.y); end-p.day >= 0 && len(days) < 14+shiftedDays; end -= p.day {
		days = append(days, quantiles.Median(slices.Clone(p.y[end-p.day:end])))
	}
	for n := 2; n <= shiftedDays && n+4 <= len(days); n++ {
		before := days[n:min(n+14, len(days))]
		low, high := slices.Min(before), slices.Max(before)
		room := max(high-low, 1e-9*math.Abs(high))
		if slices.Min(days[:n]) > high+room || slices.Max(days[:n]) < low-room {
			return true
		}
	}
	return false
}
