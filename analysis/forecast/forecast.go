// Package forecast extrapolates one series: a value for each step of the horizon, a band that should contain 95 % of
// the future values, and the size of the error on the series' own past.
//
// Every method forecasts from the last three origins, using only earlier values. The answer is close to the median of
// all methods, with weights that fall with their error there. Seasons (day, week, and one other period) are detected by
// autocorrelation, not assumed. The band is conformal: quantiles of the errors on the past, not of a distribution.
// Methods: seasonal naive of day and week; medians of the last hours and day, of weeks, and day level with a 7-day
// profile of medians; medians of what followed similar times (analogs, Lorenz 1969); STL, of two seasons MSTL (Bandara
// et al. 2021), with damped exponential smoothing (Cleveland et al. 1990; Hyndman et al. 2008) and with Theta
// (Assimakopoulos and Nikolopoulos 2000).
//
// The package is pure and safe for concurrent use, and returns no errors: a series with too little history gets a
// simple answer and a flag. Results are finite, never below Floor, never above Capacity.
package forecast

import (
	"math"
	"time"
)

// Input is one series with a regular step. NaN or an infinite value is an unrecorded step.
type Input struct {
	Values []float64
	Start  time.Time // of the first step
	Step   time.Duration
	// Location is the time zone of the people with the days and weeks that shape the series; nil is UTC.
	Location *time.Location
	Horizon  int // steps
	// Floor and Capacity bound the forecast; a Capacity of 0 means no upper bound, Unbounded no floor.
	Floor, Capacity float64
	Unbounded       bool
}

// Result is the forecast of the steps that follow the input.
type Result struct {
	Point, Low, High []float64 // the median; Low to High should contain 95 % of the future values
	Mean             []float64 // the expected value: for sums over the steps, such as a day's energy
	Models           []string  // methods with the most weight, in descending order
	Seasons          []time.Duration
	Flags            Flags
	// BacktestMAE is the mean absolute error at the last origins, NaN without any. NaiveMAE is the
	// error of the seasonal naive forecast on the same steps. Origins is their number.
	BacktestMAE, NaiveMAE float64
	Origins               int
}

// Flags describe limitations of the history or the forecast.
type Flags uint16

// Flags; a forecast may have several.
const (
	NoHistory   Flags = 1 << iota // no sample: the forecast is the floor, and meaningless
	Short                         // less than two days
	Constant                      // the same value throughout
	Gaps                          // a tenth or more was not recorded
	Stale                         // the last steps were not recorded
	LevelShift                    // the level of the last days differs from before
	Spike                         // single values far from all others were removed
	ClockChange                   // daylight saving time begins or ends in the history or the horizon
	Clipped                       // floor or capacity limits the forecast
	Seasonless                    // no season was detected
	flagsEnd
)

var flagNames = [...]string{"no-history", "short", "constant", "gaps", "stale", "level-shift", "spike", "clock-change", "clipped",
	"seasonless"}

// Names lists the flags that are set.
func (f Flags) Names() []string {
	var out []string
	for i, n := range flagNames {
		if f&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return out
}

const (
	origins    = 3
	maxHistory = 42 // days: more costs time and is from another season of the year
	named      = 3  // methods named in an answer
)

// Run forecasts one series.
func Run(in Input) Result {
	h := max(in.Horizon, 0)
	p := prepareHistory(in)
	r := Result{Flags: p.flags, BacktestMAE: math.NaN(), NaiveMAE: math.NaN()}
	switch {
	case p.flags&NoHistory != 0:
		r.Point, r.Mean, r.Low, r.High = repeatValue(in.floor(), h), repeatValue(in.floor(), h), repeatValue(in.floor(), h),
			repeatValue(in.ceiling(), h)
		return r.clipToRange(in)
	case p.flags&Constant != 0 && p.flags&Short == 0:
		r.Models = []string{naive.name}
		r.Point, r.Mean = repeatValue(p.y[0], h), repeatValue(p.y[0], h)
		r.Low, r.High = repeatValue(p.y[0], h), repeatValue(p.y[0], h)
		return r.clipToRange(in)
	}
	past := newHistory(p)
	if len(past.periods) == 0 {
		r.Flags |= Seasonless
	}
	for _, m := range past.periods {
		r.Seasons = append(r.Seasons, time.Duration(m)*in.Step)
	}
	if hasLevelShift(p) {
		r.Flags |= LevelShift
	}
	need := p.slotsAhead(in)
	t := backtest(past, need)
	t.combineMethods(past, need, &r)
	t.setBand(past, need, &r)
	r.Point, r.Mean, r.Low, r.High = p.selectSteps(in, r.Point), p.selectSteps(in, r.Mean), p.selectSteps(in, r.Low), p.selectSteps(in,
		r.High)
	return r.clipToRange(in)
}

func (in Input) floor() float64 {
	if in.Unbounded {
		return math.Inf(-1)
	}
	return in.Floor
}

func (in Input) ceiling() float64 {
	if in.Capacity > 0 {
		return in.Capacity
	}
	return math.Inf(1)
}

// clipToRange clips to floor and capacity, and replaces values that are not finite.
func (r Result) clipToRange(in Input) Result {
	low, high := in.floor(), in.ceiling()
	for i := range r.Point {
		if r.Point[i] < low || r.Point[i] > high {
			r.Flags |= Clipped
		}
		r.Point[i] = clampFinite(clamp(r.Point[i], low, high))
		r.Low[i] = min(clampFinite(clamp(r.Low[i], low, high)), r.Point[i])
		r.High[i] = max(clampFinite(clamp(r.High[i], low, high)), r.Point[i])
		r.Mean[i] = clampFinite(clamp(r.Mean[i], low, high))
	}
	return r
}

func clamp(v, low, high float64) float64 { return min(max(v, low), high) }

// clampFinite clamps numbers to a range that can be added without overflow, and replaces NaN by 0.
func clampFinite(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return clamp(v, -math.MaxFloat64/1e6, math.MaxFloat64/1e6)
}

func repeatValue(v float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}
