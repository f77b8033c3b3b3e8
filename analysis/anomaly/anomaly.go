// Package anomaly detects anomalies in a series: values outside the envelope of the same time on earlier days, level shifts, and missing
// values where there always were some. Memory that rises towards its limit, and nodes that differ from their peers, have functions of
// their own.
//
// Every score depends only on earlier values, so that cutting off later data does not change it. The score of a value is its distance
// from the usual scatter, relative to the largest distance before. Bursts that recur every day are therefore no anomalies.
//
// The package is pure and safe for concurrent use. It uses neither files nor a clock, and returns no errors. NaN means an unrecorded
// value, with the score 0.
package anomaly

import (
	"math"
	"slices"

	"reckon/internal/quantiles"
)

// Kind is the kind of an event.
type Kind string

// Kinds of events.
const (
	High  Kind = "high"  // above the envelope
	Low   Kind = "low"   // below the envelope
	Shift Kind = "shift" // the mean over hours, rather than single values
)

// Event is one anomaly, which may consist of many values.
type Event struct {
	Kind        Kind
	First, Last int     // step indices
	Score       float64 // the highest; 1 is the default threshold
	Value       float64 // the most deviating value, or mean over hours
	Expected    float64 // the expected value at that time
}

// Config holds the thresholds.
type Config struct {
	Day int // steps per day; 0 means 24, steps of one hour
	// Threshold is the score from which a step is an anomaly; 0 means 1.
	Threshold float64
	// Quiet is the number of steps after an event within which further anomalies extend it; 0 means half a day.
	Quiet int
}

const (
	// days and weeks are the numbers of past days and weeks to compare at the same time.
	days, weeks = 7, 4
	// remembered is the number of days to compare the largest deviations of: work that comes once or twice a month is usual.
	remembered = 28
	// learn is the number of days without anomalies at the start, while the usual values are unknown.
	learn = 1.5
	// far is the minimum of an anomaly in robust deviations, and record the minimum ratio to the largest deviation before.
	far    = 5.0
	record = 1.25
)

// Detect returns the events of a series.
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
		s := d.scoreStep(t)
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

// stepScore is the score of one step.
type stepScore struct {
	score, value, expected float64
	kind                   Kind
}

// residualWindow holds the means of the residuals over a number of steps.
type residualWindow struct {
	steps   int
	past    []float64 // means, taken every steps/2 steps
	recent  []peak    // of the last steps, by time
	highest [2][]peak // peaks of earlier steps that no later one exceeded, in descending order; separate for comparisons with weeks
}

type peak struct {
	at    int
	score float64
	weeks int // 1 if it is the distance from the weeks before
}

type detector struct {
	y, rest []float64
	day     int
	errors  [3]float64 // running means: last day, same time of days before, of weeks before
	tried   [3]int
	weeks   int // 1 if the last step was compared with the weeks before
	windows [3]residualWindow
	usual   []float64 // values of the last days, for the minimum scale
	scale   [3]float64
	floor   float64 // least scale, of the values up to floorAt
	floorAt int
	buffer  []float64
}

func newDetector(y []float64, c Config) *detector {
	day := c.Day
	if day <= 0 {
		day = 24
	}
	d := &detector{y: y, rest: make([]float64, len(y)), day: day}
	d.windows = [3]residualWindow{{steps: 1}, {steps: max(day/24, 2)}, {steps: max(day/4, 3)}}
	return d
}

