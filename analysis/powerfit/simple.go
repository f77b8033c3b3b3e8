package powerfit

import (
	"errors"
	"math"
	"slices"

	"reckon/account/attribution/powermodel"
)

// errNoFeature is why a family that needs a feature is skipped.
var errNoFeature = errors.New("no feature that varies")

func meanPart(t *table) powermodel.Part {
	s := 0.0
	for _, y := range t.y {
		s += y
	}
	return powermodel.Part{Kind: powermodel.KindTerms, Weight: 1, Base: s / float64(len(t.y))}
}

func fitMean(t *table, _ *Options) (powermodel.Part, error) { return meanPart(t), nil }

// fitTerms fits a base and the watts of terms, all non-negative, with relative
// errors and equal weight for every group.
func fitTerms(t *table, terms []powermodel.Term, w []float64) (powermodel.Part, *gram) {
	g := newGram(len(terms) + 1)
	x := make([]float64, len(terms)+1)
	x[0] = 1
	for i := range t.y {
		for k := range terms {
			x[k+1] = terms[k].Basis(t.x[terms[k].Feature][i])
		}
		g.add(x, t.y[i], w[i])
	}
	g.mirror()
	v := g.nnls()
	p := powermodel.Part{Kind: powermodel.KindTerms, Weight: 1, Base: v[0]}
	for k, term := range terms {
		if term.Watts = v[k+1]; term.Watts > 0 {
			p.Terms = append(p.Terms, term)
		}
	}
	return p, g
}

// fitLinear is P = base + watts * utilisation.
func fitLinear(t *table, _ *Options) (powermodel.Part, error) {
	if t.base == 0 {
		return powermodel.Part{}, errNoFeature
	}
	p, _ := fitTerms(t, []powermodel.Term{linear(t, t.primary)}, t.weights(true))
	return p, nil
}

func linear(t *table, f int) powermodel.Term {
	return powermodel.Term{Feature: f, Shape: powermodel.ShapeLinear, Scale: scaleOf(t, f)}
}

// fitRoot is P = base + a*utilisation + b*sqrt(utilisation), by utilisation alone: most
// servers rise steeply at first, as caches, memory and the uncore wake up.
func fitRoot(t *table, _ *Options) (powermodel.Part, error) {
	if t.base == 0 {
		return powermodel.Part{}, errNoFeature
	}
	root := powermodel.Term{Feature: t.primary, Shape: powermodel.ShapePower, Exponent: 0.5, Scale: scaleOf(t, t.primary)}
	return robust(t, []powermodel.Term{linear(t, t.primary), root}, t.weights(true)), nil
}

// fitPower is P = base + a*utilisation^c with c from 0.2 to 1.5.
func fitPower(t *table, _ *Options) (powermodel.Part, error) {
	if t.base == 0 {
		return powermodel.Part{}, errNoFeature
	}
	w := t.weights(true)
	best := math.Inf(1)
	var out powermodel.Part
	for c := 0.2; c < 1.51; c += 0.05 {
		term := powermodel.Term{Feature: t.primary, Shape: powermodel.ShapePower, Exponent: c, Scale: scaleOf(t, t.primary)}
		p := robust(t, []powermodel.Term{term}, w)
		if l := absoluteLoss(t, &p, w); l < best {
			best, out = l, p
		}
	}
	return out, nil
}

