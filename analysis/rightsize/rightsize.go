// Package rightsize recommends the requests of the next run of a workload from the use of this run
// and earlier runs of the same work.
//
// It follows the advice of help desks: cores for the sustained use (p95), memory for the peak plus
// a fifth, because a job that needs a little more is killed, and time for the longest run plus a
// quarter. Memory is the needed memory without page cache, which fills all available memory. The
// greatest need of all runs counts, never a mean; figures that are bounds, estimates or modelled
// are ignored. A run that was killed for lack of memory, or at its time limit, shows only that it
// needed more, so the advice exceeds what it had. A figure without evidence in any run is nil.
//
// Figures are in SI base units (cores, bytes, seconds), summed over all nodes. The package is pure
// and safe for concurrent use, and returns no errors.
package rightsize

import (
	"cmp"
	_ "embed"
	"math"

	"reckon/figure"
	"reckon/internal/phrase"
)

//go:embed texts.txt
var textFile string

var texts = phrase.MustParse(textFile)

// Run is a run with facts beyond its record. A nil figure was not measured or not requested.
type Run struct {
	figure.Run
	Seconds             float64
	Nodes               int      // their number
	Cores, Memory, GPUs *float64 // allocated, or requested
	// The figures are bounds, estimates or modelled.
	CPUInexact, MemoryInexact, GPUInexact bool
	// Done is true if the run ended successfully by itself. Only then does its length show how long the work takes.
	Done               bool
	OutOfMemory, Limit bool // it was killed for lack of memory, at its time limit
	// Cut is true if it is running, failed or was stopped: its use so far is only a lower bound of its need.
	Cut bool
	// Squeezed is true if its memory was full, page cache included, and it was slowed down by that.
	Squeezed bool
	// Idle is true if it did nothing for all of its time: that shows no need of more time.
	Idle bool
	// Service is true if it runs until it is stopped, so that its length shows no need of time.
	Service bool
	// Waited is true if its threads waited for cores, so that it used fewer than it wanted.
	Waited bool
}

// Advice is the recommended request, summed over all nodes.
type Advice struct {
	Runs                         int // number of runs it is based on
	Cores, Memory, Seconds, GPUs *float64
	Why                          []phrase.Sentence // one per figure, and caveats
}

// Margins, and thresholds below which a run shows nothing about its need of cores or GPUs.
const (
	memoryMargin = 1.2
	raised       = 1.5  // times the memory or time of a killed run
	enlarged     = 1.25 // times the memory of a run slowed down by lack of memory
	timeMargin   = 1.25
	steady       = 1.1  // times its mean use: a run with its p95 within that did not vary
	busyGPU      = 0.15 // of a GPU: below that it is not worth one
)

// Settled is the shortest run in seconds that shows a need of cores or GPUs. Shorter commands get no advice.
const Settled = 30.0

// Recommend returns the recommended request for the next run. runs are past runs, the latest first; the advice is about
// that one. Runs with another number of nodes than the latest do not count. Cores are rounded up to whole cores, or to
// tenths if fraction is set.
func Recommend(runs []Run, fraction bool) *Advice {
	if len(runs) == 0 {
		return nil
	}
	var same []Run
	for _, r := range runs {
		if r.Nodes == runs[0].Nodes {
			same = append(same, r)
		}
	}
	a := &Advice{Runs: len(same)}
	a.recommendMemory(same)
	a.recommendCores(same, fraction)
	a.recommendGPUs(same)
	if !runs[0].Service {
		a.recommendTime(same)
	}
	if a.Cores == nil && a.Memory == nil && a.Seconds == nil && a.GPUs == nil {
		return nil
	}
	return a
}

func (a *Advice) addReason(key string, words phrase.Words) {
	a.Why = append(a.Why, texts.Sentence(key, words))
}

// sentenceKey returns the key of a sentence for one run or for several.
func sentenceKey(key string, runs int) string {
	if runs == 1 {
		return key + ".one"
	}
	return key
}

