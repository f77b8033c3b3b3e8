package stress

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Constant returns a program of one step.
func Constant(l Level, d time.Duration) Program {
	return Program{Steps: []Step{{l, d}}}
}

// Ramp returns a program of n steps of equal length from one fraction of a level to another. 1 is the full level.
func Ramp(l Level, from, to float64, n int, d time.Duration) (Program, error) {
	lengths, err := splitDuration(d, n)
	if err != nil {
		return Program{}, err
	}
	var p Program
	for i, length := range lengths {
		f := from
		if n > 1 {
			f += (to - from) * float64(i) / float64(n-1)
		}
		p.Steps = append(p.Steps, Step{l.Scale(f), length})
	}
	return p, nil
}

// Random returns a program of n steps with a total length of d. In each step every resource has an independent random
// fraction of its level in l. The same seed always gives the same program.
func Random(l Level, n int, d time.Duration, seed uint64) (Program, error) {
	lengths, err := splitDuration(d, n)
	if err != nil {
		return Program{}, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x7265636b6f6e)) // the second word is fixed, so that the seed is one number
	var p Program
	for _, length := range lengths {
		step := Step{Duration: length}
		for r := range l {
			// Draw for every resource, so that adding one does not change the others.
			step.Level[r] = l[r] * rng.Float64()
		}
		p.Steps = append(p.Steps, step)
	}
	return p, nil
}

// splitDuration cuts d into n parts that differ by at most a nanosecond.
func splitDuration(d time.Duration, n int) ([]time.Duration, error) {
	if n < 1 || n > maxSteps {
		return nil, fmt.Errorf("%d steps: give 1 to %d", n, maxSteps)
	}
	if d < time.Duration(n)*time.Millisecond {
		return nil, fmt.Errorf("%d steps in %s: a step lasts a millisecond at least", n, d)
	}
	out := make([]time.Duration, n)
	var begin time.Duration
	for i := range out {
		// i+1 parts of n, without overflow.
		end := d/time.Duration(n)*time.Duration(i+1) + d%time.Duration(n)*time.Duration(i+1)/time.Duration(n)
		out[i], begin = end-begin, end
	}
	return out, nil
}
