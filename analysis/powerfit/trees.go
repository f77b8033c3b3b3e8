package powerfit

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"reckon/account/attribution/powermodel"
)

// Gradient-boosted regression trees on binned features (Friedman 2001; histograms as in LightGBM, Ke et al. 2017). The
// decision record on power trees explains why no library is used.
const (
	treeBags     = 3  // averaged ensembles, for stability
	treeCount    = 70 // trees per ensemble
	treeDepth    = 4
	treeRate     = 0.07
	treeMinLeaf  = 12
	treeBins     = 48
	treeRows     = 0.5  // share of rows per tree
	treeMaxRows  = 1500 // upper limit: rows of a series repeat one another
	treeFeatures = 0.8  // share of features per split
	treeRidge    = 0.02 // shrinkage of leaves to zero, as a share of the mean weight of a leaf
	treeMinRows  = 200
	treeMinRuns  = 4
	treeTrend    = 0.5 // share of the additive model that trees start from within the observed range
)

var errFewRows = errors.New("too few rows or workloads for trees (200 rows and 4 workloads or blocks are needed)")

// fitTrees fits trees that start from half of the additive model. Starting from all of it biases rows towards a sum of
// features, and starting from none predicts unfamiliar workloads worse. Outside of the observed range, trees are
// constant, so a busier machine would seem to draw no more power. There, the additive model continues.
func fitTrees(t *table, o *Options) ([]powermodel.Part, error) {
	return fitBoosted(t, len(t.feats), fitAdditive, o)
}

// forest is the state while an ensemble grows.
type forest struct {
	t      *table
	rnd    *rand.Rand
	w      []float64
	res    []float64 // residuals, watts
	code   [][]uint8 // code[feature][row]
	edge   [][]float64
	out    *powermodel.Trees
	unit   float64 // mean weight of a row
	sw, sr []float64
	cn     []int
}

// fitBoosted fits trees to the first features of t, on top of the trend from fit.
func fitBoosted(t *table, features int, fit func(*table, *Options) (powermodel.Part, error), o *Options) ([]powermodel.Part, error) {
	present := make(map[int]bool)
	for _, g := range t.group {
		present[g] = true
	}
	if features == 0 {
		return nil, errNoFeature
	}
	if len(t.y) < treeMinRows || len(present) < treeMinRuns-1 {
		return nil, errFewRows
	}
	f := &forest{t: t, rnd: rand.New(rand.NewPCG(o.Seed, 0x9e3779b97f4a7c15)), w: t.rowWeights(true),
		res: make([]float64, len(t.y)), out: &powermodel.Trees{},
		sw: make([]float64, treeBins), sr: make([]float64, treeBins), cn: make([]int, treeBins)}
	for j := range features {
		code, edge := binValues(t.x[j])
		f.code, f.edge = append(f.code, code), append(f.edge, edge)
	}
	trend, err := fit(t, o)
	if err != nil {
		return nil, err
	}
	rest := extrapolate(t, &trend)
	trend.Weight, rest.Weight = treeTrend, 1-treeTrend
	left := make([]float64, len(t.y))
	var sum, sumW float64
	for i, y := range t.y {
		left[i] = y - treeTrend*termsAt(t, &trend, i)
		sum, sumW = sum+f.w[i]*left[i], sumW+f.w[i]
	}
	base := sum / sumW
	for i := range left {
		left[i] -= base
	}
	f.unit = sumW / float64(len(t.y))
	for range treeBags {
		f.growEnsemble(left)
	}
	for i := range f.out.Value {
		f.out.Value[i] /= treeBags
	}
	roundValues(f.out)
	return []powermodel.Part{{Kind: powermodel.KindTrees, Weight: 1, Base: base, Trees: f.out}, trend, rest}, nil
}

// extrapolate returns the change of trend outside the observed range of each feature in t, and zero within the range.
// It consists of ramps from the edge of the range, which approximate a root, up to four times the range.
func extrapolate(t *table, trend *powermodel.Part) powermodel.Part {
	out := powermodel.Part{Kind: powermodel.KindTerms, Weight: 1}
	for _, q := range trend.Terms {
		low, high := t.feats[q.Feature].Min, t.feats[q.Feature].Max
		edges := []float64{0, low / 4, low, high, 1.5 * high, 2 * high, 4 * high}
		for k := 1; k < len(edges); k++ {
			from, to := edges[k-1], edges[k]
			watts := q.Watts * (q.Basis(to) - q.Basis(from))
			if from == low || watts <= 0 {
				continue
			}
			if to <= low {
				out.Base -= watts // the ramp is full at low, where it must add nothing
			}
			out.Terms = append(out.Terms, powermodel.Term{Feature: q.Feature, Shape: powermodel.ShapeRamp,
				Scale: 1, From: from, To: to, Watts: watts})
		}
	}
	return out
}

