package powerfit

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"reckon/account/attribution/powermodel"
)

// Prior is the distribution of power curves over many servers, used as a prior for a single curve.
// It has the mean and the covariance of log power minus its mean over the knots, at fixed
// utilisations. Given a few measured points, the rest of the curve is the conditional mean of a
// normal distribution (kriging with an unknown level).
type Prior struct {
	// Source describes the data of the prior.
	Source string `json:"source"`
	// Systems is the number of curves it is based on.
	Systems int `json:"systems"`
	// Knots are utilisations from 0 to 1.
	Knots []float64   `json:"knots"`
	Mean  []float64   `json:"mean"`
	Cov   [][]float64 `json:"cov"`
}

//go:embed prior.json
var priorJSON []byte

// DefaultPrior returns the prior derived from published SPECpower_ssj2008 results. It contains
// statistics over all systems, not results of single ones.
func DefaultPrior() (*Prior, error) {
	p := new(Prior)
	if err := json.Unmarshal(priorJSON, p); err != nil {
		return nil, fmt.Errorf("read built-in prior: %w", err)
	}
	return p, nil
}

// Curve is the power of one machine at several utilisations, in increasing order.
type Curve struct {
	Load  []float64 // 0 to 1
	Watts []float64
}

// PriorKnots returns the utilisations that SPECpower measures at.
func PriorKnots() []float64 {
	return []float64{0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}
}

// NewPrior learns a prior from curves that span idle to full load.
func NewPrior(source string, curves []Curve) (*Prior, error) {
	p := &Prior{Source: source, Knots: PriorKnots()}
	k := len(p.Knots)
	var z [][]float64
	for i, c := range curves {
		if len(c.Load) < 4 || len(c.Load) != len(c.Watts) {
			return nil, fmt.Errorf("curve %d has %d loads and %d powers, want equal numbers, at least 4: %w", i, len(c.Load), len(c.Watts),
				ErrData)
		}
		logs := make([]float64, len(c.Watts))
		for j, w := range c.Watts {
			if w <= 0 || math.IsNaN(w) || j > 0 && c.Load[j] <= c.Load[j-1] {
				return nil, fmt.Errorf("curve %d, point %d: power must be positive and loads increase: %w", i, j, ErrData)
			}
			logs[j] = math.Log(w)
		}
		s := powermodel.NewCurve(0, c.Load, logs)
		row, mean := make([]float64, k), 0.0
		for j, u := range p.Knots {
			row[j] = s.At(u)
			mean += row[j] / float64(k)
		}
		for j := range row {
			row[j] -= mean
		}
		z = append(z, row)
	}
	if len(z) < 2*k {
		return nil, fmt.Errorf("%d curves are too few for a prior, want %d: %w", len(z), 2*k, ErrData)
	}
	p.Systems = len(z)
	p.Mean = make([]float64, k)
	for _, row := range z {
		for j, v := range row {
			p.Mean[j] += v / float64(len(z))
		}
	}
	for i := range k {
		p.Cov = append(p.Cov, make([]float64, k))
		for j := range k {
			for _, row := range z {
				p.Cov[i][j] += (row[i] - p.Mean[i]) * (row[j] - p.Mean[j]) / float64(len(z)-1)
			}
		}
	}
	return p, nil
}

// knotWeights returns the weights of the two knots around u.
func (p *Prior) knotWeights(u float64) (i int, left, right float64) {
	n := len(p.Knots)
	i = min(max(0, int(u*float64(n-1))), n-2)
	t := (u - p.Knots[i]) / (p.Knots[i+1] - p.Knots[i])
	return i, 1 - t, t
}

// covariance returns the prior covariance of log power at u and v.
func (p *Prior) covariance(u, v float64) float64 {
	i, il, ir := p.knotWeights(u)
	j, jl, jr := p.knotWeights(v)
	return il*(jl*p.Cov[i][j]+jr*p.Cov[i][j+1]) + ir*(jl*p.Cov[i+1][j]+jr*p.Cov[i+1][j+1])
}

func (p *Prior) meanAt(u float64) float64 {
	i, l, r := p.knotWeights(u)
	return l*p.Mean[i] + r*p.Mean[i+1]
}

// levelVariance is the variance of the logarithm of a curve's level. It is so large that the level is practically
// unknown: a factor of e to the fifth in either direction.
const levelVariance = 25

// Complete returns the power at the knots of the prior for measured points. load and watts are the points, and variance
// is the variance of their logarithms. The curve falls only where the points fall.
func (p *Prior) Complete(load, watts, variance []float64) ([]float64, error) {
	n := len(load)
	if n == 0 {
		return nil, fmt.Errorf("no points to complete a curve from: %w", ErrData)
	}
	level := 0.0
	for _, w := range watts {
		level += math.Log(w) / float64(n)
	}
	g := newNormalEquations(n)
	set := make([]int, n)
	for i := range n {
		set[i] = i
		for j := range n {
			g.a[i*n+j] = p.covariance(load[i], load[j]) + levelVariance
		}
		g.a[i*n+i] += variance[i]
		g.b[i] = math.Log(watts[i]) - level - p.meanAt(load[i])
	}
	k, err := g.solve(set, 0)
	if err != nil {
		return nil, fmt.Errorf("complete a curve from %d points: %w", n, err)
	}
	out := make([]float64, len(p.Knots))
	for j, u := range p.Knots {
		v := p.Mean[j] + level
		for i := range n {
			v += k[i] * (p.covariance(u, load[i]) + levelVariance)
		}
		out[j] = math.Exp(v)
	}
	if isRising(load, watts) {
		makeMonotone(out)
	}
	return out, nil
}

