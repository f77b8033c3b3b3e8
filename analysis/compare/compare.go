// Package compare decides whether two measurements differ or the difference is noise. Consecutive values of one run are
// correlated, so a test that assumes independence would report differences everywhere. The effective number of
// independent values is therefore estimated first. All functions are pure.
package compare

import "math"

// Least is the minimum number of independent values per side: with fewer, the spread is unknown.
const Least = 3

// Verdicts.
const (
	Differs  = "differs"
	Noise    = "noise"
	Untested = "untested"
)

// Names of tests.
const (
	Welch    = "Welch's t-test, corrected for autocorrelation"
	WelchRun = "Welch's t-test between runs"
	OneRun   = "t-test of one run against several"
	Paired   = "paired t-test"
	Constant = "none needed: no value varies"
)

// Result compares B with A.
type Result struct {
	A, B      float64 // means
	Low, High float64 // interval of B - A; NaN without a test
	P         float64 // NaN without a test
	Effective float64 // independent values on the side with fewer
	Test      string
	Verdict   string
	Why       string // why there was no test
}

// meanEstimate is a mean with its variance and the degrees of freedom of that variance.
type meanEstimate struct {
	value, variance, df, effective float64
}

// Series compares the values of two runs. Each run has one series per pod, in order of time; the
// mean of a run is the interval of its pods' means. figures is the number of simultaneous
// comparisons, with a joint confidence level of 1 - alpha.
func Series(a, b [][]float64, alpha float64, figures int) Result {
	x, y := meanOfSeries(a), meanOfSeries(b)
	return welchTest(x, y, Welch, alpha, figures,
		"the values resemble each other so much that they are worth fewer than three independent ones")
}

// Runs compares groups of runs by one value per run; these values are independent.
func Runs(a, b []float64, alpha float64, figures int) Result {
	x, y := meanOf(a), meanOf(b)
	switch {
	case len(a) >= 2 && len(b) >= 2:
		return welchTest(x, y, WelchRun, alpha, figures, "a group has fewer than three runs")
	case len(a) == 1 && len(b) >= Least:
		return compareOneRun(x, y, len(b), alpha, figures)
	case len(b) == 1 && len(a) >= Least:
		return compareOneRun(x, y, len(a), alpha, figures)
	}
	return resultWithoutTest(x, y, "there is one value on each side; give several runs of each, as A1,A2,A3 B1,B2,B3")
}

// Pairs compares paired values, such as values of the same pair of pods.
func Pairs(a, b []float64, alpha float64, figures int) Result {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = b[i] - a[i]
	}
	x, y, m := meanOf(a), meanOf(b), meanOf(d)
	m.effective = float64(len(d))
	return testDifference(x, y, m, Paired, alpha, figures, "there are fewer than three pairs")
}

// meanOf returns the mean of independent values.
func meanOf(x []float64) meanEstimate {
	n, sum := float64(len(x)), 0.0
	for _, v := range x {
		sum += v
	}
	m := meanEstimate{value: sum / n, df: n - 1, effective: n}
	for _, v := range x {
		m.variance += (v - m.value) * (v - m.value)
	}
	if n > 1 {
		m.variance /= n * (n - 1)
	}
	return m
}

// meanOfSeries returns the mean of the means of series.
func meanOfSeries(series [][]float64) meanEstimate {
	var out meanEstimate
	k, squares := float64(len(series)), 0.0
	out.effective = math.Inf(1)
	for _, s := range series {
		m := correlatedMean(s)
		part := m.variance / (k * k)
		out.value += m.value / k
		out.variance += part
		squares += part * part / m.df
		out.effective = min(out.effective, m.effective)
	}
	out.df = out.variance * out.variance / squares
	return out
}

// correlatedMean returns the mean of an autocorrelated series and its effective number of values. That is the smaller of n
// (1-r) / (1+r), with the correlation r of neighbours, and n / (1 + 2 sum of r_k) over the lags up to the first pair
// that is not positive (Geyer 1992). The estimate of r from a short series is too low by about (1 + 4r)/n (Marriott and
// Pope 1954), so it adds that amount.
func correlatedMean(x []float64) meanEstimate {
	m := meanOf(x)
	n := float64(len(x))
	squares := m.variance * n * (n - 1)
	if n < 2 || squares == 0 {
		return m
	}
	at := func(lag int) float64 {
		sum := 0.0
		for i := lag; i < len(x); i++ {
			sum += (x[i] - m.value) * (x[i-lag] - m.value)
		}
		return sum / squares
	}
	r := at(1)
	r = min(max(r+(1+4*r)/n, 0), 0.999)
	effective := n * (1 - r) / (1 + r)
	sum := 0.0
	for lag := 1; lag+1 < len(x)/2; lag += 2 {
		pair := at(lag) + at(lag+1)
		if pair <= 0 {
			break
		}
		sum += pair
	}
	effective = max(min(effective, n/(1+2*sum)), 1)
	if effective <= 1 {
		return meanEstimate{value: m.value, variance: math.Inf(1), effective: 1}
	}
	// The spread within a stretch of correlated values is smaller than the spread of all values.
	spread := squares / (n * (1 - 1/effective))
	return meanEstimate{value: m.value, variance: spread / effective, df: effective - 1, effective: effective}
}

func welchTest(a, b meanEstimate, test string, alpha float64, figures int, few string) Result {
	d := meanEstimate{value: b.value - a.value, variance: a.variance + b.variance, effective: min(a.effective, b.effective)}
	d.df = d.variance * d.variance / (a.variance*a.variance/a.df + b.variance*b.variance/b.df)
	return testDifference(a, b, d, test, alpha, figures, few)
}

// compareOneRun compares one value with several and uses their spread for both sides.
func compareOneRun(a, b meanEstimate, values int, alpha float64, figures int) Result {
	d := meanEstimate{value: b.value - a.value, df: float64(values - 1), effective: float64(values)}
	// one of the two is 0; the other is the variance of a mean, n times smaller than a value's
	d.variance = (a.variance + b.variance) * float64(values+1)
	return testDifference(a, b, d, OneRun, alpha, figures, "")
}

// testDifference tests whether difference, which is B - A, is 0. It divides the level alpha by the number of figures (Bonferroni), so
// that intervals and verdicts agree. few is the text for too few values.
func testDifference(a, b, difference meanEstimate, test string, alpha float64, figures int, few string) Result {
	r := Result{A: a.value, B: b.value, Effective: difference.effective, Low: math.NaN(), High: math.NaN(), P: math.NaN()}
	if difference.effective < Least || math.IsInf(difference.variance, 0) {
		return resultWithoutTest(a, b, few)
	}
	if difference.variance == 0 {
		r.Test, r.Verdict = Constant, Noise
		if difference.value != 0 {
			r.Verdict = Differs
		}
		r.Low, r.High = difference.value, difference.value
		return r
	}
	deviation := math.Sqrt(difference.variance)
	each := alpha / float64(max(figures, 1))
	r.P = min(1, studentTail(difference.value/deviation, difference.df)*float64(max(figures, 1)))
	half := studentQuantile(each, difference.df) * deviation
	r.Low, r.High, r.Test, r.Verdict = difference.value-half, difference.value+half, test, Noise
	if r.P < alpha {
		r.Verdict = Differs
	}
	return r
}

func resultWithoutTest(a, b meanEstimate, why string) Result {
	return Result{A: a.value, B: b.value, Low: math.NaN(), High: math.NaN(), P: math.NaN(), Effective: min(a.effective, b.effective),
		Verdict: Untested, Why: why}
}
