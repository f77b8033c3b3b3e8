package scaling

import (
	"math"
	"slices"
)

// Work is a run with the CPU time that it took.
type Work struct {
	Cores, Seconds, CPUSeconds float64
}

// Weak is what runs show whose CPU time grows in step with their cores while the time
// they take hardly changes. Figures are medians of the runs at a size.
type Weak struct {
	From, To float64 // the fewest and the most cores
	Growth   float64 // CPU time with the most cores over that with the fewest
	// Efficiency is the time with the fewest cores over that with the most: 1 where work
	// that grows with the cores takes as long.
	Efficiency float64
	Runs       int
	Sizes      int
}

// Weak scaling is said of runs whose CPU time grows by at least inStep decades per decade
// of cores, while their time falls by less than level decades: with the same work both
// would be 0 and -1 at best, with work in step with the cores 1 and 0.
const (
	inStep = 0.75
	level  = 0.25
)

// SeeWeak reports whether runs look like work that grows with the cores. ok is false
// where they do not, or where fewer than two sizes have CPU times.
func SeeWeak(runs []Work) (w Weak, ok bool) {
	by := map[float64][2][]float64{}
	for _, r := range runs {
		if r.Cores >= 1 && r.Seconds > 0 && r.CPUSeconds > 0 && !math.IsInf(r.Seconds+r.CPUSeconds+r.Cores, 0) {
			l := by[r.Cores]
			by[r.Cores] = [2][]float64{append(l[0], r.Seconds), append(l[1], r.CPUSeconds)}
			w.Runs++
		}
	}
	if len(by) < 2 {
		return Weak{}, false
	}
	var n, seconds, cpu []float64
	for c := range by {
		n = append(n, c)
	}
	slices.Sort(n)
	for _, c := range n {
		seconds, cpu = append(seconds, median(by[c][0])), append(cpu, median(by[c][1]))
	}
	last := len(n) - 1
	w.Sizes, w.From, w.To = len(n), n[0], n[last]
	w.Growth, w.Efficiency = cpu[last]/cpu[0], seconds[0]/seconds[last]
	return w, slope(n, cpu) >= inStep && slope(n, seconds) > -level
}

func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// slope is that of the line through the logarithms, by least squares.
func slope(x, y []float64) float64 {
	mx, my := 0.0, 0.0
	for i := range x {
		mx, my = mx+math.Log(x[i])/float64(len(x)), my+math.Log(y[i])/float64(len(x))
	}
	up, down := 0.0, 0.0
	for i := range x {
		dx := math.Log(x[i]) - mx
		up, down = up+dx*(math.Log(y[i])-my), down+dx*dx
	}
	return up / down
}

// JudgeWeak is Judge for runs that look like weak scaling. No law of the same work is
// claimed: by their times alone they would seem to be serial altogether.
func JudgeWeak(u Use, w Weak) []Verdict {
	j := judge{u: u}
	j.causes(j.held())
	severity := "info"
	if w.Efficiency >= 0.8 {
		severity = "good"
	}
	j.say("weak", severity, w.Efficiency, "ratio",
		"%s take %s times the CPU time of %s, in %s of the time (%s at %d sizes): if the work grew with the cores (weak scaling), they work with %s of the efficiency of %s; if it did not, cores wait busily and more of them do not help. Which of both, CPU time can not show, so no serial share is claimed",
		cores(w.To), number(w.Growth), cores(w.From), percent(1/w.Efficiency), plural(w.Runs, "run", "runs"), w.Sizes, percent(w.Efficiency), cores(w.From))
	return j.out
}
