package misuse

import (
	"math"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

// waste is what was allocated of one resource above what was used: the share used, and
// the amount by time; NaN where it is not known or not judged.
func waste(given, used *float64, least, wall float64, inexact bool) (share, amount float64) {
	if inexact || !known(given) || !known(used) || *given < least || *given <= 0 {
		return math.NaN(), 0
	}
	return *used / *given, math.Max(0, *given-*used) * wall
}

// need is the memory that a workload needed: without page cache where that is known apart.
func (w *Workload) need() *float64 {
	if known(w.MemoryNeeded) {
		return w.MemoryNeeded
	}
	return w.MemoryPeak
}

// idleCores is how many cores in use are none.
const idleCores = 0.05

// was is how the work came by what it holds.
func (w *Workload) was() string {
	if w.Kind == "slurm" {
		return "was allocated"
	}
	return "requested"
}

// overRequested: an allocation far above what is used at p95, with a waste that matters.
func overRequested(w *Workload, p *Policy) (out []Finding) {
	g := &p.OverRequested
	wall := w.Wall()
	if !g.On || wall < g.Minimum.Seconds() {
		return nil
	}
	if share, wasted := waste(w.Cores, w.CoresP95, g.MinCores, wall, w.CPUInexact); share < g.Share && wasted >= g.CoreHours*3600 {
		key := "over-requested.cpu"
		if *w.CoresP95 < idleCores {
			key = "over-requested.idle"
		}
		out = append(out, w.finding(OverRequested, grave(Medium, wasted >= 10*g.CoreHours*3600), "cpu", key,
			phrase.Words{"was": w.was(), "allocated": counted(*w.Cores, "core"), "p95": format.Count(*w.CoresP95)},
			Evidence{Text: "p95 of the cores allocated", Value: share, Unit: "ratio", Limit: limit(g.Share)},
			Evidence{Text: "allocated and not used", Value: wasted, Unit: "core-seconds", Limit: limit(g.CoreHours * 3600), Wasted: true}))
	}
	need := w.need()
	if share, wasted := waste(w.Memory, need, g.MinMemory, wall, w.MemoryInexact || w.Squeezed); share < g.Share && wasted >= g.GiBHours*3600*(1<<30) {
		out = append(out, w.finding(OverRequested, Low, "memory", "over-requested.memory", phrase.Words{"was": w.was(), "allocated": format.Bytes(*w.Memory), "peak": format.Bytes(*need)},
			Evidence{Text: "peak of the memory allocated", Value: share, Unit: "ratio", Limit: limit(g.Share)},
			Evidence{Text: "allocated and not used", Value: wasted, Unit: "byte-seconds", Limit: limit(g.GiBHours * 3600 * (1 << 30)), Wasted: true}))
	}
	return out
}
