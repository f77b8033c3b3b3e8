package catalogue

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"reckon/internal/series"
	"reckon/store"
)

// jobStep describes a step of a run. Fields are exported to be encoded.
type jobStep struct {
	Name, State, Nodes                    string
	T                                     int64 // of the sample that reported these
	Start, End, Exit, CPU, Memory, NCores stepValue
}

// stepValue is the newest sample of one figure of a step. T is 0 before the first sample.
type stepValue struct {
	T int64
	V float64
}

// maxSteps is the maximum number of steps kept per run. Readers of batch systems write up to a few hundred; the limit
// protects against other senders.
const maxSteps = 2000

// isStep reports whether the series of a slot are about a step.
func (s slot) isStep() bool { return s >= stepSlot && s <= stepCoresSlot }

// addStepSample records a sample of a step.
func (a *account) addStepSample(s slot, t int64, v float64, n *series.Labels) {
	x := a.Steps[n.Part]
	if x == nil {
		if len(a.Steps) >= maxSteps || n.Part == "" {
			return
		}
		if a.Steps == nil {
			a.Steps = map[string]*jobStep{}
		}
		x = &jobStep{}
		a.Steps[n.Part] = x
	}
	if s == stepSlot {
		if t > x.T {
			x.T, x.Name, x.State, x.Nodes, a.touched = t, n.Rest["name"], n.Rest["state"], n.Rest["nodes"], true
		}
		return
	}
	if of := x.stepFigure(s); t > of.T {
		*of, a.touched = stepValue{t, v}, true
	}
}

func (x *jobStep) stepFigure(s slot) *stepValue {
	switch s {
	case stepStartSlot:
		return &x.Start
	case stepEndSlot:
		return &x.End
	case stepExitSlot:
		return &x.Exit
	case stepCPUSlot:
		return &x.CPU
	case stepMemorySlot:
		return &x.Memory
	}
	return &x.NCores
}

// listSteps returns the steps of the run by start and id.
func (a *account) listSteps() []store.Step {
	var out []store.Step
	for _, id := range slices.Sorted(maps.Keys(a.Steps)) {
		x := a.Steps[id]
		if x.T == 0 { // figures of a step that nothing else is known of
			continue
		}
		out = append(out, store.Step{
			ID: id, Name: x.Name, State: x.State, Nodes: x.Nodes, Start: x.Start.timeOrZero(), End: x.End.timeOrZero(),
			ExitCode:   x.Exit.codeOrNil(),
			CPUSeconds: x.CPU.numberOrNil(), MemoryPeakBytes: x.Memory.numberOrNil(), Cores: x.NCores.numberOrNil(),
		})
	}
	slices.SortStableFunc(out, func(x, y store.Step) int { return cmp.Compare(x.Start.UnixMilli(), y.Start.UnixMilli()) })
	return out
}

// restoreExitCode sets the exit code of the batch script's step to the run's, if accounting subtracted 128 from it.
func restoreExitCode(steps []store.Step, code *int) {
	for i := range steps {
		if s := &steps[i]; s.ID == "batch" && s.ExitCode != nil && code != nil && *s.ExitCode+128 == *code {
			s.ExitCode = code
		}
	}
}

func (v stepValue) numberOrNil() *float64 {
	if v.T == 0 {
		return nil
	}
	return new(v.V)
}

func (v stepValue) timeOrZero() time.Time {
	if v.T == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(math.Round(v.V * 1000))).UTC()
}

func (v stepValue) codeOrNil() *int {
	if v.T == 0 {
		return nil
	}
	n := int(v.V)
	return &n
}
