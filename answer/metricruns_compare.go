package answer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"reckon/analysis/compare"
	"reckon/figure/wire"
)

// comparisonAlpha is 1 minus the confidence level of a whole comparison.
const comparisonAlpha = 0.05

// measuredRun is a run with its samples.
type measuredRun struct {
	run     wire.MetricRun
	samples wire.MetricRunSamples
}

// Compare compares runs, each written NAMESPACE/NAME: B against A.
func (m *MetricRuns) Compare(ctx context.Context, a, b []string) (out wire.MetricRunComparison, err error) {
	out = wire.MetricRunComparison{A: a, B: b, Level: 1 - comparisonAlpha, Figures: []wire.MetricRunDifference{},
		Differs: []wire.MetricRunCondition{}}
	var sides [2][]measuredRun
	for i, names := range [][]string{a, b} {
		for _, name := range names {
			namespace, short, ok := strings.Cut(name, "/")
			if !ok {
				return out, Invalid("write NAMESPACE/NAME", fmt.Errorf("%q is no run", name))
			}
			one := measuredRun{}
			if one.run, one.samples, err = m.readRun(ctx, namespace, short); err != nil {
				return out, err
			}
			sides[i] = append(sides[i], one)
		}
	}
	if len(sides[0]) == 0 || len(sides[1]) == 0 {
		return out, Invalid("give a and b", fmt.Errorf("nothing to compare"))
	}
	out.Scope = "Each run is one look at its machine at its time: the test shows whether the two runs differ by more than they vary " +
		"within themselves, not whether another run of the same would. Compare several runs of each to know that."
	if len(a) > 1 || len(b) > 1 {
		out.Scope = "Every run counts as one value, so that the spread includes the differences between runs."
	}
	both := pairUp(commonFigures(sides[0]), commonFigures(sides[1]))
	single, tests := len(a) == 1 && len(b) == 1, 0
	for _, f := range both {
		if f.compareSides(1, single).P != nil {
			tests++
		}
	}
	for _, f := range both {
		out.Figures = append(out.Figures, f.compareSides(tests, single))
	}
	out.Differs = differingConditions(sides[0], sides[1])
	return out, nil
}

// comparedFigure is one figure of a job on one side of a comparison. It has one value for each run. For the first run, it
// also has the series of each pod or the values of pairs of pods.
type comparedFigure struct {
	job, figure, unit string
	runs              []float64   // one value per run
	series            [][]float64 // of the first run: one per pod
	pairs             []float64   // of the first run
}

// commonFigures returns the figures that are present in all runs, in order of appearance. It drops a figure missing from
// one run, because a missing figure cannot be told from zero use.
func commonFigures(runs []measuredRun) (out []*comparedFigure) {
	for i := range runs {
		for _, f := range runFigureList(&runs[i]) {
			if was := f.findMatch(out); was != nil {
				was.runs = append(was.runs, f.runs...)
			} else {
				out = append(out, f)
			}
		}
	}
	return slices.DeleteFunc(out, func(f *comparedFigure) bool { return len(f.runs) != len(runs) })
}

// findMatch returns the figure with the same job and name from a list, or nil.
func (f *comparedFigure) findMatch(list []*comparedFigure) *comparedFigure {
	i := slices.IndexFunc(list, func(o *comparedFigure) bool { return o.job == f.job && o.figure == f.figure })
	if i < 0 {
		return nil
	}
	return list[i]
}

// sampledFigures are the compared figures of samples: use per second, or amounts held.
var sampledFigures = []struct {
	name, unit string
	rate       bool
	of         func(*wire.ProbeUse) *float64
}{
	{"cores", "cores", true, func(u *wire.ProbeUse) *float64 { return u.CPUSeconds }},
	{"run queue wait", "seconds/s", true, func(u *wire.ProbeUse) *float64 { return u.WaitSeconds }},
	{"storage wait", "seconds/s", true, func(u *wire.ProbeUse) *float64 { return u.IOWaitSeconds }},
	{"resident memory", "bytes", false, func(u *wire.ProbeUse) *float64 { return u.ResidentBytes }},
	{"storage read", "bytes/s", true, func(u *wire.ProbeUse) *float64 { return u.ReadBytes }},
	{"storage written", "bytes/s", true, func(u *wire.ProbeUse) *float64 { return u.WriteBytes }},
	{"minor faults", "1/s", true, func(u *wire.ProbeUse) *float64 { return u.MinorFaults }},
	{"major faults", "1/s", true, func(u *wire.ProbeUse) *float64 { return u.MajorFaults }},
	{"voluntary switches", "1/s", true, func(u *wire.ProbeUse) *float64 { return u.Voluntary }},
	{"involuntary switches", "1/s", true, func(u *wire.ProbeUse) *float64 { return u.Involuntary }},
	{"threads", "", false, func(u *wire.ProbeUse) *float64 { return u.Threads }},
}

