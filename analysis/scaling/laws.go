package scaling

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"reckon/figure"
	"reckon/internal/phrase"
	"reckon/internal/quantiles"
)

// Unit is the unit of the size of a run.
type Unit string

// Units: the size of work with GPUs is its number of GPUs.
const (
	Cores Unit = "core"
	GPUs  Unit = "GPU"
)

// timeName returns the name of the time that a run spends on a unit.
func (u Unit) timeName() string {
	if u == GPUs {
		return "GPU time"
	}
	return "CPU time"
}

func (u Unit) plural() string { return strings.ToLower(string(u)) + "s" }

// Result is the outcome of comparing runs of the same work, including the run in question.
type Result struct {
	// Amdahl and USL are the laws fitted to the runs, both nil if no law is claimed. Law is the one
	// that describes the runs better.
	Amdahl, USL, Law *Fit
	Weak             *Weak
	Verdicts         []Verdict // the most severe first
}

// Limits beyond which a law is rejected.
const (
	// loose is the typical relative distance of runs from a law above which the law is rejected.
	loose = 0.15
	// clearRatio is the maximum ratio of errors for preferring the richer law.
	clearRatio = 0.8
	// sameWork is the maximum ratio between the CPU times of runs of the same work.
	sameWork = 1.5
	// seen is the maximum ratio of a speed-up to the observed busy cores: the error of a fit.
	seen = 1.1
	// sizesOfLaw is the minimum number of sizes to test a law with one parameter.
	sizesOfLaw = 3
)

// betterLaw returns the law that describes the runs better. That is the Universal Scalability Law if its error is known
// and clearly smaller, else Amdahl's law.
func betterLaw(amdahl, usl *Fit) *Fit {
	if usl != nil && !math.IsNaN(usl.Error) && usl.Crosstalk > 0 && usl.Error < clearRatio*amdahl.Error {
		return usl
	}
	return amdahl
}

// Compare judges the speed-up of one run, and of runs at different sizes. It names a law only if three or more sizes
// with similar CPU time are close to it. The law must not claim a higher speed-up than the busy cores or GPUs allow.
func Compare(u Use, runs []Run, unit Unit) Result {
	j := judge{u: u}
	spare := j.judgeSingle()
	if u.Array != "" {
		return Result{Verdicts: j.out}
	}
	c := comparison{judge: &j, runs: runs, unit: unit, sizes: distinctSizes(runs)}
	r := c.fitLaws()
	if r.Law != nil {
		c.reportLaw(r.Law)
		if !spare && unit == Cores { // more of an unused resource cannot help, whatever the law
			c.reportDoubling(r.Law)
		}
	}
	if r.Law == nil && r.Weak == nil && unit == Cores {
		j.reportSerial()
	}
	if n := c.countWaited(); n > 0 && (r.Law != nil || r.Weak != nil) {
		j.addVerdict("waited", "warning", float64(n), "count", "waited",
			phrase.Words{"runs": phrase.Number(float64(n), "count", strconv.Itoa(n)+" of the runs")})
	}
	r.Verdicts = j.sortedVerdicts()
	return r
}

type comparison struct {
	*judge
	runs  []Run
	unit  Unit
	sizes []float64
}

// fitLaws returns the law of the runs, or reports why there is none.
func (c *comparison) fitLaws() (r Result) {
	if len(c.sizes) < 2 {
		c.reportTooFew()
		return r
	}
	words := phrase.Words{"behind": c.basisText(), "unit": string(c.unit), "used": c.unit.timeName()}
	if c.dropUnmeasured(); len(c.sizes) < 2 {
		c.addVerdict("work", "info", 0, "ratio", "refuse.unknown", words)
		return r
	}
	words["behind"], words["few"], words["most"] = c.basisText(), withNoun(c.sizes[0], string(c.unit)),
		withNoun(c.sizes[len(c.sizes)-1], string(c.unit))
	if weak, ok := detectWeak(c.runs); ok {
		c.reportWeak(weak, words)
		return Result{Weak: &weak}
	}
	if ratio := c.useRatio(); ratio > sameWork {
		words["ratio"], words["limit"] = formatAmount(ratio, "ratio"), formatAmount(sameWork, "ratio")
		c.addVerdict("work", "warning", ratio, "ratio", "refuse.work", words)
		return r
	}
	if len(c.sizes) < sizesOfLaw {
		a, b := c.timeAt(c.sizes[0]), c.timeAt(c.sizes[1])
		words["seconds_few"], words["seconds"], words["speed"] = formatSeconds(a), formatSeconds(b), formatAmount(a/b, "ratio")
		c.addVerdict("runs", "info", a/b, "ratio", "runs.two", words)
		return r
	}
	amdahl, err := Amdahl(c.runs)
	if err != nil {
		return r // a run without a size or a time is an error of the caller: claim nothing
	}
	r.Amdahl, r.Law = &amdahl, &amdahl
	if usl, err := USL(c.runs); err == nil {
		r.USL, r.Law = &usl, betterLaw(&amdahl, &usl)
	}
	if r.Law.Error > loose {
		words["error"] = phrase.Percent(r.Law.Error)
		c.addVerdict("law", "warning", r.Law.Error, "ratio", "refuse.law", words)
		return Result{}
	}
	if n, claim, busy := c.unsupportedClaim(r.Law); n > 0 {
		words["size"], words["claim"], words["busy"] = withNoun(n, string(c.unit)), formatAmount(claim, "ratio"), formatAmount(busy,
			"ratio")
		c.addVerdict("law", "warning", claim/busy, "ratio", "refuse.seen", words)
		return Result{}
	}
	return r
}

