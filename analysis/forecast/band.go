package forecast

import (
	"math"
	"slices"
)

// coverage is the share of values to come that a band should hold.
const coverage = 0.95

// residuals are errors of the past, truth - forecast, each with its step in the series; of logarithms where the swing
// follows the level.
type residuals struct {
	e     []float64
	at    []int
	spans float64 // forecasts of about a day, or of the horizon where there are no days, that they come from
}

func (rs *residuals) note(h *history, o int, f []float64, scale float64) {
	for k, v := range f {
		if o+k < len(h.y) && !h.filled[o+k] {
			e := h.y[o+k] - v
			if h.log {
				e = math.Log(h.y[o+k] / max(v, h.least()))
			}
			rs.e = append(rs.e, e*scale)
			rs.at = append(rs.at, o+k)
		}
	}
	rs.spans++
	if h.day > 0 {
		rs.spans += max(float64(len(f))/float64(h.day)-1, 0)
	}
}

// band fills in Low and High from the errors of the past, normalised by how large they are at each time of the day.
func (t *trial) band(h *history, horizon int, r *Result) {
	r.Low, r.High = slices.Clone(r.Point), slices.Clone(r.Point)
	rs := t.residuals(h, r)
	if len(rs.e) == 0 {
		// Without any back-test: as far as the past went.
		spread := slices.Max(h.y) - slices.Min(h.y)
		for k := range r.Point {
			r.Low[k] -= spread
			r.High[k] += spread
		}
		return
	}
	scale := rs.scales(h.day)
	up, down := make([]float64, len(rs.e)), make([]float64, len(rs.e))
	for i, e := range rs.e {
		up[i] = e / scale[rs.at[i]%len(scale)]
		down[i] = -up[i]
	}
	// The errors of one forecast go together, so that their number is nearer to that of the forecasts: a correction as
	// that of Student's distribution, in first order.
	few := drift * (1 + 1/rs.spans)
	lo, hi := upper(down)*few, upper(up)*few
	for k := range r.Point {
		grow := scale[(len(h.y)+k)%len(scale)]
		if k >= t.steps {
			grow *= math.Sqrt(float64(k+1) / float64(t.steps))
		}
		if h.log {
			r.Low[k] *= math.Exp(-lo * grow)
			r.High[k] *= math.Exp(min(hi*grow, 20))
			continue
		}
		r.Low[k] -= lo * grow
		r.High[k] += hi * grow
	}
}

// least is below which no forecast of a series above 0 is compared.
func (h *history) least() float64 { return slices.Min(h.y) / 2 }

// drift widens the band, for what comes is a little less like the past than the days of the past are like each other.
const drift = 1.22

// proxyDays is over how many days before the last origins the proxy's errors are taken.
const proxyDays = 21

// residuals are those of the last origins, which alone are too few for the tails, and those of a proxy, the median profile,
// on the days before, scaled by how much better the answer was on the last origins.
func (t *trial) residuals(h *history, r *Result) *residuals {
	rs := &residuals{}
	if r.Origins == 0 {
		return rs
	}
	for i, o := range t.origins {
		rs.note(h, o, t.honest[i], 1)
	}
	if h.day == 0 {
		return rs
	}
	var sum, n float64
	for i, o := range t.origins {
		if e := t.errorAt(h, i, medianProfile(h.before(o), t.steps)); !math.IsNaN(e) {
			sum, n = sum+e, n+1
		}
	}
	if sum == 0 {
		return rs
	}
	scale := clamp(r.BacktestMAE/(sum/n), 0.5, 1.5)
	for o := t.origins[0] - h.day; o >= 3*h.day && o > t.origins[0]-proxyDays*h.day; o -= h.day {
		rs.note(h, o, medianProfile(h.before(o), min(t.steps, t.origins[0]-o)), scale)
	}
	return rs
}

// shrink is with how many errors of the mean size the scale of a time of the day begins.
const shrink = 6

// scales are how large errors are at each step of the day, between its neighbours and drawn to the mean of all; one for all
// steps where a week has not been seen.
func (rs *residuals) scales(day int) []float64 {
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
		out[i] = (sum[i] + (sum[a]+sum[b])/2 + shrink*all) / (n[i] + (n[a]+n[b])/2 + shrink)
	}
	return out
}

// upper is the conformal quantile for one side of the band.
func upper(e []float64) float64 {
	slices.Sort(e)
	at := int(math.Ceil(float64(len(e)+1)*(1+coverage)/2)) - 1
	return max(e[min(at, len(e)-1)], 0)
}