// scoreStep scores one step; steps must be scored in order.
func (d *detector) scoreStep(t int) stepScore {
	v := d.y[t]
	if math.IsNaN(v) || math.IsInf(v, 0) {
		d.rest[t] = math.NaN()
		return stepScore{}
	}
	expected, ok := d.expectedAt(t)
	d.usual = append(d.usual, v)
	if !ok {
		d.rest[t] = math.NaN()
		return stepScore{}
	}
	d.rest[t] = v - expected
	best := stepScore{expected: expected, value: v}
	for i := range d.windows {
		m, value, ok := d.residualMeans(t, d.windows[i].steps)
		if !ok {
			continue
		}
		if score := d.scoreMean(t, i, m); score > best.score {
			best = stepScore{score, value, value - m, Shift}
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

// expectedAt returns the value expected at step t, and whether one is known. Candidates are the medians of the last day, of the same time
// on previous days, and of the same time in previous weeks. It chooses the candidate with the smallest error so far.
func (d *detector) expectedAt(t int) (float64, bool) {
	d.buffer = d.buffer[:0]
	last := d.appendRecorded(t-d.day, t)
	if len(last) < d.day/4 || len(last) < 6 {
		return 0, false
	}
	level := quantiles.Median(last)
	candidates := [3]float64{level, math.NaN(), math.NaN()}
	if same := d.sameTimes(t, d.day, days); len(same) >= 3 {
		candidates[1] = quantiles.Median(same)
	}
	if same := d.sameTimes(t, 7*d.day, weeks); len(same) >= 5 {
		candidates[2] = quantiles.Median(same)
	}
	use, least := level, d.errors[0]
	d.weeks = 0
	fade := 1 / (3 * float64(d.day))
	for i, c := range candidates {
		if math.IsNaN(c) {
			continue
		}
		if d.tried[i] > d.day && d.errors[i] < least {
			use, least, d.weeks = c, d.errors[i], i/2
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

// sameTimes returns the values at the same time of earlier periods, with their neighbours.
func (d *detector) sameTimes(t, period, periods int) []float64 {
	d.buffer = d.buffer[:0]
	for k := 1; k <= periods; k++ {
		d.appendRecorded(t-k*period-1, min(t-k*period+2, t))
	}
	return d.buffer
}

// appendRecorded appends the recorded values of a range of steps to the buffer.
func (d *detector) appendRecorded(from, to int) []float64 {
	for i := max(from, 0); i < to; i++ {
		if !math.IsNaN(d.y[i]) && !math.IsInf(d.y[i], 0) {
			d.buffer = append(d.buffer, d.y[i])
		}
	}
	return d.buffer
}

// residualMeans returns the means of the last residuals and of their values, or false if half of them are missing.
func (d *detector) residualMeans(t, steps int) (rest, value float64, ok bool) {
	n := 0.0
	for i := max(0, t-steps+1); i <= t; i++ {
		if !math.IsNaN(d.rest[i]) {
			rest, value, n = rest+d.rest[i], value+d.y[i], n+1
		}
	}
	return rest / n, value / n, 2*n > float64(steps)
}

// scoreMean returns the deviation of a mean from earlier ones, relative to the largest deviation before.
func (d *detector) scoreMean(t, i int, m float64) float64 {
	w := &d.windows[i]
	if t%max(w.steps/2, 1) == 0 {
		w.past = append(w.past, m)
	}
	if d.scale[i] == 0 || t%max(d.day/12, 1) == 0 {
		d.computeScale(t, i)
	}
	z := math.Abs(m) / d.scale[i]
	if math.IsNaN(z) || math.IsInf(z, 0) {
		return 0
	}
	before := 0.0
	for len(w.recent) > 0 && t-w.recent[0].at > w.steps {
		p := w.recent[0]
		h := &w.highest[p.weeks]
		for n := len(*h); n > 0 && (*h)[n-1].score <= p.score; n = len(*h) {
			*h = (*h)[:n-1]
		}
		*h, w.recent = append(*h, p), w.recent[1:]
	}
	// The distance of weekends from weekdays is irrelevant once weekends are compared.
	for _, h := range w.highest[d.weeks:] {
		for _, p := range h {
			if t-p.at <= remembered*d.day {
				before = max(before, p.score)
			}
		}
	}
	w.recent = append(w.recent, peak{t, z, d.weeks})
	return z / max(far, record*before)
}

// computeScale sets the robust deviation of the means of the last days. It is at least a fiftieth of the range of the
// values.
func (d *detector) computeScale(t, i int) {
	w := &d.windows[i]
	keep := 4 * d.day / max(w.steps/2, 1)
	if len(w.past) > keep {
		w.past = slices.Delete(w.past, 0, len(w.past)-keep)
	}
	if d.floorAt != t || d.floor == 0 {
		if len(d.usual) > days*d.day {
			d.usual = slices.Delete(d.usual, 0, len(d.usual)-days*d.day)
		}
		b := append(d.buffer[:0], d.usual...)
		slices.Sort(b)
		low, mid, high := b[len(b)/20], b[len(b)/2], b[len(b)-1-len(b)/20]
		d.floor, d.floorAt, d.buffer = max((high-low)/50, math.Abs(mid)/100, 1e-12), t, b
	}
	b := append(d.buffer[:0], w.past...)
	for k, v := range b {
		b[k] = math.Abs(v)
	}
	d.scale[i] = d.floor
	if len(b) > 0 {
		d.scale[i] = max(1.4826*quantiles.Median(b), d.floor)
	}
	d.buffer = b
}