func (a *Advice) recommendMemory(runs []Run) {
	peak, bound, n, cached, whole, apart := 0.0, 0.0, 0, false, false, false // bound is of inexact runs
	floor, slow := 0.0, 0.0                                                  // insufficient amount, and barely sufficient one
	var killed, squeezed, largest int
	for i, r := range runs {
		need, ok := figure.Known(r.NeededMost())
		had, limited := figure.Known(r.Memory)
		if all, ok := figure.Known(r.MemoryPeakBytes); r.OutOfMemory && limited && ok && all < 0.9*had {
			continue // killed at a lower limit, such as a step's, or by the machine
		}
		if !ok {
			need, ok = figure.Known(r.MemoryPeakBytes)
			cached = cached || ok
		}
		switch {
		case !ok || need == 0:
		case r.MemoryInexact:
			bound = max(bound, need)
		default:
			if low, ok := figure.Known(r.MemoryNeededPeakBytes); need > peak {
				largest, apart = i, ok && need > low*(1+figure.Apart)
			}
			peak, n, whole = max(peak, need), n+1, whole || !r.Cut
		}
		if v := max(had, need); r.OutOfMemory && v > floor {
			floor, killed = v, i
		}
		if limited && r.Squeezed && had > slow {
			slow, squeezed = had, i
		}
	}
	switch {
	case floor > 0 && floor*raised > max(peak*memoryMargin, slow*enlarged):
		v, step := roundMemory(floor * raised)
		a.Memory = &v
		a.addReason("memory.killed", phrase.Words{"memory": phrase.Bytes(v), "step": phrase.Bytes(step),
			"had": runs[killed].markOtherRun(killed, phrase.Bytes(floor)), "run": nameRun(runs, killed)})
	case slow > 0 && slow*enlarged > peak*memoryMargin:
		v, step := roundMemory(slow * enlarged)
		a.Memory = &v
		a.addReason("memory.squeezed", phrase.Words{"memory": phrase.Bytes(v), "step": phrase.Bytes(step),
			"had": runs[squeezed].markOtherRun(squeezed, phrase.Bytes(slow)), "run": nameRun(runs, squeezed)})
	case whole && bound <= peak*memoryMargin:
		v, step := roundMemory(peak * memoryMargin)
		a.Memory = &v
		key := "memory.needed"
		switch {
		case cached:
			key = "memory.peak"
		case apart:
			key = "memory.most"
		}
		a.addReason(sentenceKey(key, n), phrase.Words{"memory": phrase.Bytes(v), "step": phrase.Bytes(step), "runs": runsText(n),
			"peak": runs[largest].markOtherRun(largest, phrase.Bytes(peak))})
	default:
		a.addReason("memory.none", nil)
	}
}

func (a *Advice) recommendCores(runs []Run, fraction bool) {
	unit := 1.0
	if fraction {
		unit = 0.1
	}
	most, n, had, whole, waited := 0.0, 0, 0.0, false, ""
	lack := "" // reason for no advice, by the latest run without a known need
	for _, r := range runs {
		v, ok := figure.Known(r.CoresP95)
		used := v
		given, _ := figure.Known(r.Cores)
		if !ok || r.CPUInexact || r.Seconds < Settled {
			if ok && !r.CPUInexact {
				lack = cmp.Or(lack, "cores.none.short")
			}
			lack = cmp.Or(lack, "cores.none.inexact")
			continue
		}
		if r.Waited && !(given > 0 && v >= 0.9*given) {
			if v, ok = r.wantedCores(v); !ok {
				lack = cmp.Or(lack, "cores.none.waited")
				continue
			}
		}
		if v >= most {
			most, had, waited = v, given, ""
			switch {
			case v > used && r.Exactness["cpu_wait_seconds"] != figure.Exact:
				waited = ".bound"
			case v > used:
				waited = ".waited"
			}
		}
		n, whole = n+1, whole || !r.Cut
	}
	if !whole {
		a.addReason(cmp.Or(lack, "cores.none.cut"), phrase.Words{"short": phrase.Time(Settled)})
		return
	}
	v := max(unit, math.Round(math.Ceil((most-unit/20)/unit)*unit*10)/10)
	var shared phrase.Text
	if tasks, _ := figure.Known(runs[0].RequestTasks); tasks > 1 {
		v, shared = math.Ceil(v/tasks)*tasks, phrase.Join(" for its ", phrase.Count(tasks), " tasks")
	}
	words := phrase.Words{"tasks": shared, "p95": phrase.Count(most), "had": phrase.Count(had), "runs": runsText(n)}
	if had > 0 && most >= 0.9*had {
		v = max(v, had)
		a.Cores = &v
		words["cores"] = phrase.Count(v)
		a.addReason("cores.used"+waited, words)
		return
	}
	a.Cores = &v
	words["cores"] = phrase.Count(v)
	a.addReason(sentenceKey("cores.fewer"+waited, n), words)
}

func (a *Advice) recommendGPUs(runs []Run) {
	most, had, whole := 0.0, 0.0, false
	for _, r := range runs {
		used, ok := figure.Known(r.GPUSeconds)
		given, asked := figure.Known(r.GPUs)
		if ok && asked && given > 0 && !r.GPUInexact && r.Seconds >= Settled {
			most, had, whole = max(most, used/r.Seconds), max(had, given), whole || !r.Cut
		}
	}
	if !whole {
		return
	}
	words := phrase.Words{"had": gpusText(had), "share": phrase.Percent(most / had), "busy": phrase.Count(most)}
	v := 0.0
	switch {
	case most == 0:
		a.addReason("gpus.never", words)
	case most < busyGPU:
		a.addReason("gpus.idle", words)
	default:
		// Only the mean is known: the recommendation leaves a margin.
		v = min(had, math.Ceil(most/0.9))
		words["gpus"] = phrase.Count(v)
		a.addReason("gpus.fewer", words)
	}
	a.GPUs = &v
}

