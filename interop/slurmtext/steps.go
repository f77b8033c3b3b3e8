package slurmtext

import (
	"slices"
	"time"
)

// MaxSteps is the maximum number of steps of a job that are kept. If there are more, the half with the lower weights is
// only counted.
const MaxSteps = 400

// Weights of steps above any CPU time.
const (
	weightFailed = 1e12
	weightScript = 1e15
)

// StepWeight returns the weight that decides which steps to keep if there are more than
// [MaxSteps]. Steps that Slurm creates for each job come first (batch script and extern), then
// failed ones, then those with the most CPU time in seconds, or the longest if CPU time is unknown.
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
	case IsFinal(state) && state != "completed" || exit != nil && *exit != 0:
		w += weightFailed
	}
	return w
}

// KeepStep adds a step to the kept steps of a job, in order. Of steps with equal weights it keeps the first ones.
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
	at, same := 0, 0 // number of steps with the lowest weight that stay
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