// reportTooFew reports that runs at one size, or none, cannot show how the work scales.
func (c *comparison) reportTooFew() {
	seen, words := "runs.none", phrase.Words(nil)
	if len(c.sizes) == 1 {
		seen, words = "runs.one-size", phrase.Words{"runs": plural(len(c.runs)), "size": withNoun(c.sizes[0], string(c.unit))}
	} else if c.u.Waits {
		c.addVerdict("runs", "info", 0, "count", "runs.none", nil)
		return
	}
	try := 2.0
	if given, ok := figure.Known(c.u.Given); ok && c.u.GivenBy == "" && c.unit == Cores {
		try = max(2, given)
	}
	if len(c.sizes) == 1 {
		try = c.sizes[0]
	}
	one, two := math.Floor(try/2), 2*try
	if one < 1 {
		one, two = 2*try, 4*try
	}
	if most, ok := figure.Known(c.u.Given); ok && c.u.GivenBy != "" && c.unit == Cores && two > most { // of its node
		one, two = math.Floor(most/2), most
	}
	if one < 1 {
		c.addVerdict("runs", "info", float64(len(c.sizes)), "count", seen, words)
		return
	}
	c.addVerdict("runs", "info", float64(len(c.sizes)), "count", "runs.try",
		phrase.Words{"seen": texts.Sentence(seen, words), "one": withNoun(one, string(c.unit)), "two": withNoun(two, string(c.unit))})
}

// unsupportedClaim returns a size at which the law claims more speed-up than the number of busy cores shows, the claim, and that number.
// It returns 0 if there is no such size. If the work also ran on one core, the speed-up is relative to the utilisation of that core.
func (c *comparison) unsupportedClaim(law *Fit) (size, claim, busy float64) {
	one := min(c.busyAt(1), 1)
	if !(one > 0) {
		one = 1
	}
	for _, n := range c.sizes {
		claim, busy := law.Speedup(n), c.busyAt(n)
		if n > 1 && claim > seen*busy/one {
			return n, claim, busy
		}
	}
	return 0, 0, 0
}

// reportLaw reports the meaning of the law of the runs.
func (c *comparison) reportLaw(law *Fit) {
	most := c.sizes[len(c.sizes)-1]
	words := phrase.Words{"behind": c.basisText(), "unit": string(c.unit), "most": withNoun(most, string(c.unit)),
		"serial": phrase.Percent(law.Serial), "error": phrase.Percent(law.Error),
		"speed": formatAmount(law.Speedup(most), "ratio"), "between": "", "beyond": ""}
	limit, best := law.Limit()
	switch {
	case law.Crosstalk > 0:
		if best > most {
			words["beyond"] = texts.Sentence("law.beyond", nil)
		}
		words["best"], words["speed"] = withNoun(math.Max(1, math.Round(best)), string(c.unit)), formatAmount(limit, "ratio")
		c.addVerdict("crosstalk", "info", best, c.unit.plural(), "law.usl", words)
	case law.Serial == 0:
		c.addVerdict("law", "good", 0, "ratio", "law.parallel", words)
	default:
		if !math.IsNaN(law.SerialLow) {
			words["between"] = phrase.Join(" ", texts.Sentence("law.between",
				phrase.Words{"low": phrase.Percent(law.SerialLow), "high": phrase.Percent(law.SerialHigh)}))
		}
		words["limit"] = formatAmount(limit, "ratio")
		c.addVerdict("law", "info", law.Serial, "ratio", "law.amdahl", words)
	}
}

