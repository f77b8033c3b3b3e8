package forecast

import (
	"math"
	"slices"

	"reckon/internal/quantiles"
)

// Next forecasts one figure of the next run of recurring work.
type Next struct {
	Point, Low, High float64 // the median, and the interval that contained nine of ten runs
	Runs             int     // number of runs it is based on
	// Error is the median relative error of the same forecast for each run from those before it;
	// NaN for fewer than four runs.
	Error float64
}

// nextRuns is the maximum number of runs that a forecast is based on: work changes.
const nextRuns = 20

// NextRun forecasts a figure of the next run from its values in past runs, the latest first. Values that are negative
// or not finite count as unmeasured. ok is false if all are unmeasured.
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
	n.Low, n.High = min(quantiles.Linear(sorted, 0.05), n.Point), max(quantiles.Linear(sorted, 0.95), n.Point)
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
		n.Error = quantiles.Median(off)
	}
	return n, true
}

// level returns the median of the last five runs, or of all if there are fewer.
func level(latestFirst []float64) float64 {
	return quantiles.Median(slices.Clone(latestFirst[:min(5, len(latestFirst))]))
}
