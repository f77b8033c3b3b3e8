package powerfit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"reckon/account/attribution/powermodel"
)

// Families, in order from simple to rich.
const (
	Mean     = "mean"
	Root     = "root"
	CurveFam = "curve"
	Additive = "nnls"
	TreesFam = "trees"
)

type family struct {
	name string
	fit  func(*table, *Options) ([]powermodel.Part, error)
}

// adaptSingle adapts a fit that returns a single part.
func adaptSingle(fit func(*table, *Options) (powermodel.Part, error)) func(*table, *Options) ([]powermodel.Part, error) {
	return func(t *table, o *Options) ([]powermodel.Part, error) {
		p, err := fit(t, o)
		if err != nil {
			return nil, err
		}
		return []powermodel.Part{p}, nil
	}
}

func modelFamilies() []family {
	return []family{
		{Mean, adaptSingle(fitMean)}, {Root, adaptSingle(fitRoot)}, {CurveFam, adaptSingle(fitCurve)}, {Additive, adaptSingle(fitAdditive)},
		{TreesFam, fitTrees},
	}
}

// Families returns the names of all model families, simple ones first. The mean is always a candidate.
func Families() []string {
	var out []string
	for _, f := range modelFamilies() {
		out = append(out, f.name)
	}
	return out
}

// candidate is a family with its out-of-fold predictions.
type candidate struct {
	Candidate
	pred []float64
	// members and weights are of the families that it is made of, mostly one.
	members []family
	weights []float64
}

// fitAll fits the candidate to the whole of t.
func (c *candidate) fitAll(t *table, o *Options) ([]powermodel.Part, error) {
	var parts []powermodel.Part
	for k, f := range c.members {
		ps, err := f.fit(t, o)
		if err != nil {
			return nil, err
		}
		for i := range ps {
			ps[i].Weight *= c.weights[k]
		}
		parts = append(parts, ps...)
	}
	return parts, nil
}

type validation struct{ candidates []candidate }

// chooseCandidate returns the candidate to use. The best candidate over the folds may be the best by chance. The simplest
// candidate within one standard error of it (Breiman et al. 1984, section 3.4.3) may miss an effect that few folds
// cannot show. If these two differ, choose averages them and appends the average to v.candidates.
func (v *validation) chooseCandidate(t *table) *candidate {
	best, simple := v.selectBest(t.protocol)
	if best == simple || v.candidates[simple].Family == Root {
		return &v.candidates[simple] // servers at a wall meter follow the root: nothing is added by chance
	}
	a, b := &v.candidates[simple], &v.candidates[best]
	c := candidate{Candidate: Candidate{Family: a.Family + " & " + b.Family}, pred: make([]float64, len(t.y))}
	for i := range c.pred {
		c.pred[i] = (a.pred[i] + b.pred[i]) / 2
	}
	for _, m := range []*candidate{a, b} {
		for k, f := range m.members {
			c.members, c.weights = append(c.members, f), append(c.weights, m.weights[k]/2)
		}
	}
	c.Score, c.Folds = foldScore(t, c.pred)
	v.candidates = append(v.candidates, c)
	return &v.candidates[len(v.candidates)-1]
}

// selectBest returns the indices of the best candidate and of the simplest one within one standard error of it. Over
// all rows, both must be at least as good as the mean power in every figure. A family is not rejected for its worst
// fold alone, because the mean is often better there by luck.
//
// Calibration points are too few to compare families by leaving points out. The curve under the prior is therefore used
// unless it did clearly worse.
func (v *validation) selectBest(protocol string) (best, simple int) {
	base := v.candidates[0].Score
	ok := func(c *candidate) bool {
		s := c.Score
		return c.Skipped == "" && s.MAPE <= base.MAPE && s.RMSE <= base.RMSE && s.DRE <= base.DRE
	}
	for i := range v.candidates {
		if c := &v.candidates[i]; ok(c) && c.Score.MAPE < v.candidates[best].Score.MAPE {
			best = i
		}
	}
	if best == 0 {
		return 0, 0
	}
	for i := range v.candidates {
		c := &v.candidates[i]
		if protocol == ByLevel && c.Family == CurveFam && ok(c) && c.Score.MAPE <= 2*v.candidates[best].Score.MAPE {
			return i, i
		}
	}
	for i := 1; i < len(v.candidates); i++ {
		if c := &v.candidates[i]; ok(c) && isNoWorse(c.Folds, v.candidates[best].Folds) {
			return best, i
		}
	}
	return best, best
}

