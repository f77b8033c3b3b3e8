package feature

import (
	"math"
	"slices"

	"reckon/metric"
)

// Live computes a feature from the samples of an agent.
type Live struct {
	factors []liveFactor
	value   float64
	known   bool
	found   bool
}

// liveFactor is the state of one factor.
type liveFactor struct {
	Factor
	// fits caches, by description, the indices of the labels to check; nil for other metrics.
	fits map[*metric.Desc][]int
	// last is the last value of every series of a rate, with the turn in which it was present.
	last map[*metric.Series]lastValue
	turn int
	at   float64 // seconds
	sum  float64
	n    int
}

type lastValue struct {
	value float64
	turn  int
}

// NewLive returns a reader of f. A feature without factors never has a value.
func NewLive(f Feature) *Live {
	l := &Live{}
	for _, x := range f.Factors {
		l.factors = append(l.factors, liveFactor{Factor: x,
			fits: make(map[*metric.Desc][]int), last: make(map[*metric.Series]lastValue)})
	}
	return l
}

// Observe records the samples of one reading. seconds is the time of the reading, counted from any fixed instant.
// Samples of other series are ignored. A series that is missing from one reading starts again.
func (l *Live) Observe(seconds float64, samples []metric.Sample) {
	l.value, l.known, l.found = 1, len(l.factors) > 0, len(l.factors) > 0
	for i := range l.factors {
		f := &l.factors[i]
		v, ok := f.observe(seconds, samples)
		l.found = l.found && f.n > 0
		if f.Divide {
			v = 1 / v
		}
		l.value *= v
		l.known = l.known && ok && !math.IsInf(v, 0) && !math.IsNaN(v)
	}
}

// Value returns the value at the last reading. known is false if the value cannot be computed yet, because a rate needs
// two readings.
func (l *Live) Value() (v float64, known bool) { return l.value, l.known }

// Found reports whether the last reading had series for every factor.
func (l *Live) Found() bool { return l.found }

func (f *liveFactor) observe(seconds float64, samples []metric.Sample) (value float64, ok bool) {
	f.sum, f.n = 0, 0
	f.turn++
	rated := 0
	for i := range samples {
		s := &samples[i]
		if s.Histogram != nil || s.Last || math.IsNaN(s.Value) || !f.includes(s.Series) {
			continue
		}
		f.n++
		if !f.Rate {
			f.sum += s.Value
			continue
		}
		was, ok := f.last[s.Series]
		f.last[s.Series] = lastValue{s.Value, f.turn}
		if !ok || was.turn != f.turn-1 {
			continue
		}
		rated++
		if s.Value >= was.value {
			f.sum += s.Value - was.value
		} else {
			f.sum += s.Value // counter reset
		}
	}
	if f.Rate {
		return f.computeRate(seconds, rated)
	}
	if f.Mean {
		f.sum /= float64(f.n)
	}
	return f.sum, f.n > 0
}

// computeRate ends a reading and returns the increase per second. series is the number of series in the sum.
func (f *liveFactor) computeRate(seconds float64, series int) (value float64, ok bool) {
	span := seconds - f.at
	f.at = seconds
	if len(f.last) > 2*f.n+16 {
		for s, c := range f.last {
			if c.turn != f.turn {
				delete(f.last, s)
			}
		}
	}
	v := f.sum / span
	if f.Mean {
		v /= float64(series)
	}
	return v, series > 0 && span > 0
}

// includes reports whether a series is part of the factor.
func (f *liveFactor) includes(s *metric.Series) bool {
	at, seen := f.fits[s.Desc]
	if !seen {
		if slices.Contains(f.Series, s.Desc.Name) {
			at = []int{}
			for _, m := range f.Match {
				at = append(at, slices.Index(s.Desc.Labels, m.Label))
			}
		}
		f.fits[s.Desc] = at
	}
	if at == nil {
		return false
	}
	for k := range f.Match {
		value := ""
		if at[k] >= 0 {
			value = s.Values[at[k]]
		}
		if !f.Match[k].matches(value) {
			return false
		}
	}
	return true
}

// Series lists the metric names that the feature is computed from.
func (l *Live) Series() []string {
	var out []string
	for i := range l.factors {
		out = append(out, l.factors[i].Factor.Series...)
	}
	return out
}
