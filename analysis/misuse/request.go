package misuse

import (
	"math"

	"reckon/internal/phrase"
	"reckon/workload"
)

// unusedShare returns the used share of an allocation, and the unused amount times the wall time. given and used are the allocated and
// the used amount, and least is the smallest allocation that is judged. The share is NaN if it is unknown or not judged.
func unusedShare(given, used *float64, least, wall float64, inexact bool) (share, amount float64) {
	if inexact || !isKnown(given) || !isKnown(used) || *given < least || *given <= 0 {
		return math.NaN(), 0
	}
	return *used / *given, math.Max(0, *given-*used) * wall
}

// peakNeed returns the highest memory that a workload can have needed, without page cache if that is known separately.
func (w *Workload) peakNeed() *float64 {
	if most := w.NeededMost(); isKnown(most) {
		return most
	}
	return w.MemoryPeakBytes
}

// idleCores is the use of cores below which they count as idle.
const idleCores = 0.05

// was returns the verb for the way in which the work got its resources.
func (w *Workload) was() string {
	if workload.Kind(w.Kind).Scheduled() {
		return "was allocated"
	}
	return "requested"
}

func (g *OverRequestedRule) needs() (Needs, bool) { return Needs{Ran: g.Minimum}, g.On }

// judge finds allocations far above the use at p95, with a significant waste.
func (g *OverRequestedRule) judge(w *Workload, _ *Policy) (out []Finding) {
	wall := w.Wall()
	if share, wasted := unusedShare(w.Cores, w.CoresP95, g.MinCores, wall, w.CPUInexact); share < g.Share && wasted >= g.CoreHours*3600 {
		key := "over-requested.cpu"
		if *w.CoresP95 < idleCores {
			key = "over-requested.idle"
		}
		out = append(out, w.newFinding(OverRequested, highIf(Medium, wasted >= 10*g.CoreHours*3600), "cpu", key,
			phrase.Words{"was": w.was(), "allocated": quantity(*w.Cores, "core"), "p95": phrase.AtMost(*w.CoresP95)},
			Evidence{Text: "p95 of the cores allocated", Value: share, Unit: "ratio", Limit: limit(g.Share)},
			Evidence{Text: "allocated and not used", Value: wasted, Unit: "core-seconds", Limit: limit(g.CoreHours * 3600), Wasted: true}))
	}
	need := w.peakNeed()
	if share, wasted := unusedShare(w.Memory, need, g.MinMemory, wall, w.MemoryInexact || w.Squeezed); share < g.Share &&
		wasted >= g.GiBHours*3600*(1<<30) {
		out = append(out, w.newFinding(OverRequested, Low, "memory", "over-requested.memory",
			phrase.Words{"was": w.was(), "allocated": phrase.Bytes(*w.Memory), "peak": phrase.Bytes(*need)},
			Evidence{Text: "peak of the memory allocated", Value: share, Unit: "ratio", Limit: limit(g.Share)},
			Evidence{Text: "allocated and not used", Value: wasted, Unit: "byte-seconds", Limit: limit(g.GiBHours * 3600 * (1 << 30)),
				Wasted: true}))
	}
	return out
}
