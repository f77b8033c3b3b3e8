package forecast

import (
	"cmp"
	"math"
	"slices"
)

// trial holds the forecasts of every method at the origins of a back-test.
type trial struct {
	methods  []forecastMethod
	origins  []int
	steps    int           // forecast at each origin
	forecast [][][]float64 // by method and origin; nil if the method had too little history
	mae      []float64     // by method, NaN if it had too little history
	honest   [][]float64   // by origin: the forecast with weights that exclude this origin
}

// backtest runs all methods at the last origins, each on the history before it.
func backtest(h *history, horizon int) *trial {
	t := &trial{methods: allMethods()}
	n := len(h.y)
	t.steps = min(horizon, max(1, n/6))
	if h.day > 0 && t.steps > h.day/2 && t.steps < h.day {
		t.steps = min(h.day, n/6) // a whole day covers all times of day
	}
	least := max(2*h.day, n/3, 4)
	spacing := min(max(t.steps, 1), max(1, (n-t.steps-least)/(origins-1)))
	for i := origins - 1; i >= 0; i-- {
		if o := n - t.steps - i*spacing; o >= least || o >= 2*h.day && o >= 4 {
			t.origins = append(t.origins, o)
		}
	}
	t.forecast = make([][][]float64, len(t.methods))
	t.mae = repeatValue(math.NaN(), len(t.methods))
	for m := range t.forecast {
		t.forecast[m] = make([][]float64, len(t.origins))
	}
	for i, o := range t.origins {
		before := h.upTo(o)
		for m, of := range t.methods {
			t.forecast[m][i] = of.run(before, t.steps)
		}
	}
	for m := range t.methods {
		t.mae[m] = t.overallError(h, func(i int) []float64 { return t.forecast[m][i] })
	}
	return t
}

// noOrigin means that no origin is left out.
const noOrigin = -1

// sharpness is the exponent by which the weight of a method falls with its error. A method with twice the error of the
// best one has an eighth of its weight.
const sharpness = 3

// methodWeights returns a weight for each method. It uses the mean logarithm of the errors at the origins, so that a single
// unusual day, which every method misses, does not decide. If without is the index of an origin, it uses only origins
// that share no step with that one, and equal weights if there are none. It returns nil if no method was tried.
func (t *trial) methodWeights(h *history, without int) []float64 {
	score, least, n := make([]float64, len(t.methods)), math.Inf(1), 0.0
	for i := range t.origins {
		if !t.originsOverlap(i, without) {
			n++
		}
	}
	for m := range t.methods {
		score[m] = math.Inf(1)
		if !math.IsNaN(t.mae[m]) {
			score[m] = t.scoreOrigins(h, without, func(i int) []float64 { return t.forecast[m][i] }) / max(n, 1)
			least = min(least, score[m])
		}
	}
	if math.IsInf(least, 1) {
		return nil
	}
	for m, s := range score {
		score[m] = math.Exp(sharpness * (least - s))
	}
	return score
}

// originsOverlap reports whether two origins share a step; false with [noOrigin].
func (t *trial) originsOverlap(i, other int) bool {
	if other == noOrigin {
		return false
	}
	d := t.origins[i] - t.origins[other]
	return d < t.steps && -d < t.steps
}

// combineAt returns the combined forecast at an origin.
func (t *trial) combineAt(weights []float64, i int) []float64 {
	return trimmedMean(weights, func(m int) []float64 { return t.forecast[m][i] })
}

// scoreOrigins returns the sum of the logarithms of the mean absolute errors at the origins that share no step with the excluded one.
func (t *trial) scoreOrigins(h *history, without int, of func(int) []float64) float64 {
	sum, small := 0.0, 1e-5*meanDeviation(h.y)+1e-300
	for i := range t.origins {
		if t.originsOverlap(i, without) {
			continue
		}
		if e := t.errorAt(h, i, of(i)); !math.IsNaN(e) {
			sum += math.Log(e + small)
		}
	}
	return sum
}

// meanDeviation returns the mean absolute deviation from the mean.
func meanDeviation(y []float64) float64 {
	m, sum := mean(y), 0.0
	for _, v := range y {
		sum += math.Abs(v-m) / float64(len(y))
	}
	return sum
}

// errorAt returns the mean absolute error of a forecast at one origin, over recorded steps.
func (t *trial) errorAt(h *history, origin int, forecast []float64) float64 {
	sum, n := 0.0, 0.0
	for k, v := range forecast {
		if o := t.origins[origin] + k; !h.filled[o] {
			sum += math.Abs(h.y[o] - v)
			n++
		}
	}
	return sum / n
}

// overallError returns the mean absolute error over all origins, over recorded steps.
func (t *trial) overallError(h *history, of func(int) []float64) float64 {
	sum, n := 0.0, 0.0
	for i, o := range t.origins {
		f := of(i)
		if f == nil {
			return math.NaN()
		}
		for k, v := range f {
			if !h.filled[o+k] {
				sum += math.Abs(h.y[o+k] - v)
				n++
			}
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / n
}

// combineMethods sets the forecast of r to the weighted combination of the methods. For the error at an origin, it uses
// weights that exclude this origin. Weights fitted to the origin would make its error too small.
func (t *trial) combineMethods(h *history, horizon int, r *Result) {
	r.Origins = len(t.origins)
	naive := len(t.methods) - 1
	weights := t.methodWeights(h, noOrigin)
	if weights == nil {
		r.Origins = 0
		r.Point, r.Models = t.methods[naive].run(h, horizon), []string{t.methods[naive].name}
		return
	}
	for i := range t.origins {
		t.honest = append(t.honest, t.combineAt(t.methodWeights(h, i), i))
	}
	r.NaiveMAE = t.mae[naive]
	r.BacktestMAE = t.overallError(h, func(i int) []float64 { return t.honest[i] })
	r.Point = trimmedMean(weights, func(m int) []float64 { return t.methods[m].run(h, horizon) })
	for _, m := range t.bestMethods(weights) {
		r.Models = append(r.Models, t.methods[m].name)
	}
}

// bestMethods returns the indices of up to three methods with the highest weights, in descending order.
func (t *trial) bestMethods(weights []float64) []int {
	var out []int
	for m, w := range weights {
		if w > 0 {
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	return out[:min(named, len(out))]
}

// minWeight is the weight below which a method is not run for the answer.
const minWeight = 0.01

// trimShare is the share of the weight that is cut off at each side of the methods' forecasts for a step. The result is
// close to their median, which a single outlier does not move, but smoother.
const trimShare = 0.4

// trimmedMean returns the weighted trimmed mean of the methods at each step.
func trimmedMean(weights []float64, of func(int) []float64) []float64 {
	type one struct{ v, w float64 }
	var each [][]float64
	var w []float64
	total := 0.0
	for m, weight := range weights {
		if weight < minWeight {
			continue
		}
		if f := of(m); f != nil {
			each, w, total = append(each, f), append(w, weight), total+weight
		}
	}
	out, at := make([]float64, len(each[0])), make([]one, len(each))
	for k := range out {
		for i, f := range each {
			at[i] = one{f[k], w[i]}
		}
		slices.SortFunc(at, func(a, b one) int { return cmp.Compare(a.v, b.v) })
		sum, below := 0.0, 0.0
		for _, x := range at {
			from, to := max(below, trimShare*total), min(below+x.w, (1-trimShare)*total)
			if to > from {
				sum += (to - from) * x.v
			}
			below += x.w
		}
		out[k] = sum / ((1 - 2*trimShare) * total)
	}
	return out
}
