package efficiency

import (
	"fmt"

	"reckon/figure"
	"reckon/internal/phrase"
)

const (
	enoughCycles = 10e9 // a few seconds of a core, before cycles are judged
	stalledIPC   = 0.7  // instructions in a cycle; fewer mean that cores wait
	flowingIPC   = 1.5  // and more that they do not
	// Memory traffic in bytes per second of CPU time. Serial memory accesses fetch a 64-byte line in about 80 ns, which
	// is 0.8 GB/s; half of that means that the core mostly waits. One core can fetch 5 to 15 GB/s; more indicates a
	// bandwidth limit.
	someTraffic  = 0.4e9
	heavyTraffic = 5e9
	numeric      = 0.05 // of the instructions are floating-point: it computes with such numbers
	arithmetic   = 0.1  // and too many for busy waiting
	scalar       = 0.8  // of these work on one number each
)

// counters reports the limiting resource of the workload on its cores, and whether it used vectors.
func (j *judge) counters() {
	c := &j.u.Row
	instructions, ok := figure.Known(c.Instructions)
	cycles, has := figure.Known(c.Cycles)
	if !ok || !has || cycles < enoughCycles {
		return
	}
	ipc := instructions / cycles
	w := phrase.Words{"ipc": phrase.Number(ipc, "ratio", fmt.Sprintf("%.1f", ipc))}
	fp, counts := figure.Known(c.FPInstructions)
	switch {
	case ipc < stalledIPC:
		rate := j.trafficRate()
		text := "processor.stalled"
		if w["rate"] = phrase.Bytes(rate); rate >= heavyTraffic {
			text = "processor.bandwidth"
		} else if rate >= someTraffic {
			text = "processor.memory"
		}
		j.addVerdict("processor", Info, ipc, "ratio", text, w)
	case ipc >= flowingIPC && counts && fp >= arithmetic*instructions:
		w["share"] = phrase.Percent(fp / instructions)
		j.addVerdict("processor", Info, ipc, "ratio", "processor.arithmetic", w)
	case ipc >= flowingIPC:
		j.addVerdict("processor", Info, ipc, "ratio", "processor.flowing", w)
	}
	ones, split := figure.Known(c.FPScalarInstructions)
	if counts && split && fp >= numeric*instructions && ones >= scalar*fp {
		j.addVerdict("vectors", Info, ones/fp, "ratio", "processor.scalar", phrase.Words{"share": phrase.Percent(ones / fp)})
	}
}

// trafficRate returns its memory traffic per second of CPU time in bytes, or 0 if unknown.
func (j *judge) trafficRate() float64 {
	traffic, seen := figure.Known(j.u.MemoryTrafficBytes)
	if cpu, used := figure.Known(j.u.CPUSeconds); seen && used && cpu > 0 {
		return traffic / cpu
	}
	return 0
}
