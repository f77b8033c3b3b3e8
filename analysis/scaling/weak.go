package scaling

import (
	"maps"
	"math"
	"slices"

	"reckon/figure"
	"reckon/internal/phrase"
	"reckon/internal/quantiles"
)

// Weak is the result for runs that show weak scaling: the CPU time grows in proportion to the cores while the wall time
// hardly changes. Figures are medians of the runs at a size.
type Weak struct {
	From, To float64 // fewest and most cores
	Growth   float64 // CPU time with the most cores over that with the fewest
	// Efficiency is the time with the fewest cores over the time with the most. It is 1 if work
	// that grows with the cores takes equally long.
	Efficiency float64
	Runs       int
	Sizes      int
}

// Weak scaling is reported if CPU time grows by at least inStep decades per decade of cores,
// while wall time falls by less than level decades. The ideal values are 0 and -1 for a fixed
// amount of work, and 1 and 0 for work proportional to the cores.
const (
	inStep = 0.75
	level  = 0.25
)

// detectWeak returns the weak scaling of runs. ok is false if the work of the runs does not grow with the cores, or if
// fewer than two sizes have CPU times.
func detectWeak(runs []Run) (w Weak, ok bool) {
	by := map[float64][2][]float64{}
	for _, r := range runs {
		used, ok := figure.Known(r.Used)
		if ok && r.Size >= 1 && r.Seconds > 0 && used > 0 && !math.IsInf(r.Seconds+used+r.Size, 0) {
			l := by[r.Size]
			by[r.Size] = [2][]float64{append(l[0], r.Seconds), append(l[1], used)}
			w.Runs++
		}
	}
	if len(by) < 2 {
		return Weak{}, false
	}
	var n, seconds, cpu []float64
	n = slices.AppendSeq(n, maps.Keys(by))
	slices.Sort(n)
	for _, c := range n {
		seconds, cpu = append(seconds, quantiles.Median(by[c][0])), append(cpu, quantiles.Median(by[c][1]))
	}
	last := len(n) - 1
	w.Sizes, w.From, w.To = len(n), n[0], n[last]
	w.Growth, w.Efficiency = cpu[last]/cpu[0], seconds[0]/seconds[last]
	return w, logSlope(n, cpu) >= inStep && logSlope(n, seconds) > -level
}

// logSlope returns the slope of the least-squares line through the logarithms.
func logSlope(x, y []float64) float64 {
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

// reportWeak reports runs that look like weak scaling. It claims no law of fixed work, because by their
// times alone they would seem entirely serial.
func (c *comparison) reportWeak(w Weak, words phrase.Words) {
	severity := "info"
	if w.Efficiency >= 0.8 {
		severity = "good"
	}
	words["growth"], words["slower"], words["efficiency"] = formatAmount(w.Growth, "ratio"), formatAmount(1/w.Efficiency, "ratio"),
		phrase.Percent(w.Efficiency)
	c.addVerdict("weak", severity, w.Efficiency, "ratio", "weak", words)
}
