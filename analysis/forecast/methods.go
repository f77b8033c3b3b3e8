package forecast

import (
	"cmp"
	"slices"

	"reckon/internal/quantiles"
)

// forecastMethod forecasts the next steps of a history, or returns nil if the history is too short.
type forecastMethod struct {
	name string
	run  func(h *history, horizon int) []float64
}

var (
	naive     = forecastMethod{"last value", lastValue}
	naiveDay  = forecastMethod{"seasonal naive of the day", seasonalDay}
	naiveWeek = forecastMethod{"seasonal naive of the week", func(h *history, n int) []float64 { return repeatSeason(h.y, h.week, n) }}
)

// allMethods returns all methods, the steadier first among equals; the last is the baseline that the others must beat.
func allMethods() []forecastMethod {
	return []forecastMethod{
		{"median of the last day", medianDay},
		{"day level and 7-day median profile", medianProfile},
		{"7-day median profile and level of the last hours", recentProfile},
		{"median of the last hours", medianHours},
		{"analogs of the last hours", func(h *history, n int) []float64 { return forecastByAnalogs(h.y, h.day/4, n, false) }},
		{"analogs of the last day", func(h *history, n int) []float64 { return forecastByAnalogs(h.y, h.day, n, false) }},
		{"analogs of the shape of the last day", func(h *history, n int) []float64 { return forecastByAnalogs(h.y, h.day, n, true) }},
		{"median of 7 days", func(h *history, n int) []float64 { return phaseMedians(h.y, h.day, 7, n) }},
		{"median of 4 weeks", func(h *history, n int) []float64 { return phaseMedians(h.y, h.week, 4, n) }},
		{"STL and ETS", stlETS},
		{"Theta", thetaForecast},
		naive, naiveWeek, naiveDay,
	}
}

func lastValue(h *history, steps int) []float64 { return repeatValue(h.y[len(h.y)-1], steps) }

// seasonalDay repeats the previous day, or the last value if there are fewer than two days.
func seasonalDay(h *history, steps int) []float64 {
	if h.day == 0 {
		return lastValue(h, steps)
	}
	return repeatSeason(h.y, h.day, steps)
}

func repeatSeason(y []float64, period, steps int) []float64 {
	if period == 0 {
		return nil
	}
	out := make([]float64, steps)
	for k := range out {
		out[k] = y[len(y)-period+k%period]
	}
	return out
}

func medianDay(h *history, steps int) []float64 {
	m := cmp.Or(h.day, len(h.y))
	return repeatValue(quantiles.Median(slices.Clone(h.y[len(h.y)-m:])), steps)
}

// medianHours returns the median of the last eighth of a day.
func medianHours(h *history, steps int) []float64 {
	m := h.day / 8
	if m < 2 {
		return nil
	}
	return repeatValue(quantiles.Median(slices.Clone(h.y[len(h.y)-m:])), steps)
}

// recentProfile forecasts the median profile of a day, shifted by the deviation of the last quarter of a day from it.
// From the second day on, the shift is half of that.
func recentProfile(h *history, steps int) []float64 {
	recent := h.day / 4
	if recent < 2 {
		return nil
	}
	p := medianProfile(h, max(steps, h.day))
	off := make([]float64, recent)
	for i := range off {
		off[i] = h.y[len(h.y)-recent+i] - p[h.day-recent+i]
	}
	move := quantiles.Median(off)
	for k := range p {
		if k == h.day {
			move /= 2
		}
		p[k] += move
	}
	return p[:steps]
}

// medianProfile forecasts the level of the last day plus, for each time of day, the deviation of
// the last seven days from their level. Both use medians, which minimise the absolute error.
func medianProfile(h *history, steps int) []float64 {
	m := h.day
	if m == 0 {
		return nil
	}
	days := min(7, len(h.y)/m)
	levels := make([]float64, days)
	for d := range days {
		end := len(h.y) - d*m
		levels[d] = quantiles.Median(slices.Clone(h.y[end-m : end]))
	}
	out := make([]float64, steps)
	at := make([]float64, days)
	for k := range out {
		if k >= m {
			out[k] = out[k-m]
			continue
		}
		for d := range days {
			at[d] = h.y[len(h.y)-(d+1)*m+k] - levels[d]
		}
		out[k] = levels[0] + quantiles.Median(at)
	}
	return out
}

// phaseMedians returns the median of the last cycles at each phase of a period.
func phaseMedians(y []float64, period, cycles, steps int) []float64 {
	if period == 0 {
		return nil
	}
	cycles = min(cycles, len(y)/period)
	if cycles < 2 {
		return nil
	}
	out, at := make([]float64, steps), make([]float64, cycles)
	for k := range out {
		if k >= period {
			out[k] = out[k-period]
			continue
		}
		for c := range cycles {
			at[c] = y[len(y)-(c+1)*period+k]
		}
		out[k] = quantiles.Median(at)
	}
	return out
}

func stlETS(h *history, steps int) []float64 {
	d := h.decompose()
	lim := outlierLimit(d.adjusted)
	if *h.tuned == nil {
		p := fitDamped(d.adjusted, lim)
		*h.tuned = &p
	}
	p := **h.tuned
	_, level, slope := p.smooth(d.adjusted, lim)
	out := make([]float64, steps)
	damp := p.phi
	for k := range out {
		level += damp * slope
		damp *= p.phi
		out[k] = level + d.seasonAt(k)
	}
	return h.untransform(out)
}

// thetaForecast forecasts the mean of two forecasts: a straight line, and simple smoothing of the seasonally adjusted series
// with twice its curvature. In effect, this is smoothing with a drift of half the slope.
func thetaForecast(h *history, steps int) []float64 {
	d := h.decompose()
	alpha, level := smoothSimply(d.adjusted, outlierLimit(d.adjusted))
	line := detrend(d.adjusted)
	last := len(line) - 1
	slope := 0.0
	if last > 0 {
		slope = (d.adjusted[last] - line[last] - d.adjusted[0] + line[0]) / float64(last)
	}
	out := make([]float64, steps)
	for k := range out {
		out[k] = level + slope/2*(float64(k)+1/alpha) + d.seasonAt(k)
	}
	return h.untransform(out)
}
