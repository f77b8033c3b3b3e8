package powerfit

import (
	"errors"
	"math"

	"reckon/account/attribution/powermodel"
)

// errNoFeature is the reason for skipping a family that needs a feature.
var errNoFeature = errors.New("no feature that varies")

func meanPart(t *table) powermodel.Part {
	s := 0.0
	for _, y := range t.y {
		s += y
	}
	return powermodel.Part{Kind: powermodel.KindTerms, Weight: 1, Base: s / float64(len(t.y))}
}

func fitMean(t *table, _ *Options) (powermodel.Part, error) { return meanPart(t), nil }

// fitTerms fits a base power and the watts of each term, all non-negative. It minimises relative errors, with the same
// weight for every group; w holds the row weights.
func fitTerms(t *table, terms []powermodel.Term, w []float64) powermodel.Part {
	g := newNormalEquations(len(terms) + 1)
	x := make([]float64, len(terms)+1)
	x[0] = 1
	for i := range t.y {
		for k := range terms {
			x[k+1] = terms[k].Basis(t.x[terms[k].Feature][i])
		}
		g.addRow(x, t.y[i], w[i])
	}
	g.fillLower()
	v := g.nnls()
	p := powermodel.Part{Kind: powermodel.KindTerms, Weight: 1, Base: v[0]}
	for k, term := range terms {
		if term.Watts = v[k+1]; term.Watts > 0 {
			p.Terms = append(p.Terms, term)
		}
	}
	return p
}

func linearTerm(t *table, f int) powermodel.Term {
	return powermodel.Term{Feature: f, Shape: powermodel.ShapeLinear, Scale: scaleOf(t, f)}
}

// fitRoot fits P = base + a*utilisation + b*sqrt(utilisation). Most servers rise steeply at first,
// as caches, memory and the uncore wake up.
func fitRoot(t *table, _ *Options) (powermodel.Part, error) {
	if t.base == 0 {
		return powermodel.Part{}, errNoFeature
	}
	root := powermodel.Term{Feature: t.primary, Shape: powermodel.ShapePower, Exponent: 0.5, Scale: scaleOf(t, t.primary)}
	return fitRobustly(t, []powermodel.Term{linearTerm(t, t.primary), root}, t.rowWeights(true)), nil
}

// termsAt evaluates a part of terms for row i.
func termsAt(t *table, p *powermodel.Part, i int) float64 {
	v := p.Base
	for k := range p.Terms {
		v += p.Terms[k].Watts * p.Terms[k].Basis(t.x[p.Terms[k].Feature][i])
	}
	return v
}

// scaleOf returns the divisor that scales a feature to about 1; it is never zero.
func scaleOf(t *table, f int) float64 {
	if s := max(math.Abs(t.feats[f].Max), math.Abs(t.feats[f].Min)); s > 0 {
		return s
	}
	return 1
}
