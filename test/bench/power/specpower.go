package power

import (
	"fmt"
	"math"
	"slices"

	"reckon/analysis/powerfit"
)

// system is one SPECpower result.
type system struct {
	cpu   string
	curve powerfit.Curve
	// facts for the built-in families
	mhz, memory           float64
	cores, chips, threads int
	year                  int
}

func readSpec(dir string) ([]system, error) {
	c, err := readCSV(dir, "specpower_ssj2008_curves.csv")
	if err != nil {
		return nil, err
	}
	cpu, err := c.textColumn("cpu")
	if err != nil {
		return nil, err
	}
	out := make([]system, len(cpu))
	idle, err := c.numberColumn("p_idle_w")
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].cpu = cpu[i]
		out[i].curve = powerfit.Curve{Load: []float64{0}, Watts: []float64{idle[i]}}
	}
	for k := 10; k <= 100; k += 10 {
		w, err := c.numberColumn(fmt.Sprintf("p%d_w", k))
		if err != nil {
			return nil, err
		}
		l, err := c.numberColumn(fmt.Sprintf("load%d_pct", k))
		if err != nil {
			return nil, err
		}
		for i := range out {
			out[i].curve.Load = append(out[i].curve.Load, l[i]/100)
			out[i].curve.Watts = append(out[i].curve.Watts, w[i])
		}
	}
	return out, out2facts(c, out)
}

// fitPriors returns a prior for each system. The prior is fitted to all systems with another CPU model, so that it
// contains no measurement of the same model.
func fitPriors(systems []system) (map[string]*powerfit.Prior, error) {
	out := make(map[string]*powerfit.Prior)
	for _, s := range systems {
		if out[s.cpu] != nil {
			continue
		}
		var curves []powerfit.Curve
		for _, o := range systems {
			if o.cpu != s.cpu {
				curves = append(curves, o.curve)
			}
		}
		p, err := powerfit.NewPrior("all other CPU models", curves)
		if err != nil {
			return nil, err
		}
		out[s.cpu] = p
	}
	return out, nil
}

// interpolator returns the power of a system at load u, computed from the points with the indexes in known.
type interpolator func(s system, known []int, u float64) (float64, error)

// errorsBySystem returns, for each system, the mean absolute relative error of an interpolator over the loads of the system.
// Each split has the indices of the known loads and of the tested loads. With one tested load per split this is
// leave-one-out validation. point is the largest error of a single load.
func errorsBySystem(systems []system, splits [][2][]int, f interpolator) (mapes []float64, point float64, err error) {
	for _, s := range systems {
		sum, n := 0.0, 0.0
		for _, sp := range splits {
			for _, j := range sp[1] {
				v, err := f(s, sp[0], s.curve.Load[j])
				if err != nil {
					return nil, 0, err
				}
				e := math.Abs(v-s.curve.Watts[j]) / s.curve.Watts[j]
				point = max(point, e)
				sum, n = sum+e, n+1
			}
		}
		mapes = append(mapes, sum/n)
	}
	return mapes, point, nil
}

func fourPoints() [][2][]int {
	return [][2][]int{{{0, 1, 5, 10}, {2, 3, 4, 6, 7, 8, 9}}}
}

func leaveOneLoad() [][2][]int {
	var out [][2][]int
	for j := 1; j <= 9; j++ {
		var known []int
		for k := range 11 {
			if k != j {
				known = append(known, k)
			}
		}
		out = append(out, [2][]int{known, {j}})
	}
	return out
}

func selectIndices(v []float64, idx []int) []float64 {
	var out []float64
	for _, i := range idx {
		out = append(out, v[i])
	}
	return out
}

func piecewise(s system, known []int, u float64) (float64, error) {
	x, y := selectIndices(s.curve.Load, known), selectIndices(s.curve.Watts, known)
	i, _ := slices.BinarySearch(x, u)
	i = min(max(i, 1), len(x)-1)
	return y[i-1] + (y[i]-y[i-1])*(u-x[i-1])/(x[i]-x[i-1]), nil
}

// polynomial returns an interpolator with the least-squares polynomial of a degree. It uses QR decomposition of the
// Vandermonde matrix. The loads are centred, which keeps the matrix well conditioned.
func polynomial(degree int) interpolator {
	return func(s system, known []int, u float64) (float64, error) {
		x, y := selectIndices(s.curve.Load, known), selectIndices(s.curve.Watts, known)
		return polyAt(x, y, degree, u), nil
	}
}

// polyAt fits in an orthogonal basis (Forsythe 1957) and evaluates at u.
func polyAt(x, y []float64, degree int, u float64) float64 {
	n := len(x)
	prev, cur := make([]float64, n), make([]float64, n)
	var pu, cu float64 = 0, 1
	for i := range cur {
		cur[i] = 1
	}
	sum, normPrev := 0.0, 0.0
	for k := 0; k <= degree; k++ {
		var norm, xy, xx float64
		for i := range x {
			norm += cur[i] * cur[i]
			xy += cur[i] * y[i]
			xx += x[i] * cur[i] * cur[i]
		}
		if norm < 1e-14 {
			break
		}
		sum += xy / norm * cu
		a, b := xx/norm, 0.0
		if normPrev > 0 {
			b = norm / normPrev
		}
		next := make([]float64, n)
		for i := range x {
			next[i] = (x[i]-a)*cur[i] - b*prev[i]
		}
		pu, cu = cu, (u-a)*cu-b*pu
		prev, cur, normPrev = cur, next, norm
	}
	return sum
}

// ownFamily returns the product's curve family.
func ownFamily(by map[string]*powerfit.Prior) interpolator {
	return func(s system, known []int, u float64) (float64, error) {
		m, err := powerfit.FitCurve(by[s.cpu], powerfit.Curve{Load: selectIndices(s.curve.Load, known), Watts: selectIndices(s.curve.Watts,
			known)})
		if err != nil {
			return 0, err
		}
		return m.At(u), nil
	}
}

func median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
func mean(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x / float64(len(v))
	}
	return s
}
