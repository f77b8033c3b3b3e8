package findings

import "math"

// line holds a figure step by step, with NaN for unknown. A nil line is unknown everywhere.
type line []float64

// add adds the value of one of several series to a step.
func (l *line) add(steps, i int, v float64) {
	if *l == nil {
		*l = make(line, steps)
		for k := range *l {
			(*l)[k] = math.NaN()
		}
	}
	if old := (*l)[i]; math.IsNaN(old) {
		(*l)[i] = v
	} else {
		(*l)[i] = old + v
	}
}

// scaled multiplies all steps.
func (l line) scaled(by float64) line {
	for i := range l {
		l[i] *= by
	}
	return l
}

// divideBy divides l by another line step by step. A step is unknown if one of the values is, or if the
// divisor is zero.
func (l line) divideBy(by line) line {
	if l == nil || by == nil {
		return nil
	}
	out := make(line, len(l))
	for i := range l {
		if out[i] = l[i] / by[i]; math.IsInf(out[i], 0) {
			out[i] = math.NaN()
		}
	}
	return out
}

// addLine adds two lines by step. A step is unknown if it is unknown in either line.
func (l line) addLine(o line) line {
	if l == nil || o == nil {
		return nil
	}
	out := make(line, len(l))
	for i := range l {
		out[i] = l[i] + o[i]
	}
	return out
}

// spans splits a time range, in milliseconds, into the steps of a grid that starts at from. It
// calls take with each step and the seconds of it that the range covers.
func spans(from, step int64, steps int, t0, t int64, take func(i int, seconds float64)) {
	t0, t = max(t0, from), min(t, from+step*int64(steps))
	for t0 < t {
		i := (t0 - from) / step
		end := min(from+(i+1)*step, t)
		take(int(i), float64(end-t0)/1000)
		t0 = end
	}
}