// growEnsemble grows one series of trees, each on the residuals of the previous ones.
func (f *forest) growEnsemble(left []float64) {
	t := f.t
	copy(f.res, left)
	share := min(treeRows, treeMaxRows/float64(len(t.y)))
	rows := make([]int, 0, len(t.y))
	for range treeCount {
		rows = rows[:0]
		for i := range t.y {
			if f.rnd.Float64() < share {
				rows = append(rows, i)
			}
		}
		root := f.growTree(rows, treeDepth)
		f.out.Roots = append(f.out.Roots, root)
		for i := range t.y {
			f.res[i] -= f.leafValue(root, i)
		}
	}
}

// leafValue returns the value of the tree at root n for training row i.
func (f *forest) leafValue(n, i int) float64 {
	for f.out.Left[n] != 0 {
		if f.t.x[f.out.Feature[n]][i] <= f.out.Split[n] {
			n = f.out.Left[n]
		} else {
			n = f.out.Right[n]
		}
	}
	return f.out.Value[n]
}

// growTree appends the tree for rows and returns its root.
func (f *forest) growTree(rows []int, depth int) int {
	o := f.out
	n := len(o.Value)
	var sw, sr float64
	for _, i := range rows {
		sw, sr = sw+f.w[i], sr+f.w[i]*f.res[i]
	}
	pull := treeRidge * treeMinLeaf * f.unit
	o.Feature, o.Split = append(o.Feature, 0), append(o.Split, 0)
	o.Left, o.Right = append(o.Left, 0), append(o.Right, 0)
	value := 0.0
	if sw > 0 {
		value = treeRate * sr / (sw + pull)
	}
	o.Value = append(o.Value, value)
	if depth == 0 || len(rows) < 2*treeMinLeaf {
		return n
	}
	feat, cut := f.bestSplit(rows, sw, sr, pull)
	if feat < 0 {
		return n
	}
	code := f.code[feat]
	at := partitionRows(rows, func(i int) bool { return int(code[i]) <= cut })
	o.Feature[n], o.Split[n] = feat, f.edge[feat][cut]
	left := f.growTree(rows[:at], depth-1)
	right := f.growTree(rows[at:], depth-1)
	o.Left[n], o.Right[n] = left, right
	return n
}

// bestSplit returns the feature and the bin after which to split, or -1.
func (f *forest) bestSplit(rows []int, sw, sr, pull float64) (feat, cut int) {
	feat, best := -1, 1e-12
	whole := sr * sr / (sw + pull)
	for j := range f.code {
		if len(f.edge[j]) == 0 || f.rnd.Float64() > treeFeatures {
			continue
		}
		clear(f.sw)
		clear(f.sr)
		clear(f.cn)
		for _, i := range rows {
			c := f.code[j][i]
			f.sw[c] += f.w[i]
			f.sr[c] += f.w[i] * f.res[i]
			f.cn[c]++
		}
		var lw, lr float64
		ln := 0
		for b := range f.edge[j] {
			lw, lr, ln = lw+f.sw[b], lr+f.sr[b], ln+f.cn[b]
			if ln < treeMinLeaf {
				continue
			}
			if len(rows)-ln < treeMinLeaf {
				break
			}
			rr := sr - lr
			if gain := lr*lr/(lw+pull) + rr*rr/(sw-lw+pull) - whole; gain > best {
				feat, cut, best = j, b, gain
			}
		}
	}
	return feat, cut
}

// partitionRows moves the rows of the left branch to the front, keeping order.
func partitionRows(rows []int, left func(int) bool) int {
	var right []int
	at := 0
	for _, i := range rows {
		if left(i) {
			rows[at] = i
			at++
		} else {
			right = append(right, i)
		}
	}
	copy(rows[at:], right)
	return at
}

// binValues divides the values v into quantile bins. code is the bin of each value. edge b is halfway between the largest
// value of bin b and the smallest value of the next.
func binValues(v []float64) (code []uint8, edge []float64) {
	s := slices.Clone(v)
	slices.Sort(s)
	for b := 1; b < treeBins; b++ {
		i := b * len(s) / treeBins
		if i == 0 || s[i] == s[i-1] && (i+1 >= len(s) || s[i+1] == s[i]) {
			// Inside a run of equal values: split at its end.
			i, _ = slices.BinarySearchFunc(s, s[i], func(e, x float64) int {
				if e <= x {
					return -1
				}
				return 1
			})
			if i >= len(s) {
				break
			}
		}
		if s[i] == s[i-1] {
			continue
		}
		e := s[i-1] + (s[i]-s[i-1])/2
		if len(edge) == 0 || e > edge[len(edge)-1] {
			edge = append(edge, e)
		}
	}
	code = make([]uint8, len(v))
	for i, x := range v {
		c, _ := slices.BinarySearch(edge, x)
		code[i] = uint8(c)
	}
	return code, edge
}

// roundValues rounds the values of trees to five digits. That is finer than any meter, and keeps files small.
func roundValues(t *powermodel.Trees) {
	for i, v := range t.Value {
		if v != 0 {
			k := math.Pow(10, 5-math.Ceil(math.Log10(math.Abs(v))))
			t.Value[i] = math.Round(v*k) / k
		}
	}
}