// absoluteLoss returns the weighted sum of relative errors of a part of terms; w are relative
// weights, as for squared errors.
func absoluteLoss(t *table, p *powermodel.Part, w []float64) float64 {
	sum := 0.0
	for i, y := range t.y {
		sum += w[i] * y * math.Abs(termsAt(t, p, i)-y)
	}
	return sum
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

// fitFan is P = idle + (busy-idle) * (2u - u^r), with fitted r (Fan et al. 2007). The
// exponent keeps the curve monotone up to full load as long as r <= 2.
func fitFan(t *table, _ *Options) (powermodel.Part, error) {
	if t.base == 0 {
		return powermodel.Part{}, errNoFeature
	}
	u, w := t.x[t.primary], t.weights(true)
	full := math.Max(1, t.feats[t.primary].Max)
	if full > 1.05 {
		full = t.feats[t.primary].Max
	}
	best := math.Inf(1)
	var out powermodel.Part
	for r := 1.05; r <= 2.001; r += 0.05 {
		g := newGram(2)
		for i := range t.y {
			x := max(u[i]/full, 0)
			g.add([]float64{1, 2*x - math.Pow(x, r)}, t.y[i], w[i])
		}
		g.mirror()
		v := g.nnls()
		if l := g.loss(v); l < best {
			best = l
			out = powermodel.Part{Kind: powermodel.KindTerms, Weight: 1, Base: v[0]}
			if v[1] > 0 {
				out.Terms = []powermodel.Term{
					{Feature: t.primary, Shape: powermodel.ShapeLinear, Scale: full, Watts: 2 * v[1]},
					{Feature: t.primary, Shape: powermodel.ShapePower, Scale: full, Exponent: r, Watts: -v[1]},
				}
			}
		}
	}
	return out, nil
}

// maxKnots limits the knots that fitPieces starts from.
const maxKnots = 10

// fitPieces is a monotone piecewise-linear curve: a sum of ramps between
// neighbouring knots with non-negative watts. Knots start at quantiles
// and are dropped one by one as long as that costs less than the penalty of the Bayesian
// information criterion for a knot.
func fitPieces(t *table, _ *Options) (powermodel.Part, error) {
	if t.base == 0 {
		return powermodel.Part{}, errNoFeature
	}
	knots := quantileKnots(t.x[t.primary])
	if len(knots) < 2 {
		return powermodel.Part{}, errNoFeature
	}
	w := t.weights(true)
	fit := func(knots []float64) (powermodel.Part, float64) {
		var terms []powermodel.Term
		for i := 1; i < len(knots); i++ {
			terms = append(terms, powermodel.Term{Feature: t.primary, Shape: powermodel.ShapeRamp,
				Scale: 1, From: knots[i-1], To: knots[i]})
		}
		p, g := fitTerms(t, terms, w)
		v := make([]float64, len(terms)+1)
		v[0] = p.Base
		for _, q := range p.Terms {
			v[slices.Index(knots, q.From)+1] = q.Watts
		}
		return p, g.loss(v)
	}
	n := float64(len(t.y))
	price := math.Log(n) / n
	part, loss := fit(knots)
	for len(knots) > 2 {
		drop, best := -1, math.Inf(1)
		var bestPart powermodel.Part
		for k := 1; k < len(knots)-1; k++ {
			p, l := fit(slices.Delete(slices.Clone(knots), k, k+1))
			if l < best {
				drop, best, bestPart = k, l, p
			}
		}
		if math.Log(max(best, 1e-12))-math.Log(max(loss, 1e-12)) > price {
			break
		}
		knots = slices.Delete(knots, drop, drop+1)
		part, loss = bestPart, best
	}
	return part, nil
}

// quantileKnots returns distinct knots from the least to the greatest value: half
// by quantile, half evenly spaced, since loads cluster.
func quantileKnots(v []float64) []float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	n := len(s)
	lo, hi := s[0], s[n-1]
	ks := []float64{lo, hi}
	for i := 1; i < maxKnots/2; i++ {
		ks = append(ks, s[i*(n-1)/(maxKnots/2)], lo+(hi-lo)*float64(i)/(maxKnots/2))
	}
	slices.Sort(ks)
	out := ks[:1]
	for _, k := range ks[1:] {
		if k-out[len(out)-1] > 0.02*(hi-lo) {
			out = append(out, k)
		}
	}
	out[len(out)-1] = hi
	if len(out) < 2 || out[0] >= hi {
		return nil
	}
	return out
}
