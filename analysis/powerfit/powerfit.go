// Package powerfit fits models that predict the power of a machine in watts from its counters (CPU
// use, cycles, memory, disk and network traffic, GPU use), selects one by unbiased validation, and
// reports how far it can be trusted.
//
// Validation never splits at random, because rows of one workload resemble each other and a random
// split would test nothing. With three or more workloads, each is left out in turn; otherwise the
// series is divided into blocks of time; a handful of calibration points is left out one level at a
// time. A family selects its own parameters (features, knots, exponents) within the training part.
// The families, from simple to rich: the mean (the baseline), a line with a root of utilisation, a
// monotone curve under a prior learnt from many servers, non-negative least squares over several
// features, and gradient-boosted trees. Trees also see earlier samples where times are known. If
// the best is no more than a standard error ahead of the simplest, the result is the mean of both.
// If the simplest is a root, it is used alone. The chosen model is not worse than the baseline in
// any figure over all rows.
//
// Units: watts, seconds, and ratios from 0 to 1 for utilisation and for errors. The package is pure
// and deterministic. Random choices depend only on Options.Seed. Functions are safe for concurrent
// use on separate data.
package powerfit

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"reckon/account/attribution/powermodel"
)

// ErrData means that a data set cannot be fitted. It is returned wrapped with the reason.
var ErrData = errors.New("data set cannot be fitted")

// Column is one feature of a data set.
type Column struct {
	Name string
	Unit string
	// Values has one entry per row; NaN marks a gap.
	Values []float64
	// Source is the expression that the column was computed from. The model stores it if the name
	// does not define the live source. It may be empty.
	Source string
}

// Data is a data set: features and measured power, row by row.
type Data struct {
	Features []Column
	// Watts is the measured power of each row.
	Watts []float64
	// Time is in seconds since any epoch, or nil.
	Time []float64
	// Workload is the name of the workload of each row, or nil.
	Workload []string
}

// Options configure the fit. The zero value is usable.
type Options struct {
	// Seed drives the trees; the same seed and data give the same model.
	Seed uint64
	// Families restricts the candidates; nil means all. See [Families].
	Families []string
	// Primary is the utilisation feature of the one-dimensional families. Empty selects
	// cpu_utilization if present, else the feature closest to power.
	Primary string
	// Lags is the number of earlier samples of each feature offered to the trees. Negative means
	// none, and 0 means 2 if times are known.
	Lags int
	// Blocks is the number of blocks of time if there are no workloads; 0 means 5.
	Blocks int
	// Prior is the prior knowledge of server curves; nil means [DefaultPrior].
	Prior *Prior
	// Name, Domain, Machine, Source and Licence go into the model file.
	Name, Domain    string
	Machine         powermodel.Machine
	Source, Licence string
}

// Validation protocols, as printed.
const (
	ByWorkload = "leave one workload out"
	ByBlock    = "blocks of time"
	ByLevel    = "leave one level out"
)

// Candidate is the validation result of one family.
type Candidate struct {
	Family string
	Score  powermodel.Score
	// Folds is the MAPE of each fold, in the order of Result.Folds.
	Folds []float64
	// Skipped is why the family was not tried; Score is then empty.
	Skipped string
}

// Result is a fitted model and the reasons for its selection.
type Result struct {
	Model    *powermodel.Model
	Protocol string
	// Folds names the workloads, blocks or levels left out.
	Folds      []string
	Chosen     string
	Candidates []Candidate
	Baseline   powermodel.Score
	Score      powermodel.Score
	// Warnings describe dropped data, and reasons for doubt.
	Warnings []string
}

// minParts is the minimum number of workloads, blocks or levels needed to report an error.
const minParts = 5

// State records the joint error of selection and fit in the model of r, if there are enough folds.
func (n *Nested) State(r *Result) {
	if len(n.Folds) >= minParts {
		r.Model.Training.Score, r.Model.Training.Baseline = n.Score, n.Baseline
		r.Model.Training.Protocol = n.Protocol + ", the family chosen without it"
	}
}

// Fit cleans d, validates every model family on it, and returns the best one fitted to all of d.
func Fit(d Data, o Options) (*Result, error) {
	t, warn, err := prepareTable(d, &o)
	if err != nil {
		return nil, err
	}
	if len(t.names) < 2 {
		return nil, fmt.Errorf("nothing to validate on: %w", ErrData)
	}
	r := chooseModel(t, &o)
	r.Warnings = append(warn, r.Warnings...)
	return r, nil
}

