package compare

import "math"

// studentTail returns the probability that |T| >= t for Student's distribution with df degrees of
// freedom. It uses the incomplete beta function (Abramowitz and Stegun 26.5.27 and 26.7.1).
func studentTail(t, df float64) float64 {
	switch {
	case math.IsNaN(t) || math.IsNaN(df) || df <= 0:
		return math.NaN()
	case math.IsInf(t, 0):
		return 0
	}
	return incompleteBeta(df/2, 0.5, df/(df+t*t))
}

// studentQuantile returns the t that |T| reaches with probability p, 0 < p < 1.
func studentQuantile(p, df float64) float64 {
	low, high := 0.0, 1.0
	for studentTail(high, df) > p {
		low, high = high, 2*high
		if high > 1e12 {
			return high
		}
	}
	for range 100 {
		mid := (low + high) / 2
		if studentTail(mid, df) > p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// incompleteBeta returns the regularised incomplete beta function I_x(a, b). It evaluates the
// continued fraction (Abramowitz and Stegun 26.5.8) with Lentz's method.
func incompleteBeta(a, b, x float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2): // the fraction of the other side converges faster
		return 1 - incompleteBeta(b, a, 1-x)
	}
	lgamma := func(v float64) float64 { r, _ := math.Lgamma(v); return r }
	front := math.Exp(lgamma(a+b) - lgamma(a) - lgamma(b) + a*math.Log(x) + b*math.Log1p(-x))
	const tiny, enough = 1e-300, 1e-14
	bound := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/bound(1-(a+b)*x/(a+1))
	f := d
	for m := 1.0; m < 500; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d, c = 1/bound(1+even*d), bound(1+even/c)
		f *= d * c
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d, c = 1/bound(1+odd*d), bound(1+odd/c)
		f *= d * c
		if math.Abs(d*c-1) < enough {
			break
		}
	}
	return front * f / a
}
