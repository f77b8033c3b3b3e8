// Package scaling determines the scaling of work from its runs at different sizes: by Amdahl's law
// (a serial fraction bounds the speed-up) and by Gunther's Universal Scalability Law (communication
// and coherency make more cores slower).
//
// Both are fitted to the wall time T at n cores, as n T(n) = T1 (1 + s (n-1) + k n (n-1)), with s,
// k >= 0 and Amdahl's k = 0, by least squares of the relative error, so that long runs do not
// dominate short ones. Times are in seconds. A law is claimed only if the runs could have
// contradicted it ([Compare]); otherwise the result is an [ErrTooFew] or a sentence with the
// reason, never a guess. The package is pure and safe for concurrent use.
package scaling

import (
	"errors"
	"fmt"
	"math"
)

// ErrTooFew is wrapped by the error for runs that cannot determine the law.
var ErrTooFew = errors.New("too few sizes")

// Run is one run.
type Run struct {
	Size    float64  // allocated cores or GPUs, 1 or more
	Seconds float64  // wall time, above 0
	Used    *float64 // CPU time, or GPU time, in seconds; nil when not measured
	Waited  bool     // its threads waited for cores for a large share of their time
}

// Fit is a law with its parameters.
type Fit struct {
	Serial    float64 // serial share of the one-core work (contention)
	Crosstalk float64 // communication cost per pair of cores; 0 in Amdahl's law
	OneCore   float64 // seconds on one core
	Sizes     int     // distinct numbers of cores
	// Error is the typical relative distance of a run from the law. It is NaN if there are no more
	// sizes than parameters, because any such law fits exactly.
	Error float64
	// SerialLow and SerialHigh bound the serial fraction over the fits that leave out one size
	// each. They are NaN if too few sizes remain.
	SerialLow, SerialHigh float64
}

// Amdahl fits the serial fraction; it needs two sizes, and three for the error.
func Amdahl(runs []Run) (Fit, error) { return fitLaw(runs, 2) }

// USL fits serial fraction and crosstalk; it needs three sizes, and four for the error.
func USL(runs []Run) (Fit, error) { return fitLaw(runs, 3) }

// Speedup returns the ratio of the speeds on n cores and on one.
func (f Fit) Speedup(n float64) float64 {
	return n / (1 + f.Serial*(n-1) + f.Crosstalk*n*(n-1))
}

// Limit returns the highest speed-up by the law and the number of cores that reaches it. For Amdahl's law that number
// is +Inf, because each further core helps a little less.
func (f Fit) Limit() (speedup, cores float64) {
	if f.Crosstalk > 0 {
		cores = max(1, math.Sqrt(max(0, 1-f.Serial)/f.Crosstalk))
		return f.Speedup(cores), cores
	}
	return 1 / f.Serial, math.Inf(1)
}

func fitLaw(runs []Run, parameters int) (Fit, error) {
	sizes := map[float64]bool{}
	for i, r := range runs {
		if !(r.Size >= 1) || !(r.Seconds > 0) || math.IsInf(r.Size, 0) || math.IsInf(r.Seconds, 0) {
			return Fit{}, fmt.Errorf("run %d: %g cores for %g s; give at least 1 core and a time above 0", i+1, r.Size, r.Seconds)
		}
		sizes[r.Size] = true
	}
	if len(sizes) < parameters {
		return Fit{}, fmt.Errorf("%w: %d of the %d numbers of cores that it takes to see how it scales", ErrTooFew, len(sizes), parameters)
	}
	f := solveLaw(runs, parameters)
	f.Sizes, f.SerialLow, f.SerialHigh = len(sizes), math.NaN(), math.NaN()
	if len(sizes) == parameters {
		f.Error = math.NaN()
		return f, nil
	}
	f.SerialLow, f.SerialHigh = f.Serial, f.Serial
	for size := range sizes {
		rest := make([]Run, 0, len(runs))
		for _, r := range runs {
			if r.Size != size {
				rest = append(rest, r)
			}
		}
		s := solveLaw(rest, parameters).Serial
		f.SerialLow, f.SerialHigh = min(f.SerialLow, s), max(f.SerialHigh, s)
	}
	return f, nil
}

// solveLaw returns the best law with non-negative parameters: the best of all fits with some parameters set to zero.
func solveLaw(runs []Run, parameters int) Fit {
	best, least := Fit{}, math.Inf(1)
	for _, use := range [][]int{{0}, {0, 1}, {0, 2}, {0, 1, 2}} {
		if use[len(use)-1] >= parameters {
			continue
		}
		c, ok := leastSquares(runs, use)
		if !ok || !(c[0] > 0) || c[1] < 0 || c[2] < 0 {
			continue
		}
		sum := 0.0
		for _, r := range runs {
			d := c[0]*equationTerm(r, 0) + c[1]*equationTerm(r, 1) + c[2]*equationTerm(r, 2) - 1
			sum += d * d
		}
		if sum < least {
			least = sum
			best = Fit{OneCore: c[0], Serial: min(1, c[1]/c[0]), Crosstalk: c[2] / c[0],
				Error: math.Sqrt(sum / float64(max(1, len(runs)-parameters)))}
		}
	}
	return best
}

// equationTerm returns a column of the equation for a run, divided by its n T.
func equationTerm(r Run, column int) float64 {
	w := 1 / (r.Size * r.Seconds)
	switch column {
	case 1:
		return w * (r.Size - 1)
	case 2:
		return w * r.Size * (r.Size - 1)
	}
	return w
}

// leastSquares solves for the coefficients of the columns in use. It applies modified Gram-Schmidt, which stays precise
// if columns differ by many powers of ten.
func leastSquares(runs []Run, use []int) (c [3]float64, ok bool) {
	k := len(use)
	q := make([][]float64, k)
	var r [3][3]float64
	var y [3]float64
	for j, column := range use {
		q[j] = make([]float64, len(runs))
		for i := range runs {
			q[j][i] = equationTerm(runs[i], column)
		}
		whole := vectorNorm(q[j])
		for p := range j {
			for i := range runs {
				r[p][j] += q[p][i] * q[j][i]
			}
			for i := range runs {
				q[j][i] -= r[p][j] * q[p][i]
			}
		}
		if r[j][j] = vectorNorm(q[j]); !(r[j][j] > 1e-10*whole) {
			return c, false // the runs do not distinguish these columns
		}
		for i := range runs {
			q[j][i] /= r[j][j]
			y[j] += q[j][i] // the right-hand side is 1 for each run
		}
	}
	for j := k - 1; j >= 0; j-- {
		for p := j + 1; p < k; p++ {
			y[j] -= r[j][p] * y[p]
		}
		y[j] /= r[j][j]
		c[use[j]] = y[j]
	}
	return c, true
}

func vectorNorm(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}
