package powerfit

import (
	"cmp"
	"math"
	"slices"
)

// findPrimary returns the index of the utilisation feature.
func (t *table) findPrimary(name string) int {
	best, at := -1.0, 0
	for f := range t.base {
		if t.feats[f].Name == name || name == "" && t.feats[f].Name == "cpu_utilization" {
			return f
		}
		if c := math.Abs(correlation(t.x[f], t.y)); c > best {
			best, at = c, f
		}
	}
	return at
}

// addLags appends earlier samples of every feature. At the start of a run or after a gap it uses
// the oldest known sample.
func (t *table) addLags(runs []string, when []float64, o *Options) {
	lags := cmp.Or(o.Lags, 2)
	if when == nil || lags < 0 || t.protocol == ByLevel || len(t.y) < 2 {
		return
	}
	t.step = medianStep(when, runs)
	if t.step <= 0 {
		return
	}
	run := make([]int, len(t.y)) // number of earlier rows of the run
	for i := 1; i < len(t.y); i++ {
		same := runs == nil || runs[i] == runs[i-1]
		if dt := when[i] - when[i-1]; same && dt > 0 && dt < 1.5*t.step {
			run[i] = run[i-1] + 1
		}
	}
	for lag := 1; lag <= lags; lag++ {
		for f := range t.base {
			v := make([]float64, len(t.y))
			for i := range v {
				v[i] = t.x[f][i-min(lag, run[i])]
			}
			feat := t.feats[f]
			feat.Lag = lag
			t.feats, t.x = append(t.feats, feat), append(t.x, v)
		}
	}
}

func medianStep(when []float64, runs []string) float64 {
	var d []float64
	for i := 1; i < len(when); i++ {
		if (runs == nil || runs[i] == runs[i-1]) && when[i] > when[i-1] {
			d = append(d, when[i]-when[i-1])
		}
	}
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)/2]
}

func correlation(a, b []float64) float64 {
	var ma, mb float64
	for i := range a {
		ma, mb = ma+a[i], mb+b[i]
	}
	ma, mb = ma/float64(len(a)), mb/float64(len(b))
	var sab, saa, sbb float64
	for i := range a {
		sab += (a[i] - ma) * (b[i] - mb)
		saa += (a[i] - ma) * (a[i] - ma)
		sbb += (b[i] - mb) * (b[i] - mb)
	}
	if saa == 0 || sbb == 0 {
		return 0
	}
	return sab / math.Sqrt(saa*sbb)
}