// wantedCores returns an upper bound of the cores that a run would have used without waiting; a lower bound if its wait is one. It is
// p95, the 95th percentile of cores in use, plus the wait. ok is false if the wait is known only over the whole time of a run with
// varying use.
func (r *Run) wantedCores(p95 float64) (float64, bool) {
	cpu, ok := figure.Known(r.CPUSeconds)
	wait, known := figure.Known(r.CPUWaitSeconds)
	v, ticks := figure.Known(r.CoresWantedP95)
	e := r.Exactness["cpu_wait_seconds"]
	if !ok || !known || e != figure.Exact && !(ticks && e == figure.AtLeast) {
		return 0, false
	}
	if v /= steady; !ticks { // its buckets are a tenth wide, and ticks are a little longer than a second at times
		if p95 > steady*cpu/r.Seconds {
			return 0, false
		}
		v = (cpu + wait) / r.Seconds
	}
	v = max(p95, v)
	if given, ok := figure.Known(r.Cores); ok && given > 0 {
		v = min(v, given)
	}
	return v, true
}

// nameRun names one of the runs in a sentence about the first.
func nameRun(runs []Run, i int) phrase.Text {
	if i == 0 || runs[i].ID == "" {
		return phrase.Join("it")
	}
	return phrase.Join("a run (", phrase.Text{{Name: "run", Text: runs[i].ID}}, ")")
}

// markOtherRun marks a statement about a run other than the first.
func (r *Run) markOtherRun(i int, said phrase.Text) phrase.Text {
	if i == 0 {
		return said
	}
	return said.Of(r.ID)
}

func (a *Advice) recommendTime(runs []Run) {
	longest, n, floor, limited, slowest := 0.0, 0, 0.0, 0, 0
	going, over := 0.0, 0 // of runs that have not ended, or were ended before they were done
	for i, r := range runs {
		if r.Done && r.Seconds > 0 {
			if n++; r.Seconds > longest {
				longest, slowest = r.Seconds, i
			}
		}
		if !r.Done && !r.Idle && r.Seconds > going {
			going, over = r.Seconds, i
		}
		if asked, _ := figure.Known(r.RequestSeconds); r.Limit && !r.Idle && max(asked, r.Seconds) > floor {
			floor, limited = max(asked, r.Seconds), i
		}
	}
	switch {
	case floor > 0 && floor*raised > longest*timeMargin:
		v, step := roundTime(floor * raised)
		a.Seconds = &v
		a.addReason("time.limit", phrase.Words{"time": phrase.Time(v), "step": phrase.Time(step),
			"had": runs[limited].markOtherRun(limited, phrase.Time(floor)), "run": nameRun(runs, limited)})
	case n > 0 && going > longest:
		v, step := roundTime(going * timeMargin)
		a.Seconds = &v
		a.addReason("time.going", phrase.Words{"time": phrase.Time(v), "step": phrase.Time(step),
			"took": runs[over].markOtherRun(over, phrase.Time(going)), "run": nameRun(runs, over)})
	case n > 0:
		v, step := roundTime(longest * timeMargin)
		a.Seconds = &v
		a.addReason(sentenceKey("time.longest", n), phrase.Words{"time": phrase.Time(v), "step": phrase.Time(step), "runs": runsText(n),
			"longest": runs[slowest].markOtherRun(slowest, phrase.Time(longest))})
	}
}

// roundMemory rounds up to customary sizes: multiples of 64 MiB below 1 GiB, of 256 MiB below 16
// GiB, else of 1 GiB. It returns the unit, too.
func roundMemory(bytes float64) (rounded, unit float64) {
	unit = 1 << 30
	switch {
	case bytes <= 1<<30:
		unit = 64 << 20
	case bytes <= 16<<30:
		unit = 256 << 20
	}
	return math.Ceil(bytes/unit-1e-9) * unit, unit
}

// roundTime rounds up to 1 min below 1 h, to 15 min below 1 day, otherwise to 1 h. It returns the unit, too.
func roundTime(seconds float64) (rounded, unit float64) {
	unit = 3600
	switch {
	case seconds <= 3600:
		unit = 60
	case seconds <= 86400:
		unit = 900
	}
	return math.Ceil(seconds/unit-1e-9) * unit, unit
}
