package powerfit

import (
	"errors"
	"math"
)

// normalEquations holds the normal equations of a weighted least-squares problem: A = X'WX, b = X'Wy, c = y'Wy.
type normalEquations struct {
	n int
	a []float64
	b []float64
	c float64
}

func newNormalEquations(n int) *normalEquations {
	return &normalEquations{n: n, a: make([]float64, n*n), b: make([]float64, n)}
}

// addRow adds one row with weight w to the upper triangle.
func (g *normalEquations) addRow(x []float64, y, w float64) {
	for i, xi := range x {
		if xi == 0 {
			continue
		}
		wx := w * xi
		row := g.a[i*g.n:]
		for j := i; j < g.n; j++ {
			row[j] += wx * x[j]
		}
		g.b[i] += wx * y
	}
	g.c += w * y * y
}

// fillLower fills the lower triangle.
func (g *normalEquations) fillLower() {
	for i := range g.n {
		for j := range i {
			g.a[i*g.n+j] = g.a[j*g.n+i]
		}
	}
}

var errSingular = errors.New("equations have no unique solution")

// solve returns the least-squares solution for the columns in set. It uses a Cholesky decomposition with a relative
// ridge, which keeps nearly equal columns apart.
func (g *normalEquations) solve(set []int, ridge float64) ([]float64, error) {
	k := len(set)
	l := make([]float64, k*k)
	for i := range k {
		for j := range i + 1 {
			s := g.a[set[i]*g.n+set[j]]
			if i == j {
				s += ridge * s
			}
			for m := range j {
				s -= l[i*k+m] * l[j*k+m]
			}
			if i != j {
				l[i*k+j] = s / l[j*k+j]
				continue
			}
			if s <= 0 || math.IsNaN(s) {
				return nil, errSingular
			}
			l[i*k+i] = math.Sqrt(s)
		}
	}
	x := make([]float64, k)
	for i := range k {
		s := g.b[set[i]]
		for m := range i {
			s -= l[i*k+m] * x[m]
		}
		x[i] = s / l[i*k+i]
	}
	for i := k - 1; i >= 0; i-- {
		s := x[i]
		for m := i + 1; m < k; m++ {
			s -= l[m*k+i] * x[m]
		}
		x[i] = s / l[i*k+i]
	}
	return x, nil
}

// ridge is the relative ridge on the diagonal of the normal equations.
const ridge = 1e-6

// nnls solves g for non-negative coefficients (Lawson and Hanson, 1974, on the normal equations).
func (g *normalEquations) nnls() []float64 {
	v := make([]float64, g.n)
	in := make([]bool, g.n)
	for range 3 * g.n {
		// The gradient shows which inactive coefficient would help most.
		best, at := 1e-10, -1
		for i := range g.n {
			if in[i] || g.a[i*g.n+i] <= 0 {
				continue
			}
			d := g.b[i]
			for j, vj := range v {
				d -= g.a[i*g.n+j] * vj
			}
			if d /= math.Sqrt(g.a[i*g.n+i] * max(g.c, 1e-300)); d > best {
				best, at = d, i
			}
		}
		if at < 0 {
			return v
		}
		in[at] = true
		if !g.moveFeasible(v, in) {
			in[at] = false
			return v
		}
	}
	return v
}

// moveFeasible moves v to the best point on the active columns, and drops columns that would become negative on the way.
func (g *normalEquations) moveFeasible(v []float64, in []bool) bool {
	for {
		var set []int
		for i, ok := range in {
			if ok {
				set = append(set, i)
			}
		}
		if len(set) == 0 {
			return true
		}
		s, err := g.solve(set, ridge)
		if err != nil {
			return false
		}
		step, hit := 1.0, -1
		for k, i := range set {
			if s[k] <= 0 {
				if a := v[i] / (v[i] - s[k]); a < step || hit < 0 {
					step, hit = min(step, a), i
				}
			}
		}
		for k, i := range set {
			v[i] += step * (s[k] - v[i])
		}
		if hit < 0 {
			return true
		}
		v[hit], in[hit] = 0, false
	}
}
