package anomaly

import (
	"math"
	"slices"

	"reckon/internal/quantiles"
)

// Climb is a series that rises towards a limit.
type Climb struct {
	PerStep float64 // growth per step
	Steps   float64 // until the limit is reached
	Rising  int     // steps that it has risen for, at least
}

const (
	// climbing is the minimum number of steps of a rise.
	climbing = 12
	// steady is the minimum rise in robust deviations from the fitted line.
	steady = 6.0
)

// DetectClimb reports whether a series rises at its end so that it reaches limit within the given number of steps. The line through the
// last steps has the median of all slopes (Theil and Sen), so that single values have no effect. A series does not climb if it scatters
// as much as it rises. It does not climb either if it falls in between, like memory that is freed now and then.
func DetectClimb(y []float64, limit float64, within float64) (Climb, bool) {
	if len(y) < climbing || !(limit > 0) {
		return Climb{}, false
	}
	y = y[max(0, len(y)-4*climbing):]
	var slopes []float64
	for i := range y {
		for j := i + 1; j < len(y); j++ {
			if s := (y[j] - y[i]) / float64(j-i); !math.IsNaN(s) && !math.IsInf(s, 0) {
				slopes = append(slopes, s)
			}
		}
	}
	last := y[len(y)-1]
	if len(slopes) < climbing*(climbing-1)/2 || math.IsNaN(last) || last >= limit {
		return Climb{}, false
	}
	slope := quantiles.Median(slopes)
	if slope <= 0 {
		return Climb{}, false
	}
	var off []float64
	for i, v := range y {
		if !math.IsNaN(v) {
			off = append(off, v-slope*float64(i))
		}
	}
	base := quantiles.Median(slices.Clone(off))
	for i, v := range off {
		off[i] = math.Abs(v - base)
	}
	if rise := slope * float64(len(y)-1); rise < steady*quantiles.Median(off) || rise < 0.01*limit {
		return Climb{}, false
	}
	c := Climb{PerStep: slope, Steps: (limit - last) / slope}
	for near := steady*quantiles.Median(off) + slope; c.Rising < len(off) && off[len(off)-1-c.Rising] <= near; c.Rising++ {
	}
	return c, c.Steps <= within
}

// Outlier is a member of a group that differs from the others.
type Outlier struct {
	Index int
	Value float64 // its median over time
	Peers float64 // the median of the others
	Far   float64 // distance in robust deviations of the group
}

const (
	// leastPeers is the minimum size of a group.
	leastPeers = 8
	// unlike is the minimum distance in deviations, and most the minimum share of steps, for a member to differ.
	unlike, most = 6.0, 0.8
)

// FindOutliers returns the members of a group that differ from the others in nearly every step, always in the same direction.
// lines holds the values of each member at the same steps; NaN means not recorded.
func FindOutliers(lines [][]float64) []Outlier {
	if len(lines) < leastPeers || len(lines[0]) == 0 {
		return nil
	}
	steps := len(lines[0])
	above, below, seen := make([]int, len(lines)), make([]int, len(lines)), make([]int, len(lines))
	far := make([]float64, len(lines))
	var at, off []float64
	for t := range steps {
		at = at[:0]
		for _, l := range lines {
			if !math.IsNaN(l[t]) {
				at = append(at, l[t])
			}
		}
		if len(at) < leastPeers {
			continue
		}
		mid := quantiles.Median(at)
		off = off[:0]
		for _, v := range at {
			off = append(off, math.Abs(v-mid))
		}
		scale := max(1.4826*quantiles.Median(off), 0.05*math.Abs(mid), 1e-12)
		for i, l := range lines {
			if math.IsNaN(l[t]) {
				continue
			}
			seen[i]++
			z := (l[t] - mid) / scale
			far[i] += math.Abs(z)
			switch {
			case z > unlike:
				above[i]++
			case z < -unlike:
				below[i]++
			}
		}
	}
	var medians []float64
	for _, l := range lines {
		medians = append(medians, recordedMedian(l))
	}
	var out []Outlier
	for i := range lines {
		if 2*seen[i] < steps || float64(max(above[i], below[i])) < most*float64(seen[i]) {
			continue
		}
		others := slices.DeleteFunc(slices.Delete(slices.Clone(medians), i, i+1), math.IsNaN)
		out = append(out, Outlier{Index: i, Value: medians[i], Peers: quantiles.Median(others), Far: far[i] / float64(seen[i])})
	}
	return out
}

// recordedMedian returns the median of the recorded values; NaN if there are none.
func recordedMedian(v []float64) float64 {
	v = slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	if len(v) == 0 {
		return math.NaN()
	}
	return quantiles.Median(v)
}
