// Package rightsize says what a workload should ask for next time, from what this run
// and earlier runs of the same work used.
//
// It follows what help desks advise: cores for the sustained use (p95), memory for the
// peak and a fifth more, for a job that needs a little more is killed, time for the
// longest run and a quarter more. The greatest need of all runs counts, never a mean. A
// run that was killed for want of memory, or at its time limit, shows only that it needed
// more: then the advice rises above what it had. A figure that no run shows is nil.
//
// Figures are in SI base units (cores, bytes, seconds), in sum over all nodes. Pure: no
// file, no clock; safe for concurrent use; there are no errors.
package rightsize

import (
	"fmt"
	"math"
)

// Run is one run; a nil figure was not measured or not asked for.
type Run struct {
	Seconds                                                  float64
	Nodes                                                    int
	CoresP95, MemoryPeak, GPUSeconds                         *float64
	RequestCores, RequestMemory, RequestGPUs, RequestSeconds *float64
	// Done says that it ended by itself and well: only then does its length say how long
	// the work takes.
	Done               bool
	OutOfMemory, Limit bool // it was killed for want of memory, at its limit of time
	// Waited says that its threads waited for cores, so that it used fewer than it wanted.
	Waited bool
}

// Advice is what to ask for, in sum over all nodes.
type Advice struct {
	Runs                         int // that it rests on
	Cores, Memory, Seconds, GPUs *float64
	Why                          []string // one sentence for each figure, and what speaks against it
}

// Margins, and lengths below which a run says nothing of how many cores or GPUs it needs.
const (
	memoryMargin = 1.2
	raised       = 1.5 // of what a killed run had
	timeMargin   = 1.25
	settled      = 30.0 // seconds
	busyGPU      = 0.15 // of a GPU: below it is not worth one
)

// For says what to ask for after the given runs, the latest first. The last one is what
// the answer is about: with other numbers of nodes before, only runs on as many count.
// Cores are rounded up to whole ones, or to tenths where fraction says that they can be had.
func For(runs []Run, fraction bool) *Advice {
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
	a.memory(same)
	a.cores(same, fraction)
	a.gpus(same)
	a.time(same)
	if a.Cores == nil && a.Memory == nil && a.Seconds == nil && a.GPUs == nil {
		return nil
	}
	return a
}

func (a *Advice) say(format string, args ...any) { a.Why = append(a.Why, fmt.Sprintf(format, args...)) }

func (a *Advice) memory(runs []Run) {
	peak, n := 0.0, 0
	floor := 0.0 // what was not enough
	for _, r := range runs {
		if v, ok := known(r.MemoryPeak); ok && v > 0 {
			peak, n = max(peak, v), n+1
		}
		if r.OutOfMemory {
			had, _ := known(r.RequestMemory)
			v, _ := known(r.MemoryPeak)
			floor = max(floor, had, v)
		}
	}
	switch {
	case floor > 0 && floor*raised > peak*memoryMargin:
		v := roundMemory(floor * raised)
		a.Memory = &v
		a.say("memory %s: it was killed with %s; this is at least half as much again, and the need is not known", size(v), size(floor))
	case n > 0:
		v := roundMemory(peak * memoryMargin)
		a.Memory = &v
		a.say("memory %s: the highest peak of %s was %s, and a fifth above it", size(v), runsText(n), size(peak))
	}
}

func (a *Advice) cores(runs []Run, fraction bool) {
	unit := 1.0
	if fraction {
		unit = 0.1
	}
	most, n, held := 0.0, 0, 0.0
	for _, r := range runs {
		v, ok := known(r.CoresP95)
		had, _ := known(r.RequestCores)
		if !ok || r.Seconds < settled || r.Waited && !(had > 0 && v >= 0.9*had) {
			continue
		}
		if v >= most {
			most, held = v, had
		}
		n++
	}
	if n == 0 {
		return
	}
	v := max(unit, math.Round(math.Ceil((most-unit/20)/unit)*unit*10)/10)
	if held > 0 && most >= 0.9*held {
		v = max(v, held)
		a.Cores = &v
		a.say("cores %s: it used what it held (p95 %s of %s); whether more would help is what `reckon scale` tells", count(v), count(most), count(held))
		return
	}
	a.Cores = &v
	a.say("cores %s: for 95%% of the time it used no more than %s (the most of %s)", count(v), count(most), runsText(n))
}

func (a *Advice) gpus(runs []Run) {
	most, held, n := 0.0, 0.0, 0
	for _, r := range runs {
		used, ok := known(r.GPUSeconds)
		had, asked := known(r.RequestGPUs)
		if ok && asked && had > 0 && r.Seconds >= settled {
			most, held, n = max(most, used/r.Seconds), max(held, had), n+1
		}
	}
	switch {
	case n == 0:
	case most < busyGPU:
		v := 0.0
		a.GPUs = &v
		a.say("GPUs 0: the %s it held were busy %s of the time; if it needs one after all, find out why it idles", count(held), percent(most/held))
	default:
		// The mean is all that is known: half a GPU more than it must fit.
		v := min(held, math.Ceil(most/0.9))
		a.GPUs = &v
		a.say("GPUs %s: %s were busy on average of the %s it held", count(v), count(most), count(held))
	}
}

func (a *Advice) time(runs []Run) {
	longest, n, floor := 0.0, 0, 0.0
	for _, r := range runs {
		if r.Done && r.Seconds > 0 {
			longest, n = max(longest, r.Seconds), n+1
		}
		if r.Limit {
			asked, _ := known(r.RequestSeconds)
			floor = max(floor, asked, r.Seconds)
		}
	}
	switch {
	case floor > 0 && floor*raised > longest*timeMargin:
		v := roundTime(floor * raised)
		a.Seconds = &v
		a.say("time %s: it was ended at its limit after %s; this is half as much again, and the need is not known", duration(v), duration(floor))
	case n > 0:
		v := roundTime(longest * timeMargin)
		a.Seconds = &v
		a.say("time %s: the longest of %s took %s, and a quarter above it", duration(v), runsText(n), duration(longest))
	}
}

func known(v *float64) (float64, bool) {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) || *v < 0 {
		return 0, false
	}
	return *v, true
}

// roundMemory rounds up to what people write: 64 MiB below 1 GiB, 256 MiB below 16 GiB,
// else 1 GiB.
func roundMemory(bytes float64) float64 {
	unit := float64(1 << 30)
	switch {
	case bytes <= 1<<30:
		unit = 64 << 20
	case bytes <= 16<<30:
		unit = 256 << 20
	}
	return math.Ceil(bytes/unit-1e-9) * unit
}

// roundTime rounds up to 1 min below 1 h, to 15 min below 1 day, else to 1 h.
func roundTime(seconds float64) float64 {
	unit := 3600.0
	switch {
	case seconds <= 3600:
		unit = 60
	case seconds <= 86400:
		unit = 900
	}
	return math.Ceil(seconds/unit-1e-9) * unit
}
