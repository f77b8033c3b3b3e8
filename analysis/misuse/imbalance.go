package misuse

import (
	"math"

	"reckon/internal/phrase"
)

func (b *ImbalanceRule) needs() (Needs, bool) { return Needs{Ran: b.Minimum}, b.On }

// judge finds jobs with idle nodes, tasks or GPUs while others work.
func (b *ImbalanceRule) judge(w *Workload, _ *Policy) (out []Finding) {
	wall := w.Wall()
	for _, k := range []struct {
		part, what string
		by         map[string]float64
		floor      float64
		unit       string
		inexact    bool
		wasted     func(idle, all float64) Evidence
	}{
		{"nodes", "nodes", w.PerNode, b.Busy, "cores", w.CPUInexact, w.idleCores},
		{"gpus", "GPUs", w.PerGPU, b.GPUBusy, "ratio", w.GPUInexact, w.idleGPUs},
	} {
		if len(k.by) < 2 || k.inexact {
			continue
		}
		most := 0.0
		for _, v := range k.by {
			most = math.Max(most, v)
		}
		idle := 0
		for _, v := range k.by {
			if v < b.Idle*most {
				idle++
			}
		}
		// If nothing works, the job is idle rather than unbalanced.
		if idle == 0 || most/wall < k.floor {
			continue
		}
		e := []Evidence{{Text: k.what + " that are idle", Value: float64(idle), Unit: "count"},
			{Text: "use of the busiest", Value: most / wall, Unit: k.unit, Limit: limit(k.floor)}}
		if x := k.wasted(float64(idle), float64(len(k.by))); x.Value > 0 {
			e = append(e, x)
		}
		out = append(out, w.newFinding(Imbalance, highIf(Medium, idle*2 >= len(k.by)), k.part, "imbalance",
			phrase.Words{"idle": phrase.Count(float64(idle)), "all": phrase.Count(float64(len(k.by))), "what": k.what}, e...))
	}
	return append(out, w.unevenTasks(b)...)
}

// StepTasks is the balance of CPU use over the tasks of a step on a node.
type StepTasks struct {
	Step, Node          string
	Tasks               float64
	Busiest, CPUSeconds float64 // CPU time of the busiest task, and of all tasks, seconds
}

// otherMean returns the mean CPU time of the tasks other than the busiest, seconds.
func (t *StepTasks) otherMean() float64 { return max(t.CPUSeconds-t.Busiest, 0) / (t.Tasks - 1) }

// unusedCoreSeconds returns the core-seconds that the other tasks left unused, compared with the busiest one.
func (t *StepTasks) unusedCoreSeconds() float64 { return (t.Busiest - t.otherMean()) * (t.Tasks - 1) }

// minExplained is the minimum share of the unused allocation that idle tasks must explain; otherwise the request is to blame.
const minExplained = 0.5

// unevenTasks finds steps that have one task with much more work than the others on its node.
func (w *Workload) unevenTasks(b *ImbalanceRule) []Finding {
	if w.CPUInexact {
		return nil
	}
	var worst *StepTasks
	unused, wall := 0.0, w.Wall()
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Tasks < 2 || t.Busiest/wall < b.Busy || t.otherMean() >= b.Tasks*t.Busiest {
			continue
		}
		if unused += t.unusedCoreSeconds(); worst == nil || t.unusedCoreSeconds() > worst.unusedCoreSeconds() {
			worst = t
		}
	}
	if worst == nil || isKnown(w.Cores) && isKnown(w.CPUSeconds) && unused < minExplained*(*w.Cores*wall-*w.CPUSeconds) {
		return nil
	}
	share := worst.otherMean() / worst.Busiest
	return []Finding{w.newFinding(Imbalance, highIf(Medium, share < b.Idle), "tasks", "imbalance.tasks",
		phrase.Words{"tasks": phrase.Count(worst.Tasks), "step": worst.Step, "node": worst.Node, "busiest": phrase.Time(worst.Busiest),
			"rest": phrase.Time(worst.otherMean())},
		Evidence{Text: "CPU time of the other tasks, on average, beside the busiest's", Value: share, Unit: "ratio",
			Limit: limit(b.Tasks)},
		Evidence{Text: "use of the busiest", Value: worst.Busiest / wall, Unit: "cores", Limit: limit(b.Busy)},
		Evidence{Text: "allocated and not used", Value: unused, Unit: "core-seconds", Wasted: true})}
}

// idleCores returns the core-seconds allocated to the idle part of a workload.
func (w *Workload) idleCores(idle, all float64) Evidence {
	e := Evidence{Text: "allocated and not used", Unit: "core-seconds", Wasted: true}
	if isKnown(w.Cores) {
		e.Value = *w.Cores * idle / all * w.Wall()
	}
	return e
}

func (w *Workload) idleGPUs(idle, _ float64) Evidence {
	return Evidence{Text: "GPU time allocated and not used", Value: idle * w.Wall(), Unit: "gpu-seconds", Wasted: true}
}
