package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"reckon/interop/sacct"
	"reckon/interop/scheduler/slurmctl"
)

// sacctJSON reads the output of sacct --json.
func (im *Importer) sacctJSON(ctx context.Context, in io.Reader) error {
	var broken error
	joiner := sacct.Joiner{Job: func(j *sacct.Job) error { return im.readJob(ctx, j) }}
	got, err := slurmctl.ReadAccounts(in, func(a *slurmctl.Accounted) {
		if broken == nil {
			broken = joiner.Add(fromJSON(a))
		}
	})
	if broken == nil {
		broken = joiner.End()
	}
	for range got.Bad {
		im.addError(0, errors.New(got.FirstBad))
	}
	if err != nil && broken == nil {
		im.addError(0, fmt.Errorf("%w; what was before is taken", err))
	}
	return broken
}

func fromJSON(a *slurmctl.Accounted) *sacct.Job {
	j := &sacct.Job{
		ID: a.ID, Raw: strconv.FormatUint(a.Number, 10), Cluster: a.Cluster, User: a.User, UID: a.UID, Account: a.Account,
		Partition: a.Partition, QOS: a.QOS, Name: a.Name, State: a.State, Reason: a.Reason, EndedBy: a.EndedBy, EndedByUser: a.EndedByUser,
		Nodes: a.NodeList, Submit: a.Submit, Start: a.Start, End: a.End, ExitCode: a.Exit, ExitReduced: a.ExitReduced,
		ReqCores: sacct.Known(a.Cores), ReqMemory: sacct.Known(a.MemoryBytes), ReqGPUs: sacct.Known(a.GPUs), ReqNodes: sacct.Known(a.Nodes),
		TimeLimit: sacct.Known(a.Seconds), Suspended: sacct.Known(a.Suspended), CPUUser: a.CPUSeconds, Unread: a.Unread,
	}
	if a.Tasks == 0 && j.Raw != j.ID {
		j.Also = j.Raw
	}
	if !a.Start.IsZero() {
		g := a.Allocated
		j.AllocCores, j.AllocMemory, j.AllocGPUs, j.AllocNodes = sacct.Known(g.Cores), sacct.Known(g.MemoryBytes), sacct.Known(g.GPUs),
			sacct.Known(g.Nodes)
	}
	for i := range a.Steps {
		s := &a.Steps[i]
		step := sacct.Step{ID: s.ID, Name: s.Name, State: s.State, Nodes: s.NodeList, Start: s.Start, End: s.End, ExitCode: s.Exit,
			Cores: sacct.Known(s.Cores), CPU: s.CPUSeconds, PeakMemory: s.MemoryPeak}
		j.Steps, j.StepCount = append(j.Steps, step), a.StepCount
		if p := s.MemoryPeak; p != nil && (j.PeakMemory == nil || *p > *j.PeakMemory) {
			j.PeakMemory = p
		}
	}
	return j
}
