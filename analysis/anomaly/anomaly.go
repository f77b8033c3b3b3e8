// Package anomaly finds what is odd in a series: values outside of the envelope that the same time of earlier days draws,
// shifts of the level, and what is missing where something always was. Memory that climbs towards its limit and nodes unlike
// their peers have functions of their own.
//
// Every score is made of what came before: it does not change when later data is cut. A value is odd by how far it is outside
// of what its past scattered, and by how much farther than anything before: bursts that come every day are not news.
//
// Pure: no file, no clock; safe for concurrent use; there are no errors. Values that are NaN were not recorded and have the score 0.
package anomaly

import (
	"math"
	"slices"
)

// Kind of an event.
type Kind string

// The kinds.
const (
	High  Kind = "high"  // above the envelope
	Low   Kind = "low"   // below it
	Shift Kind = "shift" // the mean of hours, not single values
)

// Event is one anomaly: one, however many values belong to it.
type Event struct {
	Kind        Kind
	First, Last int     // steps
	Score       float64 // the highest; 1 is the threshold of the default
	Value       float64 // the value, or mean of hours, that is farthest off
	Expected    float64 // what was expected there
}

// Config holds the thresholds.
type Config struct {
	Day int // steps of a day; 0 where a step is no part of one
	// Threshold is from which score a step is odd; 0 is 1.
	Threshold float64
	// Quiet is for how many steps after an event nothing new is reported; 0 is half a day.
	Quiet int
}

const (
	// days and weeks of which the same time is looked at.
	days, weeks = 7, 4
	// learn is for how many days nothing is odd: what is usual is not known yet.
	learn = 1.5
	// far is how many robust deviations are odd at least, and record by how much farther than anything before.
	far    = 5.0
	record = 1.25
)

// Detect finds the events of a series.
func Detect(y []float64, c Config) []Event {
	d := newDetector(y, c)
	limit := c.Threshold
	if limit <= 0 {
		limit = 1
	}
	quiet := c.Quiet
	if quiet <= 0 {
		quiet = max(d.day/2, 1)
	}
	var out []Event
	for t := range y {
		s := d.step(t)
		if s.score < limit {
			continue
		}
		if n := len(out); n > 0 && t-out[n-1].Last <= quiet {
			e := &out[n-1]
			e.Last = t
			if s.score > e.Score {
				e.Score, e.Value, e.Expected = s.score, s.value, s.expected
			}
			continue
		}
		out = append(out, Event{Kind: s.kind, First: t, Last: t, Score: s.score, Value: s.value, Expected: s.expected})
	}
	return out
}

// Scores are those of every step: 1 is odd by the default.
func Scores(y []float64, c Config) []float64 {
	d := newDetector(y, c)
	out := make([]float64, len(y))
	for t := range y {
		out[t] = d.step(t).score
	}
	return out
}

// scored is what is odd of one step.
type scored struct {
	score, value, expected float64
	kind                   Kind
}

// window is means of the residuals over some steps.
type window struct {
	steps   int
	past    []float64 // means, every so many steps
	highest []peak    // scores that no later one exceeded, falling
}

type peak struct {
	at    int
	score float64
}

type detector struct {
	y, rest []float64
	day     int
	errors  [3]float64 // running, of the last day, the days and the weeks before
	tried   [3]int
	windows [3]window
	usual   []float64 // values of the last days, for the smallest scale
	scale   [3]float64
	buffer  []float64
}

func newDetector(y []float64, c Config) *detector {
	day := c.Day
	if day <= 0 {
		day = 24
	}
	d := &detector{y: y, rest: make([]float64, len(y)), day: day}
	d.windows = [3]window{{steps: 1}, {steps: max(day/24, 2)}, {steps: max(day/4, 3)}}
	return d
}

// step scores one step; steps are scored in order.
func (d *detector) step(t int) scored {
	v := d.y[t]
	if math.IsNaN(v) || math.IsInf(v, 0) {
		d.rest[t] = math.NaN()
		return scored{}
	}
	expected, ok := d.expect(t)
	d.usual = append(d.usual, v)
	if !ok {
		d.rest[t] = math.NaN()
		return scored{}
	}
	d.rest[t] = v - expected
	best := scored{expected: expected, value: v}
	for i := range d.windows {
		m, ok := d.mean(t, d.windows[i].steps)
		if !ok {
			continue
		}
		score := d.score(t, i, m)
		if score > best.score {
			best = scored{score, expected + m, expected, Shift}
			if i == 0 {
				best.kind = High
				if m < 0 {
					best.kind = Low
				}
			}
		}
	}
	if float64(t) < learn*float64(d.day) {
		best.score = 0
	}
	return best
}