// chooseModel validates the families on t and fits the best.
func chooseModel(t *table, o *Options) *Result {
	r := &Result{Protocol: t.protocol, Folds: t.names}
	out := validateFamilies(t, o)
	best := out.chooseCandidate(t)
	for _, c := range out.candidates {
		r.Candidates = append(r.Candidates, c.Candidate)
	}
	r.Chosen, r.Score = best.Family, reportedScore(t, best.pred)
	r.Baseline = reportedScore(t, out.candidates[0].pred)
	parts, err := best.fitAll(t, o)
	if err != nil {
		// The fit of the whole failed although every fold succeeded: the mean always fits.
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s could not be fitted to the whole: %v; the mean is used", r.Chosen, err))
		best, r.Chosen, r.Score = &out.candidates[0], Mean, r.Baseline
		parts = []powermodel.Part{meanPart(t)}
	}
	if r.Chosen == Mean {
		r.Warnings = append(r.Warnings, "no feature explains the power better than its mean: the model is a constant")
	}
	r.Model = buildModel(t, o, parts, r, best.pred)
	return r
}

// buildModel builds the model file from the chosen parts, keeping only used features.
func buildModel(t *table, o *Options, parts []powermodel.Part, r *Result, pred []float64) *powermodel.Model {
	m := &powermodel.Model{Format: powermodel.Format, Version: powermodel.Version,
		Name: o.Name, Domain: o.Domain, Machine: o.Machine, Parts: parts,
	}
	in, kept, _ := innerLevels(t, pred)
	m.Band = errorBand(in.y, kept, in.rowWeights(false))
	if m.Name == "" {
		m.Name = r.Chosen
	}
	if m.Domain == "" {
		m.Domain = "node"
	}
	m.Features = renumberFeatures(m.Parts, t.feats)
	m.Version = 1 // older agents can read it if it has no newer features
	for _, f := range m.Features {
		if f.Lag > 0 {
			m.StepSeconds = t.step
		}
		if f.Source != "" {
			m.Version = powermodel.Version
		}
	}
	m.Training = powermodel.Training{Family: r.Chosen, Source: o.Source, Licence: o.Licence,
		Protocol: r.Protocol, Rows: len(t.y), Score: r.Score, Baseline: r.Baseline}
	if t.protocol == ByWorkload {
		m.Training.Workloads = slices.Clone(t.names)
	}
	if len(t.names) < minParts {
		m.Training.Score, m.Training.Baseline = powermodel.Score{}, powermodel.Score{}
		m.Band = powermodel.Band{}
		r.Warnings = append(r.Warnings,
			fmt.Sprintf("%d parts are too few to state an error; %d or more workloads are needed", len(t.names), minParts))
	}
	return m
}

// errorBand returns the 5th and 95th percentile of measured over modelled power on rows that the model was not fitted to. It
// widens the band slightly if there are few rows. With fewer than five rows the band is empty.
func errorBand(y, pred, w []float64) powermodel.Band {
	var ratio, weight []float64
	for i, p := range pred {
		if p > 0 && !math.IsNaN(p) {
			ratio, weight = append(ratio, y[i]/p), append(weight, w[i])
		}
	}
	if len(ratio) < minParts {
		return powermodel.Band{}
	}
	b := powermodel.Band{Coverage: 0.9, Points: len(ratio)}
	order := make([]int, len(ratio))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmpFloat(ratio[a], ratio[b]) })
	total := 0.0
	for _, v := range weight {
		total += v
	}
	// With n points the outermost ones are the best estimate of the tails.
	tail := 0.05 * float64(len(ratio)) / float64(len(ratio)+20)
	sum := 0.0
	lowSet := false
	for _, i := range order {
		sum += weight[i]
		if !lowSet && sum >= tail*total {
			b.Low, lowSet = ratio[i], true
		}
		if sum >= (1-tail)*total {
			b.High = ratio[i]
			break
		}
	}
	b.Low, b.High = min(b.Low, 1), max(b.High, 1)
	return b
}

// renumberFeatures renumbers the features of parts to those in use and returns them.
func renumberFeatures(parts []powermodel.Part, feats []powermodel.Feature) []powermodel.Feature {
	to := make([]int, len(feats))
	for i := range to {
		to[i] = -1
	}
	out := []powermodel.Feature{}
	use := func(f *int) {
		if to[*f] < 0 {
			to[*f] = len(out)
			out = append(out, feats[*f])
		}
		*f = to[*f]
	}
	for i := range parts {
		p := &parts[i]
		for j := range p.Terms {
			use(&p.Terms[j].Feature)
		}
		if p.Curve != nil {
			use(&p.Curve.Feature)
		}
		if p.Trees != nil {
			for n := range p.Trees.Feature {
				if p.Trees.Left[n] != 0 {
					use(&p.Trees.Feature[n])
				}
			}
		}
	}
	return out
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
