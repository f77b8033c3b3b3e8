package powerfit

import (
	"errors"
	"math"
	"slices"

	"reckon/account/attribution/powermodel"
)

// Features of an additive model, if the data set has them: each
// represents a part of the machine that draws power when it works. Other columns
// (counts of interrupts, of context switches, memory in use) correlate with work
// without drawing power themselves; a model that relies on them fails on the next
// workload. They are left to the trees.
var (
	// drives may extrapolate beyond the observed range: a busier core draws more.
	drives = []string{"cpu_utilization", "cpu_cycles", "cpu_instructions", "llc_misses",
		"gpu_utilization", "gpu_cycles", "memory_controller_load", "memory_bytes"}
	// devices saturate: beyond the observed range they are assumed to draw no more.
	devices = []string{"disk_bytes", "disk_read_bytes", "disk_write_bytes", "network_bytes"}
)

// shapes returns the terms offered for feature f: a straight line and a root.
// Together they approximate every saturating curve that servers show (the second
// thread of a core, a saturated memory bus) and stay monotone with non-negative
// coefficients.
func shapes(t *table, f int) []powermodel.Term {
	s := scaleOf(t, f)
	if slices.Contains(devices, t.feats[f].Name) {
		return []powermodel.Term{{Feature: f, Shape: powermodel.ShapeRamp, From: 0, To: 1, Scale: s}}
	}
	return []powermodel.Term{
		{Feature: f, Shape: powermodel.ShapeLinear, Scale: s},
		{Feature: f, Shape: powermodel.ShapePower, Exponent: 0.5, Scale: s},
	}
}

// fitAdditive is non-negative least squares over the features that drive power,
// fitDevices the same including disks and networks. They are separate families
// because the contribution of a device is small and easily misfitted: validation shows
// whether a data set has enough of it.
func fitAdditive(t *table, _ *Options) (powermodel.Part, error) { return additive(t, drives) }

func fitDevices(t *table, _ *Options) (powermodel.Part, error) {
	for f := range t.base {
		if slices.Contains(devices, t.feats[f].Name) {
			return additive(t, append(slices.Clone(drives), devices...))
		}
	}
	return powermodel.Part{}, errNoDevice
}

// errNoDevice is why the family with devices is skipped.
var errNoDevice = errors.New("no disk or network feature")

// additive fits the features with the given names or, if a data set has only names of
// its own, all non-negative ones.
func additive(t *table, names []string) (powermodel.Part, error) {
	var terms, others []powermodel.Term
	for f := range t.base {
		if t.feats[f].Min < 0 || t.feats[f].Max <= t.feats[f].Min {
			continue
		}
		switch name := t.feats[f].Name; {
		case slices.Contains(names, name):
			terms = append(terms, shapes(t, f)...)
		case !slices.Contains(devices, name):
			others = append(others, shapes(t, f)...)
		}
	}
	if len(terms) == 0 {
		terms = others
	}
	if len(terms) == 0 {
		return powermodel.Part{}, errNoFeature
	}
	return robust(t, terms, t.weights(true)), nil
}

// robust fits terms by iterated weights that approach least absolute residuals, so
// that a few outlying rows count less.
func robust(t *table, terms []powermodel.Term, w []float64) powermodel.Part {
	p, _ := fitTerms(t, terms, w)
	again := slices.Clone(w)
	for range 8 {
		for i := range t.y {
			again[i] = w[i] / max(math.Abs(termsAt(t, &p, i)/t.y[i]-1), 0.01)
		}
		p, _ = fitTerms(t, terms, again)
	}
	return p
}
