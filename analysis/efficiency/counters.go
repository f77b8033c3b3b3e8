package efficiency

import (
	"fmt"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

// Counted is what the counters of the processors counted; nil what was not.
type Counted struct {
	Instructions, Cycles *float64
	FP, FPScalar         *float64 // floating-point instructions, and those that are not vectors
	MemoryTraffic        *float64 // bytes between caches and memory, mostly estimated from cache misses
}

const (
	enoughCycles = 10e9 // a few seconds of a core, before cycles are judged
	stalledIPC   = 0.7  // instructions in a cycle; fewer mean that cores wait
	flowingIPC   = 1.5  // and more that they do not
	heavyTraffic = 1e9  // bytes a second of CPU time; what one core can fetch is 5 to 15 times that
	numeric      = 0.05 // of the instructions are floating-point: it computes with such numbers
	scalar       = 0.8  // of these work on one number each
)

// counters says what limited it on the cores that it had, and whether it used vectors.
func (j *judge) counters() {
	c := &j.u.Counted
	instructions, ok := known(c.Instructions)
	cycles, has := known(c.Cycles)
	if !ok || !has || cycles < enoughCycles {
		return
	}
	ipc := instructions / cycles
	w := phrase.Words{"ipc": fmt.Sprintf("%.1f", ipc)}
	cpu, used := known(j.u.CPUSeconds)
	traffic, seen := known(c.MemoryTraffic)
	switch {
	case ipc < stalledIPC && used && cpu > 0 && seen && traffic/cpu >= heavyTraffic:
		w["rate"] = format.Bytes(traffic / cpu)
		j.say("processor", Info, ipc, "ratio", "processor.memory", w)
	case ipc < stalledIPC:
		j.say("processor", Info, ipc, "ratio", "processor.stalled", w)
	case ipc >= flowingIPC:
		j.say("processor", Info, ipc, "ratio", "processor.computing", w)
	}
	fp, counts := known(c.FP)
	ones, split := known(c.FPScalar)
	if counts && split && fp >= numeric*instructions && ones >= scalar*fp {
		j.say("vectors", Info, ones/fp, "ratio", "processor.scalar", phrase.Words{"share": format.Percent(ones / fp)})
	}
}
