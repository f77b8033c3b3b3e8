package powerfit

import (
	"math"
	"slices"
	"strings"

	"reckon/account/attribution/powermodel"
)

// drives lists the features of an additive model, if the data set has them. Each stands for a part of the machine that
// draws power when it works, so the model may extrapolate in them. Other columns accompany work but draw little power
// themselves: interrupts, context switches, memory in use, disk and network traffic. A model based on them fails on the
// next workload, so they are left to the trees.
var drives = []string{"cpu_utilization", "cpu_cycles", "cpu_instructions", "llc_misses",
	"gpu_utilization", "gpu_cycles", "memory_controller_load", "memory_bytes"}

// shapes returns the terms for feature f: a straight line and a root. Together they approximate
// every saturating curve that servers show (the second thread of a core, a saturated memory bus)
// and stay monotone with non-negative coefficients.
func shapes(t *table, f int) []powermodel.Term {
	s := scaleOf(t, f)
	return []powermodel.Term{
		{Feature: f, Shape: powermodel.ShapeLinear, Scale: s},
		{Feature: f, Shape: powermodel.ShapePower, Exponent: 0.5, Scale: s},
	}
}

// fitAdditive fits power to the features in drives by non-negative least squares. If the data set has none of these, it
// uses all non-negative features except disk and network traffic.
func fitAdditive(t *table, _ *Options) (powermodel.Part, error) {
	var terms, others []powermodel.Term
	for f := range t.base {
		if t.feats[f].Min < 0 || t.feats[f].Max <= t.feats[f].Min {
			continue
		}
		switch name := t.feats[f].Name; {
		case slices.Contains(drives, name):
			terms = append(terms, shapes(t, f)...)
		case !strings.HasPrefix(name, "disk_") && !strings.HasPrefix(name, "network_"):
			others = append(others, shapes(t, f)...)
		}
	}
	if len(terms) == 0 {
		terms = others
	}
	if len(terms) == 0 {
		return powermodel.Part{}, errNoFeature
	}
	return fitRobustly(t, terms, t.rowWeights(true)), nil
}

// fitRobustly fits terms with iterated weights that approach least absolute residuals, so that outlying rows count less.
func fitRobustly(t *table, terms []powermodel.Term, w []float64) powermodel.Part {
	p := fitTerms(t, terms, w)
	again := slices.Clone(w)
	for range 8 {
		for i := range t.y {
			again[i] = w[i] / max(math.Abs(termsAt(t, &p, i)/t.y[i]-1), 0.01)
		}
		p = fitTerms(t, terms, again)
	}
	return p
}
