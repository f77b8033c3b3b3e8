package forecast

import (
	"cmp"
	"math"
	"slices"
)

// trial is what every method forecast at the origins of a back-test.
type trial struct {
	methods  []method
	origins  []int
	steps    int           // forecast at each origin
	forecast [][][]float64 // by method and origin; nil where the method had too little
	mae      []float64     // by method, NaN where it had too little
	honest   [][]float64   // by origin: what those chosen without it forecast
}

// backtest runs all methods at the last origins, each from what lies before it.
func backtest(h *history, horizon int) *trial {
	t := &trial{methods: methods()}
	n := len(h.y)
	t.steps = min(horizon, max(1, n/6))
	if h.day > 0 && t.steps > h.day/2 && t.steps < h.day {
		t.steps = min(h.day, n/6) // a whole day judges all times of the day
	}
	least := max(2*h.day, n/3, 4)
	spacing := min(max(t.steps, 1), max(1, (n-t.steps-least)/(origins-1)))
	for i := origins - 1; i >= 0; i-- {
		if o := n - t.steps - i*spacing; o >= least || o >= 2*h.day && o >= 4 {
			t.origins = append(t.origins, o)
		}
	}
	t.forecast = make([][][]float64, len(t.methods))
	t.mae = repeat(math.NaN(), len(t.methods))
	for m := range t.forecast {
		t.forecast[m] = make([][]float64, len(t.origins))
	}
	for i, o := range t.origins {
		before := h.before(o)
		for m, of := range t.methods {
			t.forecast[m][i] = of.run(before, t.steps)
		}
	}
	for m := range t.methods {
		t.mae[m] = t.error(h, func(i int) []float64 { return t.forecast[m][i] })
	}
	return t
}

// all is the index of no origin: nothing is left out.
const all = -1

// rank orders the methods by the mean of the logarithms of their errors at each origin but one: one day unlike all others,
// which every method misses, does not choose.
func (t *trial) rank(h *history, without int) []int {
	order := make([]int, 0, len(t.methods))
	score := make([]float64, len(t.methods))
	for m := range t.methods {
		if !math.IsNaN(t.mae[m]) {
			order = append(order, m)
			score[m] = t.score(h, without, func(i int) []float64 { return t.forecast[m][i] })
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[a], score[b]) })
	return order
}

// choose returns the best methods, or the seasonal naive one where together they are worse.
func (t *trial) choose(h *history, without int) []int {
	chosen := t.rank(h, without)
	chosen = chosen[:min(best, len(chosen))]
	naive := len(t.methods) - 1
	together := t.score(h, without, func(i int) []float64 { return t.past(chosen, i) })
	if together > t.score(h, without, func(i int) []float64 { return t.forecast[naive][i] }) {
		return []int{naive}
	}
	return chosen
}

// past is the median of the chosen methods at an origin.
func (t *trial) past(chosen []int, i int) []float64 {
	return middle(chosen, func(m int) []float64 { return t.forecast[m][i] })
}

// score is the sum of the logarithms of the mean absolute errors at the origins but one.
func (t *trial) score(h *history, without int, of func(int) []float64) float64 {
	sum, small := 0.0, 1e-5*spread(h.y)+1e-300
	for i := range t.origins {
		if i == without && len(t.origins) > 1 {
			continue
		}
		if e := t.errorAt(h, i, of(i)); !math.IsNaN(e) {
			sum += math.Log(e + small)
		}
	}
	return sum
}

// spread is the mean absolute distance from the mean.
func spread(y []float64) float64 {
	m, sum := mean(y), 0.0
	for _, v := range y {
		sum += math.Abs(v-m) / float64(len(y))
	}
	return sum
}

// errorAt is the mean absolute error of a forecast at one origin, on steps that were recorded.
func (t *trial) errorAt(h *history, i int, f []float64) float64 {
	sum, n := 0.0, 0.0
	for k, v := range f {
		if o := t.origins[i] + k; !h.filled[o] {
			sum += math.Abs(h.y[o] - v)
			n++
		}
	}
	return sum / n
}

// error is the mean absolute error over all origins, on steps that were recorded.
func (t *trial) error(h *history, of func(int) []float64) float64 {
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

// combine fills in the median of the best methods, or the seasonal naive forecast. The errors are those of what would have
// been chosen without the origin: chosen by them, they would be too small.
func (t *trial) combine(h *history, horizon int, r *Result) {
	r.Origins = len(t.origins)
	naive := len(t.methods) - 1
	if len(t.rank(h, all)) == 0 {
		r.Origins = 0
		r.Point, r.Models = t.methods[naive].run(h, horizon), []string{t.methods[naive].name}
		return
	}
	for i := range t.origins {
		t.honest = append(t.honest, t.past(t.choose(h, i), i))
	}
	r.NaiveMAE = t.mae[naive]
	r.BacktestMAE = t.error(h, func(i int) []float64 { return t.honest[i] })
	chosen := t.choose(h, all)
	r.Point = middle(chosen, func(m int) []float64 { return t.methods[m].run(h, horizon) })
	for _, m := range chosen {
		r.Models = append(r.Models, t.methods[m].name)
	}
}

// middle is the median of the chosen methods at each step.
func middle(chosen []int, of func(int) []float64) []float64 {
	var each [][]float64
	for _, m := range chosen {
		if f := of(m); f != nil {
			each = append(each, f)
		}
	}
	out, at := make([]float64, len(each[0])), make([]float64, len(each))
	for k := range out {
		for i, f := range each {
			at[i] = f[k]
		}
		out[k] = median(at)
	}
	return out
}
