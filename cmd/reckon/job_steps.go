package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"reckon/internal/term"
	"reckon/web/client"
)

// stepID matches a step id in Slurm's format: 4711.0, 4711_3.batch, 7+1.2.
var stepID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^((?:slurm/)?\d+(?:[_+]\d+)?)\.(\d+|batch|extern|interactive)$`)
})

// splitStepID splits the id of a step; step is empty if it is the id of a workload.
func splitStepID(id string) (job, step string) {
	if m := stepID().FindStringSubmatch(id); m != nil {
		return m[1], m[2]
	}
	return id, ""
}

// findStep returns a step of a job, or an error that lists the existing ones.
func findStep(detail client.WorkloadDetail, id string) (client.Step, error) {
	var ids []string
	for _, s := range detail.Steps {
		if s.ID == id {
			return s, nil
		}
		ids = append(ids, s.ID)
	}
	if len(ids) == 0 {
		return client.Step{}, fmt.Errorf("no steps of %s are recorded", detail.ID)
	}
	return client.Step{}, fmt.Errorf("%s has no step %s; it has %s", detail.ID, id, strings.Join(ids[:min(len(ids), maxListed)], ", "))
}

// formatStepState formats the state of a step like the state of a job.
func formatStepState(s *client.Step) string {
	text := strings.ReplaceAll(s.State, "_", " ")
	if s.ExitCode != nil && *s.ExitCode != 0 {
		text = strings.TrimSpace(text + fmt.Sprintf(" (exit %d)", *s.ExitCode))
	}
	return cmp.Or(text, term.Unknown)
}

// printStepTable lists the steps of a job; if there are very many, those that failed and those with the highest use.
func (p *page) printStepTable(d client.WorkloadDetail) error {
	if len(d.Steps) == 0 {
		return nil
	}
	shown := slices.Clone(d.Steps)
	if len(shown) > maxListed {
		slices.SortStableFunc(shown, func(a, b client.Step) int {
			return cmp.Or(-compareBool(a.Failed(), b.Failed()), cmp.Compare(orZero(b.CPUSeconds), orZero(a.CPUSeconds)))
		})
		shown = shown[:maxListed]
	}
	t := term.TableOf("STEP|NAME:s8x|STATE:x|WALL:rx|CPU TIME:r|PEAK MEM:r|GPU TIME:rx")
	for i := range shown {
		s := &shown[i]
		t.Add(s.ID, cmp.Or(s.Name, term.Unknown), formatStepState(s), term.Seconds(s.WallSeconds), term.Seconds(s.CPUSeconds),
			term.Bytes(s.MemoryPeakBytes), term.Seconds(s.GPUSeconds))
	}
	if err := p.printTable(t); err != nil {
		return err
	}
	all := max(float64(len(d.Steps)), orZero(d.StepCount))
	if more := all - float64(len(shown)); more > 0 {
		p.printWrapped(0, "and %.0f more steps: shown are those that failed and those that used most; --format json lists %d", more,
			len(d.Steps))
	}
	return nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// printStep prints one step of a job.
func printStep(s term.Screen, detail client.WorkloadDetail, step client.Step, now time.Time) error {
	p := &page{Screen: s}
	title := term.Safe(detail.ID) + "." + term.Safe(step.ID)
	if step.Name != "" && step.Name != step.ID {
		title += "  " + term.Safe(step.Name)
	}
	p.printWrapped(2, "%s  %s", p.Paint(term.Bold, title), formatStepState(&step))
	p.addFact("Job", strings.TrimSpace(term.Safe(detail.ID)+" "+term.Safe(shortName(detail.Workload)))+", "+formatState(detail.Workload),
		"of "+term.Safe(detail.Owner))
	nodes := step.Nodes
	if nodes == "" {
		var names []string
		for _, x := range detail.Parts {
			if x.Part == step.ID {
				names = append(names, x.Node)
			}
		}
		nodes = strings.Join(names, ", ")
	}
	p.addFact("Nodes", term.Safe(nodes))
	clock := func(word string, t *time.Time) string {
		if t == nil {
			return ""
		}
		return word + " " + term.Clock(*t, now)
	}
	p.addFact("Time", clock("started", step.Start), clock("ended", step.End), "wall "+term.Seconds(step.WallSeconds))
	p.printf("")
	by := ""
	if step.Accounted {
		by = "(as the batch system accounts for it: no agent measured it)"
	}
	p.addFact("CPU time", term.Seconds(step.CPUSeconds), "cores "+term.Cores(step.Cores), by)
	p.addFact("Memory", "needed "+term.Bytes(step.MemoryNeededPeakBytes), "peak "+term.Bytes(step.MemoryPeakBytes))
	p.addFact("GPU", term.Seconds(step.GPUSeconds))
	own := detail
	own.RequestCores, own.AllocatedCores, own.RequestMemoryBytes, own.AllocatedMemoryBytes = nil, step.Cores, nil, nil
	own.Profile = nil
	for _, pr := range detail.Profile {
		if pr.Part == step.ID {
			own.Profile = append(own.Profile, pr)
		}
	}
	p.printProfiles(own)
	_, err := fmt.Fprint(s, p.b.String())
	return err
}
