package scaling

import (
	_ "embed"
	"slices"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/phrase"
)

//go:embed texts.txt
var textFile string

var texts = phrase.MustParse(textFile)

// Verdict is one sentence and the number behind it.
type Verdict struct {
	Kind     string // cores, cause, runs, law, crosstalk, work, limit, weak or waited
	Severity string // warning, good or info
	Text     string
	Sentence phrase.Sentence
	Value    float64
	Unit     string // ratio, count, cores, gpus or seconds
}

// Use is the use of one run and its allocation; a nil figure was not measured.
type Use struct {
	WallSeconds                                 float64
	Given                                       *float64 // cores
	GivenBy                                     string   // "" allocated; else by whom the cores are given, such as "of its node"
	CoresMean, CoresP50, CoresP95               *float64
	CPUSeconds, WaitSeconds, CoresWantedP95     *float64 // wanted: use and wait together
	ThrottledSeconds                            *float64
	GPUs, GPUSeconds                            *float64
	MemoryNeeded, Memory, SwapPeak              *float64
	StorageStalledSeconds, MemoryStalledSeconds *float64
	Threads                                     *float64 // most at a time
	AtLeast                                     bool     // CPU figures are lower bounds
	Waits                                       bool     // has not started
	Killed                                      bool     // for lack of memory
	Array                                       string   // the array that it represents; empty for a job of its own
}

// minJudgedSeconds is the minimum length of a run to be judged, seconds.
const minJudgedSeconds = 30.0

type judge struct {
	u   Use
	out []Verdict
}

func (j *judge) addVerdict(kind, severity string, value float64, unit, key string, words phrase.Words) {
	of := texts.Sentence(key, words)
	j.out = append(j.out, Verdict{kind, severity, of.String(), of, value, unit})
}

func (j *judge) sortedVerdicts() []Verdict {
	order := []string{"warning", "good", "info"}
	slices.SortStableFunc(j.out, func(a, b Verdict) int { return slices.Index(order, a.Severity) - slices.Index(order, b.Severity) })
	return j.out
}

// judgeSingle judges a single run and returns whether some of its cores are unused.
func (j *judge) judgeSingle() (spare bool) {
	switch {
	case j.u.Array != "":
		j.addVerdict("cores", "info", 0, "cores", "array", phrase.Words{"task": j.u.Array})
	case j.u.Waits:
		j.addVerdict("cores", "info", 0, "cores", "waiting", nil)
	default:
		spare = j.hasSpareCores()
		j.reportCauses(spare)
	}
	return spare
}

// hasSpareCores reports whether the run had more cores than it used, and adds the verdict about them.
func (j *judge) hasSpareCores() (spare bool) {
	u := j.u
	given, ok := figure.Known(u.Given)
	p95, sustained := figure.Known(u.CoresP95)
	mean, summed := figure.Known(u.CoresMean)
	if !ok || given <= 0 || !sustained && !summed {
		j.addVerdict("cores", "info", 0, "cores", "cores.unknown", nil)
		return false
	}
	if u.WallSeconds < minJudgedSeconds {
		j.addVerdict("cores", "info", u.WallSeconds, "seconds", "cores.short", phrase.Words{"wall": formatSeconds(u.WallSeconds)})
		return false
	}
	of := withNoun(given, "core")
	if u.GivenBy != "" {
		of = phrase.Join(of, " "+u.GivenBy)
	}
	cpu, _ := figure.Known(u.CPUSeconds)
	wait, _ := figure.Known(u.WaitSeconds)
	w := phrase.Words{"p95": formatAmount(p95, "cores"), "given": of, "mean": formatAmount(mean, "cores")}
	switch {
	case !sustained: // accounting reports only the sum
		j.addVerdict("cores", "info", mean/given, "ratio", "cores.mean", w)
	case u.AtLeast:
		j.addVerdict("cores", "info", p95/given, "ratio", "cores.at-least", w)
	case wait >= 0.1*(cpu+wait) && wait > 0 && p95 < 0.8*given:
		j.addVerdict("cores", "info", p95/given, "ratio", "cores.starved", w)
	case p95 <= 0.6*given && given >= 2:
		j.addVerdict("cores", "warning", p95/given, "ratio", "cores.spare", w)
		return true
	case p95 >= 0.8*given && mean >= 0.8*p95:
		j.addVerdict("cores", "good", p95/given, "ratio", "cores.used", w)
	case p95 >= 0.8*given:
		j.addVerdict("cores", "info", mean/given, "ratio", "cores.phases", w)
	default:
		j.addVerdict("cores", "info", p95/given, "ratio", "cores.nearly", w)
		return true
	}
	return false
}

// reportCauses reports the limits of the run, and thus the possible improvements.
func (j *judge) reportCauses(spare bool) {
	u := j.u
	if u.Killed {
		j.addVerdict("cause", "warning", 1, "count", "cause.killed", nil)
	}
	if u.WallSeconds < minJudgedSeconds {
		return
	}
	before := len(j.out)
	over := func(v *float64, whole float64) float64 {
		x, ok := figure.Known(v)
		if !ok || whole <= 0 {
			return 0
		}
		return x / whole
	}
	because := func(severity string, share float64, key string, words phrase.Words) {
		if words == nil {
			words = phrase.Words{}
		}
		words["share"] = phrase.Percent(share)
		j.addVerdict("cause", severity, share, "ratio", key, words)
	}
	if s := over(u.ThrottledSeconds, u.WallSeconds); s >= 0.05 {
		because("warning", s, "cause.quota", nil)
	}
	if cpu, ok := figure.Known(u.CPUSeconds); ok {
		wait, _ := figure.Known(u.WaitSeconds)
		if s := over(u.WaitSeconds, cpu+wait); s >= 0.1 {
			because("warning", s, "cause.waits."+figure.WaitCause(u.Given, u.Threads, u.CoresWantedP95, cpu, u.WallSeconds), nil)
		}
	}
	if gpus, ok := figure.Known(u.GPUs); ok && gpus > 0 {
		if s := over(u.GPUSeconds, gpus*u.WallSeconds); s >= 0.7 {
			because("info", s, "cause.gpus", phrase.Words{"gpus": withNoun(gpus, "GPU")})
		}
	}
	if s := over(u.StorageStalledSeconds, u.WallSeconds); s >= 0.1 {
		because("warning", s, "cause.storage", nil)
	}
	swap, _ := figure.Known(u.SwapPeak)
	memory, _ := figure.Known(u.Memory)
	stalled := over(u.MemoryStalledSeconds, u.WallSeconds)
	switch full := over(u.MemoryNeeded, memory); {
	case swap >= 64<<20 || stalled >= 0.1:
		because("warning", stalled, "cause.memory", nil)
	case full >= 0.95 && !u.Killed:
		because("warning", full, "cause.memory-full", nil)
	}
	if spare && len(j.out) == before {
		j.addVerdict("cause", "info", 0, "count", "cause.own", nil)
	}
}

// withNoun formats a number with its noun: 1 core, 4 GPUs.
func withNoun(n float64, noun string) phrase.Text {
	text := "1 " + noun
	if n != 1 {
		text = format.Count(n) + " " + noun + "s"
	}
	return phrase.Number(n, "count", text)
}

// formatAmount formats a figure without its unit.
func formatAmount(v float64, unit string) phrase.Text { return phrase.Number(v, unit, format.Count(v)) }

// formatSeconds formats a time as seconds.
func formatSeconds(v float64) phrase.Text { return phrase.Number(v, "seconds", format.Count(v)+" s") }
