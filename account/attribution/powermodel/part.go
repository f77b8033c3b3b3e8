package powermodel

import (
	"math"
	"sort"
)

// The kinds of Part.
const (
	KindTerms = "terms"
	KindCurve = "curve"
	KindTrees = "trees"
)

// Part is one function of the features. Kind determines the fields in use.
type Part struct {
	Kind   string  `json:"kind"`
	Weight float64 `json:"weight"`
	// Base is the watts of terms and trees when every feature adds nothing.
	Base  float64 `json:"base_watts,omitempty"`
	Terms []Term  `json:"terms,omitempty"`
	Curve *Curve  `json:"curve,omitempty"`
	Trees *Trees  `json:"trees,omitempty"`
}

// The shapes of a Term. Each maps a feature to a plain number that is 0 for 0.
const (
	ShapeLinear = "linear" // x
	ShapePower  = "power"  // max(x,0)^Exponent
	ShapeRamp   = "ramp"   // 0 up to From, 1 from To on, linear between
)

// Term adds Watts times the shape of one feature divided by Scale.
type Term struct {
	Feature  int     `json:"feature"`
	Shape    string  `json:"shape"`
	Scale    float64 `json:"scale"`
	Exponent float64 `json:"exponent,omitempty"`
	From     float64 `json:"from,omitempty"`
	To       float64 `json:"to,omitempty"`
	Watts    float64 `json:"watts"`
}

// Basis returns the shape of the term at feature value v, without its watts.
func (t *Term) Basis(v float64) float64 {
	v /= t.Scale
	switch t.Shape {
	case ShapePower:
		if v <= 0 {
			return 0
		}
		if t.Exponent == 0.5 {
			return math.Sqrt(v)
		}
		return math.Pow(v, t.Exponent)
	case ShapeRamp:
		return min(max((v-t.From)/(t.To-t.From), 0), 1)
	}
	return v
}

// Curve is a smooth function of one feature: a cubic Hermite spline through (X, Y) with the given
// slopes, extended as a straight line at both ends.
type Curve struct {
	Feature int       `json:"feature"`
	X       []float64 `json:"x"`
	Y       []float64 `json:"y"`
	Slope   []float64 `json:"slope"`
}

// At returns the curve at v.
func (c *Curve) At(v float64) float64 {
	n := len(c.X)
	if v <= c.X[0] {
		return c.Y[0] + c.Slope[0]*(v-c.X[0])
	}
	if v >= c.X[n-1] {
		return c.Y[n-1] + c.Slope[n-1]*(v-c.X[n-1])
	}
	i := sort.SearchFloat64s(c.X, v)
	h := c.X[i] - c.X[i-1]
	t := (v - c.X[i-1]) / h
	u := 1 - t
	return u*u*((1+2*t)*c.Y[i-1]+t*h*c.Slope[i-1]) + t*t*((1+2*u)*c.Y[i]-u*h*c.Slope[i])
}

// NewCurve returns the monotone cubic curve through the points (PCHIP, with Fritsch and Carlson's
// slope limits). It never overshoots the points. X must increase.
func NewCurve(feature int, x, y []float64) *Curve {
	n := len(x)
	c := &Curve{Feature: feature, X: x, Y: y, Slope: make([]float64, n)}
	if n < 2 {
		return c
	}
	secant := func(i int) float64 { return (y[i+1] - y[i]) / (x[i+1] - x[i]) }
	for i := 1; i < n-1; i++ {
		a, b := secant(i-1), secant(i)
		if a*b <= 0 {
			continue
		}
		h0, h1 := x[i]-x[i-1], x[i+1]-x[i]
		c.Slope[i] = 3 * (h0 + h1) / ((2*h1+h0)/a + (h1+2*h0)/b)
	}
	if n == 2 {
		c.Slope[0], c.Slope[1] = secant(0), secant(0)
		return c
	}
	c.Slope[0] = endSlope(x[1]-x[0], x[2]-x[1], secant(0), secant(1))
	c.Slope[n-1] = endSlope(x[n-1]-x[n-2], x[n-2]-x[n-3], secant(n-2), secant(n-3))
	return c
}

// endSlope returns the one-sided three-point slope at an end of the curve, limited so that the curve stays monotone.
func endSlope(h0, h1, d0, d1 float64) float64 {
	s := ((2*h0+h1)*d0 - h0*d1) / (h0 + h1)
	if s*d0 <= 0 {
		return 0
	}
	if d0*d1 <= 0 && math.Abs(s) > 3*math.Abs(d0) {
		return 3 * d0
	}
	return s
}

// Trees is a sum of regression trees over one array of nodes. A node with Left 0 is a leaf, and
// children follow their parent. Every node stores its mean in Value, so that the path down a tree
// shows the contribution of each feature.
type Trees struct {
	Roots   []int     `json:"roots"`
	Feature []int     `json:"feature"`
	Split   []float64 `json:"split"`
	Left    []int     `json:"left"`
	Right   []int     `json:"right"`
	Value   []float64 `json:"value"`
}

// childNode returns the child of node n for x: the left child if the feature is not above the split.
func (t *Trees) childNode(n int, x []float64) int {
	if x[t.Feature[n]] <= t.Split[n] {
		return t.Left[n]
	}
	return t.Right[n]
}

// Sum returns the sum of the leaves that x falls into.
func (t *Trees) Sum(x []float64) float64 {
	s := 0.0
	for _, n := range t.Roots {
		for t.Left[n] != 0 {
			n = t.childNode(n, x)
		}
		s += t.Value[n]
	}
	return s
}

func (p *Part) evaluate(x []float64) float64 {
	switch p.Kind {
	case KindCurve:
		return p.Curve.At(x[p.Curve.Feature])
	case KindTrees:
		return p.Base + p.Trees.Sum(x)
	}
	w := p.Base
	for i := range p.Terms {
		t := &p.Terms[i]
		w += t.Watts * t.Basis(x[t.Feature])
	}
	return w
}

func (p *Part) explain(x, watts []float64, weight float64) (base float64) {
	switch p.Kind {
	case KindCurve:
		base = p.Curve.Y[0]
		watts[p.Curve.Feature] += weight * (p.Curve.At(x[p.Curve.Feature]) - base)
	case KindTrees:
		base = p.Base
		t := p.Trees
		for _, n := range t.Roots {
			base += t.Value[n]
			for t.Left[n] != 0 {
				c := t.childNode(n, x)
				watts[t.Feature[n]] += weight * (t.Value[c] - t.Value[n])
				n = c
			}
		}
	default:
		base = p.Base
		for i := range p.Terms {
			t := &p.Terms[i]
			watts[t.Feature] += weight * t.Watts * t.Basis(x[t.Feature])
		}
	}
	return weight * base
}