// isNoWorse reports whether the errors a are on average at most one standard error above b on the
// same folds. It compares differences, because hard folds are hard for all.
func isNoWorse(a, b []float64) bool {
	d, mean := make([]float64, len(a)), 0.0
	for i := range a {
		d[i] = a[i] - b[i]
		mean += d[i] / float64(len(a))
	}
	return mean <= standardError(d)
}

// standardError returns the standard error of the mean of v.
func standardError(v []float64) float64 {
	n := float64(len(v))
	if n < 2 {
		return 0
	}
	mean, sum := 0.0, 0.0
	for _, x := range v {
		mean += x / n
	}
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / (n - 1) / n)
}

// validateFamilies runs every family over the folds of t.
func validateFamilies(t *table, o *Options) *validation {
	v := &validation{}
	var train []*table
	for g := range t.names {
		train = append(train, t.trainingPart(g))
	}
	for _, f := range modelFamilies() {
		if f.name != Mean && o.Families != nil && !slices.Contains(o.Families, f.name) {
			continue
		}
		c := candidate{Candidate: Candidate{Family: f.name}, members: []family{f}, weights: []float64{1}}
		pred, err := outOfFold(t, train, f, o)
		if err != nil {
			c.Skipped = err.Error()
		} else {
			c.pred = pred
			c.Score, c.Folds = foldScore(t, pred)
		}
		v.candidates = append(v.candidates, c)
	}
	return v
}

// outOfFold predicts each row by a model fitted without its fold.
func outOfFold(t *table, train []*table, f family, o *Options) ([]float64, error) {
	pred := make([]float64, len(t.y))
	x := make([]float64, len(t.feats))
	for g := range t.names {
		if len(train[g].y) == 0 {
			return nil, errors.New("a fold leaves nothing to train on")
		}
		parts, err := f.fit(train[g], o)
		if err != nil {
			return nil, err
		}
		m := modelOfParts(t, parts...)
		for i := range t.y {
			if t.group[i] == g {
				t.copyRow(i, x)
				pred[i] = m.Predict(x).Watts
			}
		}
	}
	return pred, nil
}

// modelOfParts returns a model of parts over all features of t, without a band.
func modelOfParts(t *table, parts ...powermodel.Part) *powermodel.Model {
	return &powermodel.Model{Features: t.feats, Parts: parts}
}

// foldScore scores predictions. The MAPE is the mean over folds; the other figures are over all rows.
func foldScore(t *table, pred []float64) (powermodel.Score, []float64) {
	s := scoreRows(t.y, pred)
	folds := make([]float64, len(t.names))
	n := make([]float64, len(t.names))
	for i, g := range t.group {
		folds[g] += math.Abs(pred[i]-t.y[i]) / t.y[i]
		n[g]++
	}
	s.MAPE, s.Worst = 0, 0
	for g := range folds {
		folds[g] /= max(n[g], 1)
		s.MAPE += folds[g] / float64(len(folds))
		s.Worst = max(s.Worst, folds[g])
	}
	return s, folds
}

// reportedScore returns the score to report. For a calibration it covers the inner levels; the lowest and highest have a separate score.
func reportedScore(t *table, pred []float64) powermodel.Score {
	in, kept, outside := innerLevels(t, pred)
	s, _ := foldScore(in, kept)
	s.Outside = outside
	return s
}

// innerLevels returns t and pred without the lowest and the highest level of a calibration. outside is the mean error at
// these two levels, as a ratio. A model fitted without such a level extrapolates there, but the final model does not.
func innerLevels(t *table, pred []float64) (in *table, kept []float64, outside float64) {
	if t.protocol != ByLevel || len(t.names) < minParts {
		return t, pred, 0
	}
	_, folds := foldScore(t, pred)
	low, high := 0, 0
	for i, y := range t.y {
		if y < t.y[low] {
			low = i
		}
		if y > t.y[high] {
			high = i
		}
	}
	some := *t
	some.y, some.group = nil, nil
	for i, g := range t.group {
		if g != t.group[low] && g != t.group[high] {
			some.y, some.group, kept = append(some.y, t.y[i]), append(some.group, g), append(kept, pred[i])
		}
	}
	if in = some.dropEmptyGroups(); len(in.names) == 0 {
		return t, pred, 0
	}
	return in, kept, (folds[t.group[low]] + folds[t.group[high]]) / 2
}

