package forecast

import (
	"math"
	"slices"
)

// coverage is the share of future values that a band should contain.
const coverage = 0.95

// residuals are past errors, truth minus forecast, with the step of each in the series. They are
// logarithmic if the seasonal swing is proportional to the level.
type residuals struct {
	e     []float64
	at    []int
	spans float64 // number of forecasts behind the errors, each of about a day, or of the horizon if the step is not a fraction of a day
}

func (rs *residuals) addOrigin(h *history, origin int, forecast []float64, scale float64) {
	for k, v := range forecast {
		if origin+k < len(h.y) && !h.filled[origin+k] {
			e := h.y[origin+k] - v
			if h.log {
				e = math.Log(h.y[origin+k] / max(v, h.leastForecast()))
			}
			rs.e = append(rs.e, e*scale)
			rs.at = append(rs.at, origin+k)
		}
	}
	rs.spans++
	if h.day > 0 {
		rs.spans += max(float64(len(forecast))/float64(h.day)-1, 0)
	}
}

// setBand fills in Low and High from past errors, normalised by their size at each time of day.
func (t *trial) setBand(h *history, horizon int, r *Result) {
	r.Low, r.High, r.Mean = slices.Clone(r.Point), slices.Clone(r.Point), slices.Clone(r.Point)
	rs := t.collectResiduals(h, r)
	if len(rs.e) == 0 {
		// Without a back-test: as wide as the range of the past.
		spread := slices.Max(h.y) - slices.Min(h.y)
		for k := range r.Point {
			r.Low[k] -= spread
			r.High[k] += spread
		}
		return
	}
	day := h.day
	if r.Flags&Seasonless != 0 {
		day = 0 // errors have no time of day either
	}
	scale := rs.stepScales(day)
	up, down := make([]float64, len(rs.e)), make([]float64, len(rs.e))
	for i, e := range rs.e {
		up[i] = e / scale[rs.at[i]%len(scale)]
		down[i] = -up[i]
	}
	rs.setMean(h, scale, r)
	// The errors of one forecast are correlated, so the effective sample size is closer to the
	// number of forecasts. This is a first-order correction, as Student's distribution has.
	few := (bandDrift + bandOneSided*rs.oneSidedness()) * (1 + 1/rs.spans)
	lo, hi := upperQuantile(down)*few, upperQuantile(up)*few
	least, most := slices.Min(h.y), slices.Max(h.y)
	room := maxOvershoot * (most - least)
	for k := range r.Point {
		grow := scale[(len(h.y)+k)%len(scale)]
		if k >= t.steps {
			grow *= math.Sqrt(float64(k+1) / float64(t.steps))
		}
		if h.log {
			r.Low[k] *= math.Exp(-lo * grow)
			r.High[k] *= math.Exp(min(hi*grow, 20))
		} else {
			r.Low[k] -= lo * grow
			r.High[k] += hi * grow
		}
		r.Low[k], r.High[k] = max(r.Low[k], least-room), min(r.High[k], most+room)
	}
}

// setMean sets the mean forecast of r to the point forecast plus the mean past error. The point forecast is near the
// median, which differs much from the mean if use is bursty.
func (rs *residuals) setMean(h *history, scale []float64, r *Result) {
	off := 0.0
	for i, e := range rs.e {
		if h.log {
			off += math.Exp(min(e, 20)) / float64(len(rs.e))
		} else {
			off += e / scale[rs.at[i]%len(scale)] / float64(len(rs.e))
		}
	}
	for k := range r.Mean {
		if h.log {
			r.Mean[k] *= off
		} else {
			r.Mean[k] += off * scale[(len(h.y)+k)%len(scale)]
		}
	}
}

// leastForecast returns the smallest forecast to compare, for a series above 0.
func (h *history) leastForecast() float64 { return slices.Min(h.y) / 2 }

// bandDrift widens the band, because the future differs from the past slightly more than past days differ from each other.
// bandOneSided widens the band further if most errors have the same sign, as in a series that keeps rising or falling.
const bandDrift, bandOneSided = 1.13, 0.3