// reportDoubling reports the effect of twice the cores.
func (c *comparison) reportDoubling(law *Fit) {
	given, ok := figure.Known(c.u.Given)
	if !ok || given < 1 || c.u.GivenBy != "" {
		return
	}
	gain := law.Speedup(2*given)/law.Speedup(given) - 1
	words := phrase.Words{"given": withNoun(given, "core"), "gain": describeGain(gain)}
	if gain >= 0.1 {
		c.addVerdict("limit", "info", gain, "ratio", "double.yes", words)
		return
	}
	half := math.Max(1, math.Floor(given/2))
	words["loss"] = phrase.Percent(max(0, law.Speedup(given)/law.Speedup(half)-1))
	c.addVerdict("limit", "warning", gain, "ratio", "double.no", words)
}

// reportSerial reports the Karp-Flatt metric of one run: a lower bound of the serial fraction of the work. It computes the
// metric from the busy cores, because the speed-up cannot exceed their number.
func (j *judge) reportSerial() {
	u := j.u
	given, ok := figure.Known(u.Given)
	mean, measured := figure.Known(u.CoresMean)
	cpu, _ := figure.Known(u.CPUSeconds)
	wait, _ := figure.Known(u.WaitSeconds)
	stalled, _ := figure.Known(u.StorageStalledSeconds)
	throttled, _ := figure.Known(u.ThrottledSeconds)
	held := wait >= 0.1*(cpu+wait) && wait > 0 || max(stalled, throttled) >= 0.05*u.WallSeconds
	if !ok || !measured || u.AtLeast || u.Waits || held || u.WallSeconds < minJudgedSeconds || given < 2 || mean < 1 || mean >= 0.8*given {
		return
	}
	share := (1/mean - 1/given) / (1 - 1/given)
	j.addVerdict("serial", "info", share, "ratio", "serial",
		phrase.Words{"mean": formatAmount(mean, "cores"), "given": withNoun(given, "core"), "serial": phrase.Percent(share)})
}

// dropUnmeasured drops the runs without measured use.
func (c *comparison) dropUnmeasured() {
	var runs []Run
	for _, r := range c.runs {
		if v, ok := figure.Known(r.Used); ok && v > 0 && r.Seconds > 0 {
			runs = append(runs, r)
		}
	}
	c.runs, c.sizes = runs, distinctSizes(runs)
}

// useRatio returns the ratio between the largest and the smallest use of the runs.
func (c *comparison) useRatio() float64 {
	least, most := math.Inf(1), 0.0
	for _, r := range c.runs {
		least, most = min(least, *r.Used), max(most, *r.Used)
	}
	return most / least
}

// busyAt returns the mean number of busy cores or GPUs of the runs at a size; 0 without any.
func (c *comparison) busyAt(size float64) float64 {
	var list []float64
	for _, r := range c.runs {
		if r.Size == size {
			list = append(list, *r.Used/r.Seconds)
		}
	}
	if len(list) == 0 {
		return 0
	}
	return quantiles.Median(list)
}

// timeAt returns the median time of the runs at a size.
func (c *comparison) timeAt(size float64) float64 {
	var list []float64
	for _, r := range c.runs {
		if r.Size == size {
			list = append(list, r.Seconds)
		}
	}
	return quantiles.Median(list)
}

func (c *comparison) countWaited() (n int) {
	for _, r := range c.runs {
		if r.Waited {
			n++
		}
	}
	return n
}

// basisText describes the runs that a sentence is based on.
func (c *comparison) basisText() phrase.Text {
	first, last := c.sizes[0], c.sizes[len(c.sizes)-1]
	return phrase.Join(plural(len(c.runs)), " at ", formatAmount(float64(len(c.sizes)), "count"), " sizes, ", formatAmount(first, "count"),
		" to ",
		withNoun(last, string(c.unit)))
}

func describeGain(gain float64) phrase.Text {
	if gain < 0 {
		return phrase.Join(phrase.Percent(-gain), " slower")
	}
	return phrase.Join(phrase.Percent(gain), " faster")
}

func distinctSizes(runs []Run) []float64 {
	var out []float64
	for _, r := range runs {
		out = append(out, r.Size)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func plural(runs int) phrase.Text { return withNoun(float64(runs), "run") }
