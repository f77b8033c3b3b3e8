package figure

import "math"

// Known returns a figure and whether it is one: there, finite, and not negative.
func Known(v *float64) (float64, bool) {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) || *v < 0 {
		return 0, false
	}
	return *v, true
}

// WaitedFor returns who had the processors that the threads of a run waited for. "others": it had no more threads than cores, or use and
// wait together (wanted, for 95 % of the time) were within them. "own": it used all its cores. Else "either". cpu and wall are seconds.
func WaitedFor(cores, threads, wanted *float64, cpu, wall float64) string {
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
