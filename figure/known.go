package figure

import "math"

// Known returns a figure and whether it is valid: present, finite, and not negative.
func Known(v *float64) (float64, bool) {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) || *v < 0 {
		return 0, false
	}
	return *v, true
}

// WaitCause returns what used the processors that a run's threads waited for. "others" means that the run had no more
// threads than cores, or that its use plus wait (wanted, for 95 % of the time) fitted the cores. "own" means that it
// used all its cores. In all other cases it returns "either". cpu and wall are seconds.
func WaitCause(cores, threads, wanted *float64, cpu, wall float64) string {
	given, ok := Known(cores)
	most, counted := Known(threads)
	want, ran := Known(wanted)
	switch {
	case !ok || given <= 0:
	case counted && most <= given, ran && want <= 1.1*given: // by buckets of a tenth
		return "others"
	case cpu >= 0.9*given*wall:
		return "own"
	}
	return "either"
}
