package forecast

import (
	"cmp"
	"math"
	"slices"
)

// maxAnalogs is the number of past times that a forecast by analogs uses.
const maxAnalogs = 10

// analog is a past time similar to the present.
type analog struct {
	at       int     // first step after it
	distance float64 // weighted sum of absolute differences
	level    float64 // mean of its window
}

// forecastByAnalogs forecasts the next steps of y from the past times that were most similar to its last window steps. Each
// forecast is the weighted median of the values that followed, with more weight for more similar times. If level is set, it
// compares shapes: it subtracts the mean of each window and adds the mean of the last one. It returns nil if there are too few
// similar times.
func forecastByAnalogs(y []float64, window, steps int, level bool) []float64 {
	if window < 2 || len(y) < window+steps+2*maxAnalogs {
		return nil
	}
	last := y[len(y)-window:]
	now := 0.0
	if level {
		now = mean(last)
	}
	found := nearestTimes(y, last, steps, now, level)
	out, at := make([]float64, steps), make([]weighted, len(found))
	for k := range out {
		for i, a := range found {
			at[i] = weighted{y[a.at+k] + now - a.level, 1 / (a.distance + found[0].distance/10 + 1e-300)}
		}
		out[k] = weightedMedian(at)
	}
	return out
}

// nearestTimes returns the times in y with the window most similar to last, the most similar first. Each must be followed by
// the given number of known steps. Later steps of a window count more. level is as in [forecastByAnalogs].
func nearestTimes(y, last []float64, steps int, now float64, level bool) []analog {
	window := len(last)
	sum := 0.0
	for _, v := range y[:window] {
		sum += v
	}
	found, farthest := make([]analog, 0, maxAnalogs+1), math.Inf(1)
	for at := window; at+steps <= len(y); at++ {
		a := analog{at: at}
		if level {
			a.level = sum / float64(window)
		}
		shift := now - a.level
		for i, v := range y[at-window : at] {
			d := v + shift - last[i]
			if d < 0 {
				d = -d
			}
			if a.distance += float64(i+1) * d; a.distance >= farthest {
				break
			}
		}
		if a.distance < farthest {
			i, _ := slices.BinarySearchFunc(found, a, func(x, y analog) int { return cmp.Compare(x.distance, y.distance) })
			if found = slices.Insert(found, i, a); len(found) >= maxAnalogs {
				found = found[:maxAnalogs]
				farthest = found[maxAnalogs-1].distance
			}
		}
		if at < len(y) {
			sum += y[at] - y[at-window]
		}
	}
	return found
}

type weighted struct{ value, weight float64 }

// weightedMedian returns the weighted median and may reorder the values.
func weightedMedian(v []weighted) float64 {
	slices.SortFunc(v, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	half := 0.0
	for _, x := range v {
		half += x.weight / 2
	}
	for _, x := range v {
		if half -= x.weight; half <= 0 {
			return x.value
		}
	}
	return v[len(v)-1].value
}
