package slurmtext

import (
	"slices"
	"time"
)

// MaxSteps is how many steps of a job are kept one by one at most; the others are counted. Where
// there are more the lighter half of them goes.
const MaxSteps = 400

// Weights of steps above any CPU time.
const (
	weightFailed = 1e12
	weightScript = 1e15
)

// StepWeight says which steps of a job are kept where there are more than [MaxSteps]: what Slurm
// makes of each job (its script, and extern), then those that did not end well, then those that
// used most CPU time in seconds, or took longest where that is not known.
func StepWeight(id, state string, exit *int, cpu *float64, start, end time.Time) float64 {
	w := 0.0
	switch {
	case cpu != nil:
		w = *cpu
	case !start.IsZero() && end.After(start):
		w = end.Sub(start).Seconds()
	}
	switch {
	case id == "batch" || id == "extern" || id == "interactive":
		w += weightScript
	case Over(state) && state != "completed" || exit != nil && *exit != 0:
		w += weightFailed
	}
	return w
}

// KeepStep puts a step among those that are kept of a job, in their order. Of steps that weigh the
// same the first are kept.
func KeepStep[S any](kept []S, next S, weight func(*S) float64) []S {
	if kept = append(kept, next); len(kept) <= MaxSteps {
		return kept
	}
	weights := make([]float64, len(kept))
	for i := range kept {
		weights[i] = weight(&kept[i])
	}
	sorted := slices.Sorted(slices.Values(weights))
	least := sorted[len(sorted)-MaxSteps/2]
	at, same := 0, 0 // how many of the least weight stay
	for _, w := range sorted[len(sorted)-MaxSteps/2:] {
		if w == least {
			same++
		}
	}
	for i, w := range weights {
		if w < least || w == least && same == 0 {
			continue
		}
		if w == least {
			same--
		}
		kept[at] = kept[i]
		at++
	}
	clear(kept[at:])
	return kept[:at]
}