// isRising reports whether the power never falls by more than 1 % as the load grows.
func isRising(load, watts []float64) bool {
	order := make([]int, len(load))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmpFloat(load[a], load[b]) })
	top := 0.0
	for _, i := range order {
		if watts[i] < 0.99*top {
			return false
		}
		top = max(top, watts[i])
	}
	return true
}

// makeMonotone replaces v by the nearest non-decreasing sequence (pool adjacent violators).
func makeMonotone(v []float64) {
	type block struct {
		sum float64
		n   int
	}
	var bs []block
	for _, x := range v {
		bs = append(bs, block{x, 1})
		for len(bs) > 1 {
			a, b := bs[len(bs)-2], bs[len(bs)-1]
			if a.sum*float64(b.n) <= b.sum*float64(a.n) {
				break
			}
			bs = append(bs[:len(bs)-2], block{a.sum + b.sum, a.n + b.n})
		}
	}
	i := 0
	for _, b := range bs {
		for range b.n {
			v[i] = b.sum / float64(b.n)
			i++
		}
	}
}

// pointNoise is the standard deviation of the logarithm of one careful reading.
const pointNoise = 0.003

// errNotRatio is the reason for skipping the curve family.
var errNotRatio = errors.New("the utilisation feature is not a ratio from 0 to 1")

// fitCurve fits power as a function of the table's utilisation. Between the measured points the curve follows o.Prior, the
// curves of known servers. Tables with many rows are first reduced to means over bins of utilisation.
func fitCurve(t *table, o *Options) (powermodel.Part, error) {
	if t.base == 0 {
		return powermodel.Part{}, errNoFeature
	}
	f := t.feats[t.primary]
	if f.Min < 0 || f.Max > 1.05 || f.Max < 0.05 {
		return powermodel.Part{}, errNotRatio
	}
	load, watts, variance := calibration(t)
	v, err := o.Prior.Complete(load, watts, variance)
	if err != nil {
		return powermodel.Part{}, err
	}
	return powermodel.Part{Kind: powermodel.KindCurve, Weight: 1,
		Curve: powermodel.NewCurve(t.primary, slices.Clone(o.Prior.Knots), v)}, nil
}

// calibration returns the points for fitting a curve. If the rows are few, it returns the rows. Otherwise it returns
// the means of 40 bins of utilisation, in which all groups count equally. The spread between the rows of a bin gives
// the variance.
func calibration(t *table) (load, watts, variance []float64) {
	u := t.x[t.primary]
	if len(u) <= fewRows {
		for i := range u {
			load, watts = append(load, min(max(u[i], 0), 1)), append(watts, t.y[i])
			variance = append(variance, pointNoise*pointNoise)
		}
		return load, watts, variance
	}
	const bins = 40
	w := t.rowWeights(false)
	var sw, su, sy, sq [bins]float64
	for i, v := range u {
		v = min(max(v, 0), 1)
		b := min(int(v*bins), bins-1)
		y := math.Log(t.y[i])
		sw[b] += w[i]
		su[b] += w[i] * v
		sy[b] += w[i] * y
		sq[b] += w[i] * y * y
	}
	var within, all float64
	for b := range bins {
		if sw[b] > 0 {
			within += max(0, sq[b]-sy[b]*sy[b]/sw[b])
			all += sw[b]
		}
	}
	for b := range bins {
		if sw[b] > 0 {
			load, watts = append(load, su[b]/sw[b]), append(watts, math.Exp(sy[b]/sw[b]))
			// Rows of one group are far from independent: a group is worth about one reading.
			variance = append(variance, pointNoise*pointNoise+within/all/max(1, sw[b]/all*float64(len(t.names))))
		}
	}
	return load, watts, variance
}

// FitCurve completes the curve of one machine from a few measured points.
func FitCurve(p *Prior, points Curve) (*powermodel.Curve, error) {
	if len(points.Load) != len(points.Watts) {
		return nil, fmt.Errorf("%d loads and %d powers: %w", len(points.Load), len(points.Watts), ErrData)
	}
	variance := make([]float64, len(points.Load))
	for i, u := range points.Load {
		if !(u >= 0 && u <= 1.05) || !(points.Watts[i] > 0) || math.IsInf(points.Watts[i], 0) {
			return nil, fmt.Errorf("point %d (load %g, %g W): want a load from 0 to 1 and a positive power: %w", i+1, u, points.Watts[i],
				ErrData)
		}
		variance[i] = pointNoise * pointNoise
	}
	v, err := p.Complete(points.Load, points.Watts, variance)
	if err != nil {
		return nil, err
	}
	return powermodel.NewCurve(0, slices.Clone(p.Knots), v), nil
}