func runFigureList(r *measuredRun) (out []*comparedFigure) {
	jobs := map[string][]int{}
	for i, p := range r.run.Pods {
		jobs[p.Job] = append(jobs[p.Job], i)
	}
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		out = append(out, r.jobFigures(job, jobs[job])...)
	}
	return out
}

// jobFigures returns the figures of the pods of one job.
func (r *measuredRun) jobFigures(job string, pods []int) (out []*comparedFigure) {
	for _, s := range sampledFigures {
		c := &comparedFigure{job: job, figure: s.name, unit: s.unit}
		for _, i := range pods {
			if values := sampleValues(r.samples.Pods[i].Samples, s.rate, s.of); len(values) > 0 {
				c.series = append(c.series, values)
			}
		}
		if len(c.series) == len(pods) {
			c.runs = []float64{meanOfMeans(c.series)}
			out = append(out, c)
		}
	}
	wall, cpu := []float64{}, []float64{}
	reported, names := map[string]*comparedFigure{}, []string(nil)
	for _, i := range pods {
		p := &r.run.Pods[i]
		if p.Started != nil && p.Finished != nil {
			wall = append(wall, p.Finished.Sub(*p.Started).Seconds())
		}
		if p.Total.CPUSeconds != nil {
			cpu = append(cpu, *p.Total.CPUSeconds)
		}
		for _, f := range p.Reported {
			c := reported[f.Name]
			if c == nil {
				c = &comparedFigure{job: job, figure: f.Name, unit: f.Unit}
				reported[f.Name], names = c, append(names, f.Name)
			}
			c.series = append(c.series, f.Values)
		}
		out = append(out, probeFigures(job, p.Result)...)
	}
	for _, one := range []struct {
		name   string
		values []float64
	}{{"wall time", wall}, {"CPU time", cpu}} {
		if len(one.values) == len(pods) {
			out = append(out, &comparedFigure{job: job, figure: one.name, unit: "seconds", runs: []float64{meanOf(one.values)}})
		}
	}
	for _, name := range names {
		c := reported[name]
		c.runs = []float64{meanOfMeans(c.series)}
		out = append(out, c)
	}
	return out
}

// probeFigures returns the figures of one of our probes; the figures of pairs of pods are in the order of the pods.
func probeFigures(job string, r *wire.ProbeResult) (out []*comparedFigure) {
	if r == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		if name != "message_bytes" { // a parameter, not a result
			out = append(out, &comparedFigure{job: job, figure: name, runs: []float64{r.Figures[name]}})
		}
	}
	for _, f := range []struct {
		name, unit string
		of         func(wire.ProbePair) float64
	}{
		{"round trip, median", "seconds", func(p wire.ProbePair) float64 { return p.MedianSeconds }},
		{"round trip, 99th percentile", "seconds", func(p wire.ProbePair) float64 { return p.P99Seconds }},
		{"throughput", "bytes/s", func(p wire.ProbePair) float64 { return p.BytesPerSecond }},
	} {
		c := &comparedFigure{job: job, figure: f.name, unit: f.unit}
		for _, p := range r.Pairs {
			if p.Error != "" {
				c = nil
				break
			}
			c.pairs = append(c.pairs, f.of(p))
		}
		if c != nil && len(c.pairs) > 0 {
			c.runs = []float64{meanOf(c.pairs)}
			out = append(out, c)
		}
	}
	return out
}

// sampleValues returns the values of a figure in samples, per second for counters; nil if a sample lacks it.
func sampleValues(samples []wire.ProbeSample, rate bool, of func(*wire.ProbeUse) *float64) (out []float64) {
	for i := range samples {
		v := of(&samples[i].Total)
		if v == nil {
			return nil
		}
		x := *v
		if rate {
			x /= samples[i].To.Sub(samples[i].From).Seconds()
		}
		out = append(out, x)
	}
	return out
}

