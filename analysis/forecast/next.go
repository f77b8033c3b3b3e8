package forecast

import (
	"math"
	"slices"
)

// Next is what the next run of a work that is run again and again will take, by one figure of its runs.
type Next struct {
	Point, Low, High float64 // the median, and between which nine in ten runs lay
	Runs             int     // it rests on
	// Error is the median relative error that the same forecast would have made for each run from those before it;
	// NaN for fewer than four runs.
	Error float64
}

// nextRuns is on how many runs a forecast rests: work changes.
const nextRuns = 20

// NextRun forecasts the figure of the next run from those of the runs so far, the latest first. Values that are not finite
// or below 0 were not measured and do not count. False without any.
func NextRun(latestFirst []float64) (Next, bool) {
	var runs []float64
	for _, v := range latestFirst {
		if !math.IsNaN(v) && !math.IsInf(v, 0) && v >= 0 {
			runs = append(runs, v)
		}
	}
	if len(runs) == 0 {
		return Next{}, false
	}
	n := Next{Error: math.NaN()}
	window := runs[:min(nextRuns, len(runs))]
	n.Runs = len(window)
	n.Point = level(window)
	sorted := slices.Sorted(slices.Values(window))
	n.Low, n.High = min(quantile(sorted, 0.05), n.Point), max(quantile(sorted, 0.95), n.Point)
	if len(window) < 4 {
		return n, true
	}
	var off []float64
	for i := 0; i+1 < len(window); i++ {
		before := window[i+1:]
		if f := level(before); f > 0 || window[i] > 0 {
			off = append(off, math.Abs(window[i]-f)/max(f, window[i]))
		}
	}
	if len(off) > 0 {
		n.Error = median(off)
	}
	return n, true
}

// level is the median of the last five runs: of fewer where there are no more.
func level(latestFirst []float64) float64 {
	return median(slices.Clone(latestFirst[:min(5, len(latestFirst))]))
}

// quantile of sorted values, between them by a line.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
