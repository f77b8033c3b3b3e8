package query

import (
	"time"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/internal/hostlist"
	"reckon/store"
)

// shortParts is the part into which agents fold steps with negligible use.
const shortParts = "short"

// Steps merges the accounting records of a run's steps with the measurements of its parts, by name. The use in a step
// is measured if all of its nodes were measured, and otherwise accounted. Accounted steps keep their order. Steps
// without an accounting record follow, as in a job that still runs.
func Steps(accounted []store.Step, parts []wire.Part) []wire.Step {
	measured := map[string][]wire.Part{}
	var order []string
	for _, p := range parts {
		if p.Part == "" || p.Part == shortParts {
			continue
		}
		if measured[p.Part] == nil {
			order = append(order, p.Part)
		}
		measured[p.Part] = append(measured[p.Part], p)
	}
	var out []wire.Step
	for i := range accounted {
		s := accountedStep(&accounted[i])
		if of := measured[s.ID]; len(of) > 0 && (!s.Accounted || len(of) >= countNodes(s.Nodes)) {
			s.useMeasured(of)
		}
		delete(measured, s.ID)
		out = append(out, s.Step)
	}
	for _, id := range order {
		if of := measured[id]; of != nil {
			s := step{wire.Step{ID: id}}
			s.useMeasured(of)
			out = append(out, s.Step)
		}
	}
	return out
}

type step struct{ wire.Step }

func accountedStep(s *store.Step) step {
	out := wire.Step{ID: s.ID, Name: s.Name, State: s.State, Nodes: s.Nodes, ExitCode: s.ExitCode, Cores: s.Cores,
		CPUSeconds: s.CPUSeconds, MemoryPeakBytes: s.MemoryPeakBytes, Start: timeOrNil(s.Start), End: timeOrNil(s.End),
		Accounted: s.CPUSeconds != nil || s.MemoryPeakBytes != nil}
	if out.Start != nil && out.End != nil {
		out.WallSeconds = new(max(s.End.Sub(s.Start).Seconds(), 0))
	}
	return step{out}
}

// useMeasured replaces the accounted use of a step with the measured use of its parts.
func (s *step) useMeasured(parts []wire.Part) {
	s.Accounted, s.CPUSeconds, s.MemoryPeakBytes = false, nil, nil
	for i := range parts {
		p := &parts[i]
		for _, f := range []struct{ to, from **float64 }{
			{&s.CPUSeconds, &p.CPUSeconds}, {&s.MemoryPeakBytes, &p.MemoryPeakBytes}, {&s.MemoryNeededPeakBytes, &p.MemoryNeededPeakBytes},
			{&s.GPUSeconds, &p.GPUSeconds},
		} {
			if *f.from != nil {
				figure.Plus(f.to, *f.from)
			}
		}
	}
}

// countNodes returns the number of nodes in a host list; 0 for an invalid one.
func countNodes(list string) int {
	names, err := hostlist.Expand(list)
	if err != nil {
		return 0
	}
	return len(names)
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