// oneSidedness returns the one-sidedness of the errors: 0 if they cancel out, 1 if all have one sign.
func (rs *residuals) oneSidedness() float64 {
	sum, all := 0.0, 0.0
	for _, e := range rs.e {
		sum, all = sum+e, all+math.Abs(e)
	}
	return math.Abs(sum) / max(all, math.SmallestNonzeroFloat64)
}

// proxyDays is the number of days before the last origins from which the proxy's errors are taken.
const proxyDays = 21

// collectResiduals returns the errors at the last origins. These are too few to estimate the tails of the distribution. It
// therefore adds the errors of a simple proxy forecast on earlier days, scaled by the ratio of both errors.
func (t *trial) collectResiduals(h *history, r *Result) *residuals {
	rs := &residuals{}
	if r.Origins == 0 {
		return rs
	}
	for i, o := range t.origins {
		rs.addOrigin(h, o, t.honest[i], 1)
	}
	if h.day == 0 {
		return rs
	}
	proxy, off := t.proxyForecast(h)
	if proxy == nil {
		return rs
	}
	scale := clamp(r.BacktestMAE/off, leastScale, 1.5)
	for o := t.origins[0] - h.day; o >= 3*h.day && o > t.origins[0]-proxyDays*h.day; o -= h.day {
		if f := proxy(h.upTo(o), min(t.steps, t.origins[0]-o)); f != nil {
			rs.addOrigin(h, o, f, scale)
		}
	}
	return rs
}

// weekProfileShare is the ratio of errors below which the weekly profile is preferred to the daily one.
const weekProfileShare = 0.7

// leastScale is the smallest assumed ratio of the forecast's errors to the proxy's.
const leastScale = 0.1

// proxyForecast returns the simple forecast with the smallest error at the last origins, and that error. The candidates are the
// median profiles of the last days and of the last weeks. It returns nil if no candidate has an error above zero.
func (t *trial) proxyForecast(h *history) (best func(h *history, n int) []float64, off float64) {
	for _, f := range []func(h *history, n int) []float64{
		medianProfile, func(h *history, n int) []float64 { return phaseMedians(h.y, h.week, 3, n) },
	} {
		var sum, n float64
		for i, o := range t.origins {
			before := f(h.upTo(o), t.steps)
			if before == nil {
				sum, n = 0, 0
				break
			}
			if e := t.errorAt(h, i, before); !math.IsNaN(e) {
				sum, n = sum+e, n+1
			}
		}
		if sum > 0 && (best == nil || sum/n < weekProfileShare*off) {
			best, off = f, sum/n
		}
	}
	return best, off
}

// priorErrors is the number of mean-sized errors that the scale of each time of day starts with.
const priorErrors = 6

// stepScales returns the typical size of the error for each step of a day of day steps. It smooths each with its neighbours
// and shrinks it towards the overall mean. With less than a week of errors, it is the same for all steps.
func (rs *residuals) stepScales(day int) []float64 {
	all := 0.0
	for _, e := range rs.e {
		all += math.Abs(e) / float64(len(rs.e))
	}
	if day < 3 || rs.spans < 7 || all == 0 {
		return []float64{1}
	}
	sum, n := make([]float64, day), make([]float64, day)
	for i, e := range rs.e {
		sum[rs.at[i]%day] += math.Abs(e)
		n[rs.at[i]%day]++
	}
	out := make([]float64, day)
	for i := range out {
		a, b := (i+day-1)%day, (i+1)%day
		out[i] = (sum[i] + (sum[a]+sum[b])/2 + priorErrors*all) / (n[i] + (n[a]+n[b])/2 + priorErrors)
	}
	return out
}

// upperQuantile returns the conformal quantile for one side of the band.
func upperQuantile(e []float64) float64 {
	slices.Sort(e)
	at := int(math.Ceil(float64(len(e)+1)*(1+coverage)/2)) - 1
	return max(e[min(at, len(e)-1)], 0)
}