// expect is the median of the same time of the days before, of the weeks before, or of the last day, whichever was the best so far.
func (d *detector) expect(t int) (float64, bool) {
	last := d.recent(t-d.day, t)
	if len(last) < d.day/4 || len(last) < 6 {
		return 0, false
	}
	level := middle(last)
	candidates := [3]float64{level, math.NaN(), math.NaN()}
	if same := d.same(t, d.day, days); len(same) >= 3 {
		candidates[1] = middle(same)
	}
	if same := d.same(t, 7*d.day, weeks); len(same) >= 5 {
		candidates[2] = middle(same)
	}
	use, least := level, d.errors[0]
	fade := 1 / (3 * float64(d.day))
	for i, c := range candidates {
		if math.IsNaN(c) {
			continue
		}
		if d.tried[i] > d.day && d.errors[i] < least {
			use, least = c, d.errors[i]
		}
		off := math.Abs(d.y[t] - c)
		if d.tried[i] == 0 {
			d.errors[i] = off
		}
		d.tried[i]++
		d.errors[i] += max(fade, 1/float64(d.tried[i])) * (off - d.errors[i])
	}
	return use, true
}

// same are the values at the same time of some periods before, with their neighbours.
func (d *detector) same(t, period, periods int) []float64 {
	out := d.buffer[:0]
	for k := 1; k <= periods; k++ {
		for j := -1; j <= 1; j++ {
			if at := t - k*period + j; at >= 0 && at < t && !math.IsNaN(d.y[at]) && !math.IsInf(d.y[at], 0) {
				out = append(out, d.y[at])
			}
		}
	}
	d.buffer = out
	return out
}

// recent are the recorded values of some steps.
func (d *detector) recent(from, to int) []float64 {
	out := d.buffer[:0]
	for i := max(from, 0); i < to; i++ {
		if !math.IsNaN(d.y[i]) && !math.IsInf(d.y[i], 0) {
			out = append(out, d.y[i])
		}
	}
	d.buffer = out
	return out
}

// mean of the last residuals; false where half of them are missing.
func (d *detector) mean(t, steps int) (float64, bool) {
	sum, n := 0.0, 0
	for i := max(0, t-steps+1); i <= t; i++ {
		if !math.IsNaN(d.rest[i]) {
			sum, n = sum+d.rest[i], n+1
		}
	}
	return sum / float64(n), 2*n > steps
}

// score is how far a mean is outside of what it was before, and of the farthest before.
func (d *detector) score(t, i int, m float64) float64 {
	w := &d.windows[i]
	if t%max(w.steps/2, 1) == 0 {
		w.past = append(w.past, m)
	}
	if d.scale[i] == 0 || t%max(d.day/12, 1) == 0 {
		d.rescale(i)
	}
	z := math.Abs(m) / d.scale[i]
	if math.IsNaN(z) || math.IsInf(z, 0) {
		return 0
	}
	before := 0.0
	for _, p := range w.highest {
		if t-p.at > w.steps && t-p.at <= 2*days*d.day {
			before = max(before, p.score)
		}
	}
	for n := len(w.highest); n > 0 && w.highest[n-1].score <= z; n = len(w.highest) {
		w.highest = w.highest[:n-1]
	}
	w.highest = append(w.highest, peak{t, z})
	return z / max(far, record*before)
}

// rescale is the robust deviation of the means of the last days, and no less than a fiftieth of the range of the values.
func (d *detector) rescale(i int) {
	w := &d.windows[i]
	keep := 4 * d.day / max(w.steps/2, 1)
	if len(w.past) > keep {
		w.past = slices.Delete(w.past, 0, len(w.past)-keep)
	}
	if len(d.usual) > days*d.day {
		d.usual = slices.Delete(d.usual, 0, len(d.usual)-days*d.day)
	}
	b := append(d.buffer[:0], d.usual...)
	slices.Sort(b)
	low, mid, high := b[len(b)/20], b[len(b)/2], b[len(b)-1-len(b)/20]
	floor := max((high-low)/50, math.Abs(mid)/100, 1e-12)
	b = append(b[:0], w.past...)
	for k, v := range b {
		b[k] = math.Abs(v)
	}
	d.scale[i] = floor
	if len(b) > 0 {
		d.scale[i] = max(1.4826*middle(b), floor)
	}
	d.buffer = b
}

// middle is the median of values that it reorders.
func middle(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
