package rank

import (
	"cmp"
	"math"
	"slices"
)

// Load is the power of a node at a share of its cores in use, with a mean number of busy GPUs (0 if it has none).
type Load struct{ Share, Watts, GPUs float64 }

const (
	// leastLoads and leastSpread are the minimum number of hours, and the minimum range of use, for fitting a curve.
	leastLoads  = 24
	leastSpread = 0.1
	// leastGPUs is the minimum standard deviation of the number of busy GPUs for estimating their power.
	leastGPUs = 0.05
)

// GPUWatts returns the watts that a busy GPU adds to the power of a node. It fits watts = a + b·share + g·GPUs by least
// squares over the hours of the node's load. It returns 0 if there are too few hours, GPU use is constant or collinear
// with core use, or power does not rise.
func GPUWatts(loads []Load) float64 {
	loads = usableLoads(loads)
	var n, mx, mg, mw float64
	for _, l := range loads {
		n++
		mx, mg, mw = mx+(l.Share-mx)/n, mg+(l.GPUs-mg)/n, mw+(l.Watts-mw)/n
	}
	if n < leastLoads {
		return 0
	}
	var xx, gg, xg, xw, gw float64
	for _, l := range loads {
		x, g, w := l.Share-mx, l.GPUs-mg, l.Watts-mw
		xx, gg, xg, xw, gw = xx+x*x, gg+g*g, xg+x*g, xw+x*w, gw+g*w
	}
	det := xx*gg - xg*xg
	switch {
	case gg <= leastGPUs*leastGPUs*n:
		return 0
	case xx <= 0: // the use of cores was constant
		return max(gw/gg, 0)
	case det <= 0.05*xx*gg:
		return 0
	}
	return max((xx*gw-xg*xw)/det, 0)
}

// FitCurve fits a power curve to the hours of a node, without the power of its GPUs. The curve is the mean power in
// each twentieth of use, made monotone (isotonic regression), with straight lines outside the observed range. ok is
// false if there are too few hours or all have the same load.
func FitCurve(loads []Load) (Curve, bool) {
	loads = usableLoads(loads)
	gpu := GPUWatts(loads)
	for i := range loads {
		loads[i].Watts = max(loads[i].Watts-gpu*loads[i].GPUs, 0)
	}
	if len(loads) < leastLoads {
		return Curve{}, false
	}
	slices.SortFunc(loads, func(a, b Load) int { return cmp.Compare(a.Share, b.Share) })
	low, high := loads[len(loads)/50].Share, loads[len(loads)-1-len(loads)/50].Share
	if high-low < leastSpread {
		return Curve{}, false
	}
	bins := poolLoads(loads)
	if len(bins) < 2 {
		return Curve{}, false
	}
	var c Curve
	for i := range c {
		// Below the observed range the line must not fall under half of the lowest observed power: machines draw power when idle.
		c[i] = max(powerAt(bins, float64(i)/10), bins[0].Watts/2)
	}
	return c, c.Known()
}

// usableLoads returns the loads that are usable for a curve.
func usableLoads(loads []Load) []Load {
	return slices.DeleteFunc(slices.Clone(loads), func(l Load) bool {
		return !(l.Share >= 0 && l.Share <= 1.1 && l.Watts > 0 && l.GPUs >= 0) || math.IsInf(l.Watts, 0)
	})
}

// loadBin is a set of merged loads.
type loadBin struct {
	Load
	n float64
}

// poolLoads averages loads by twentieths of use and merges neighbours until power rises with use.
func poolLoads(loads []Load) []loadBin {
	var bins []loadBin
	for i := 0; i < len(loads); {
		end := (math.Floor(loads[i].Share*20) + 1) / 20
		b := loadBin{}
		for ; i < len(loads) && loads[i].Share < end; i++ {
			b.n++
			b.Share += (loads[i].Share - b.Share) / b.n
			b.Watts += (loads[i].Watts - b.Watts) / b.n
		}
		if b.n == 0 { // a share at the upper edge of its bin, by rounding
			b = loadBin{loads[i], 1}
			i++
		}
		bins = append(bins, b)
		for k := len(bins) - 1; k > 0 && bins[k-1].Watts > bins[k].Watts; k-- {
			a, b := bins[k-1], bins[k]
			n := a.n + b.n
			bins[k-1] = loadBin{Load{Share: (a.Share*a.n + b.Share*b.n) / n, Watts: (a.Watts*a.n + b.Watts*b.n) / n}, n}
			bins = bins[:k]
		}
	}
	return bins
}

// powerAt returns the power in watts at a share of busy cores. It interpolates between bins. Outside, it extends the
// line through the first or the last bin.
func powerAt(bins []loadBin, share float64) float64 {
	first, last := bins[0], bins[len(bins)-1]
	slope := (last.Watts - first.Watts) / (last.Share - first.Share)
	switch {
	case share <= first.Share:
		return first.Watts + slope*(share-first.Share)
	case share >= last.Share:
		return last.Watts + slope*(share-last.Share)
	}
	i := 1
	for bins[i].Share < share {
		i++
	}
	a, b := bins[i-1], bins[i]
	return a.Watts + (b.Watts-a.Watts)*(share-a.Share)/(b.Share-a.Share)
}

// Line returns the curve of a node from its idle power and the power at one load.
func Line(idle float64, at Load) (Curve, bool) {
	if !(idle > 0) || !(at.Watts > idle) || !(at.Share >= 0.05) {
		return Curve{}, false
	}
	var c Curve
	for i := range c {
		c[i] = idle + (at.Watts-idle)*float64(i)/10/at.Share
	}
	return c, true
}