// scoreRows compares predictions with measured power, row by row.
func scoreRows(y, pred []float64) powermodel.Score {
	s := powermodel.Score{Points: len(y)}
	n := float64(len(y))
	if len(y) == 0 {
		return s
	}
	mean := 0.0
	for _, v := range y {
		mean += v / n
	}
	var sq, tot float64
	for i, v := range y {
		s.MAPE += math.Abs(pred[i]-v) / v / n
		sq += (pred[i] - v) * (pred[i] - v)
		tot += (v - mean) * (v - mean)
	}
	s.RMSE = math.Sqrt(sq / n)
	if tot > 0 {
		s.R2 = 1 - sq/tot
	}
	if span := slices.Max(y) - slices.Min(y); span > 0 {
		s.DRE = s.RMSE / span
	}
	s.Worst = s.MAPE
	return s
}

// Nested is the unbiased estimate of the error of Fit. For every fold, a family is selected and fitted on the other
// folds and then predicts that fold.
type Nested struct {
	Protocol string
	Folds    []string
	// Chosen is the family selected without each fold.
	Chosen []string
	// Errors is the MAPE of each fold, BaselineErrors the MAPE of the mean power.
	Errors, BaselineErrors []float64
	Score, Baseline        powermodel.Score
	Warnings               []string
}

// Validate estimates the error of Fit on unseen work.
func Validate(d Data, o Options) (*Nested, error) {
	t, warn, err := prepareTable(d, &o)
	if err != nil {
		return nil, err
	}
	r := &Nested{Protocol: t.protocol, Folds: t.names, Warnings: warn}
	pred, base := make([]float64, len(t.y)), make([]float64, len(t.y))
	x := make([]float64, len(t.feats))
	for g := range t.names {
		train := t.trainingPart(g).dropEmptyGroups()
		if len(train.y) < minRows || len(train.names) < 2 {
			return nil, fmt.Errorf("without %s too little is left to choose a model: %w", t.names[g], ErrData)
		}
		v := validateFamilies(train, &o)
		c := v.chooseCandidate(train)
		parts, err := c.fitAll(train, &o)
		if err != nil {
			return nil, fmt.Errorf("fit %s without %s: %w", c.Family, t.names[g], err)
		}
		r.Chosen = append(r.Chosen, c.Family)
		m, b := modelOfParts(t, parts...), meanPart(train).Base
		for i := range t.y {
			if t.group[i] == g {
				t.copyRow(i, x)
				pred[i], base[i] = m.Predict(x).Watts, b
			}
		}
	}
	_, r.Errors = foldScore(t, pred)
	_, r.BaselineErrors = foldScore(t, base)
	r.Score, r.Baseline = reportedScore(t, pred), reportedScore(t, base)
	return r, nil
}

// dropEmptyGroups drops groups that have no rows.
func (t *table) dropEmptyGroups() *table {
	s := *t
	to := make(map[int]int)
	s.group, s.names = make([]int, len(t.group)), nil
	for i, g := range t.group {
		if _, ok := to[g]; !ok {
			to[g] = len(to)
			s.names = append(s.names, t.names[g])
		}
		s.group[i] = to[g]
	}
	return &s
}

// Evaluate scores a model on a data set that it was not fitted to. The baseline of the score is the mean power of the
// model's training data.
func Evaluate(m *powermodel.Model, d Data) (powermodel.Score, error) {
	if err := checkShape(d); err != nil {
		return powermodel.Score{}, err
	}
	pred, y, err := Replay(m, d)
	if err != nil {
		return powermodel.Score{}, err
	}
	if len(y) == 0 {
		return powermodel.Score{}, fmt.Errorf("no row has power and all features of %s: %w", m.Name, ErrData)
	}
	return scoreRows(y, pred), nil
}

// Replay predicts the power of each row of a data set in order. It returns the predicted and the measured power of the
// rows that have both.
func Replay(m *powermodel.Model, d Data) (pred, measured []float64, err error) {
	var names []string
	for _, c := range d.Features {
		names = append(names, c.Name)
	}
	tr, err := powermodel.NewTracker(m, names)
	if err != nil {
		return nil, nil, err
	}
	x := make([]float64, len(names))
	for i, y := range d.Watts {
		if d.Workload != nil && i > 0 && d.Workload[i] != d.Workload[i-1] ||
			d.Time != nil && i > 0 && m.StepSeconds > 0 && math.Abs(d.Time[i]-d.Time[i-1]) >= 1.5*m.StepSeconds {
			tr.Reset()
		}
		for f := range d.Features {
			x[f] = d.Features[f].Values[i]
		}
		p := tr.Observe(x)
		if p.Missing == 0 && y > 0 && !math.IsInf(y, 0) {
			pred, measured = append(pred, p.Watts), append(measured, y)
		}
	}
	return pred, measured, nil
}