func meanOf(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func meanOfMeans(x [][]float64) float64 {
	means := make([]float64, len(x))
	for i := range x {
		means[i] = meanOf(x[i])
	}
	return meanOf(means)
}

type figurePair struct{ a, b *comparedFigure }

// pairUp returns the figures present on both sides, in order, except those that are zero on both.
func pairUp(a, b []*comparedFigure) (out []figurePair) {
	for _, f := range a {
		if g := f.findMatch(b); g != nil && !(allZero(f.runs) && allZero(g.runs)) {
			out = append(out, figurePair{f, g})
		}
	}
	return out
}

func allZero(x []float64) bool {
	return !slices.ContainsFunc(x, func(v float64) bool { return v != 0 })
}

// compareSides compares b with a. For two single runs it compares their samples, otherwise one value per run.
func (f figurePair) compareSides(figures int, single bool) wire.MetricRunDifference {
	var r compare.Result
	d := wire.MetricRunDifference{Job: f.a.job, Figure: f.a.figure, Unit: f.a.unit, NA: len(f.a.runs), NB: len(f.b.runs)}
	switch {
	case single && len(f.a.series) > 0 && len(f.b.series) > 0:
		r = compare.Series(f.a.series, f.b.series, comparisonAlpha, figures)
		d.NA, d.NB = countValues(f.a.series), countValues(f.b.series)
	case single && len(f.a.pairs) > 0 && len(f.a.pairs) == len(f.b.pairs):
		r = compare.Pairs(f.a.pairs, f.b.pairs, comparisonAlpha, figures)
		d.NA, d.NB = len(f.a.pairs), len(f.b.pairs)
	default:
		r = compare.Runs(f.a.runs, f.b.runs, comparisonAlpha, figures)
	}
	d.A, d.B, d.Difference, d.Test, d.Verdict, d.Why, d.Effective = r.A, r.B, r.B-r.A, r.Test, r.Verdict, r.Why, r.Effective
	if math.IsInf(d.Effective, 0) || math.IsNaN(d.Effective) {
		d.Effective = 0
	}
	if r.A != 0 {
		ratio := (r.B - r.A) / r.A
		d.Ratio = &ratio
	}
	for _, v := range []struct {
		to **float64
		v  float64
	}{{&d.Low, r.Low}, {&d.High, r.High}, {&d.P, r.P}} {
		if !math.IsNaN(v.v) && !math.IsInf(v.v, 0) {
			*v.to = &v.v
		}
	}
	return d
}

func countValues(x [][]float64) (n int) {
	for _, s := range x {
		n += len(s)
	}
	return n
}

// differingConditions returns the conditions that differ between the sides.
func differingConditions(a, b []measuredRun) []wire.MetricRunCondition {
	out := []wire.MetricRunCondition{}
	x, y := conditionValues(a), conditionValues(b)
	keys := slices.SortedFunc(maps.Keys(x), func(p, q [2]string) int { return cmp.Or(cmp.Compare(p[0], q[0]), cmp.Compare(p[1], q[1])) })
	for key := range y {
		if _, ok := x[key]; !ok {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		if p, q := joinNames(x[key]), joinNames(y[key]); p != q {
			out = append(out, wire.MetricRunCondition{Job: key[0], What: key[1], A: p, B: q})
		}
	}
	return out
}

func joinNames(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }

// conditionValues returns the values of each job and condition.
func conditionValues(runs []measuredRun) map[[2]string]map[string]bool {
	out := map[[2]string]map[string]bool{}
	put := func(job, what, value string) {
		if value == "" {
			return
		}
		key := [2]string{job, what}
		if out[key] == nil {
			out[key] = map[string]bool{}
		}
		out[key][value] = true
	}
	for i := range runs {
		for _, m := range runs[i].run.Metrics {
			put(m.Job, "metric", m.Name)
			put(m.Job, "attach", m.Attach)
			for name, value := range m.Options {
				put(m.Job, "option "+name, value)
			}
		}
		for _, p := range runs[i].run.Pods {
			put(p.Job, "node", p.Node)
			put(p.Job, "kernel", p.Kernel)
			for name, value := range p.Images {
				put(p.Job, "image of "+name, value)
			}
			for name, value := range p.Resources {
				put(p.Job, name, value)
			}
			if p.Incomplete != "" {
				put(p.Job, "incomplete", p.Incomplete)
			}
		}
	}
	return out
}
