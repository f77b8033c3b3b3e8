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

// sacctJSON reads what sacct --json writes.
func (im *Importer) sacctJSON(ctx context.Context, in io.Reader) error {
	var broken error
	got, err := slurmctl.ReadAccounts(in, func(a *slurmctl.Accounted) {
		if broken == nil {
			broken = im.job(ctx, fromJSON(a))
		}
	})
	for range got.Bad {
		im.bad(0, errors.New(got.FirstBad))
	}
	if err != nil && broken == nil {
		im.bad(0, fmt.Errorf("%w; what was before is taken", err))
	}
	return broken
}

// positive returns a figure of which 0 is unknown.
func positive(v float64) *float64 {
	if v <= 0 {
		return nil
	}
	return &v
}

func fromJSON(a *slurmctl.Accounted) *sacct.Job {
	j := &sacct.Job{
		ID: a.ID, Raw: strconv.FormatUint(a.Number, 10), Cluster: a.Cluster, User: a.User, UID: a.UID, Account: a.Account,
		Partition: a.Partition, QOS: a.QOS, Name: a.Name, State: a.State, Reason: a.Reason, EndedBy: a.EndedBy, EndedByUser: a.EndedByUser,
		Nodes: a.NodeList, Submit: a.Submit, Start: a.Start, End: a.End, ExitCode: a.Exit, ExitReduced: a.ExitReduced,
		ReqCores: positive(a.Cores), ReqMemory: positive(a.MemoryBytes), ReqGPUs: positive(a.GPUs), ReqNodes: positive(a.Nodes),
		TimeLimit: positive(a.Seconds), Suspended: positive(a.Suspended), CPUUser: a.CPUSeconds,
	}
	if a.Tasks == 0 && j.Raw != j.ID {
		j.Also = j.Raw
	}
	if !a.Start.IsZero() {
		g := a.Allocated
		j.AllocCores, j.AllocMemory, j.AllocGPUs, j.AllocNodes = positive(g.Cores), positive(g.MemoryBytes), positive(g.GPUs),
			positive(g.Nodes)
	}
	for i := range a.Steps {
		s := &a.Steps[i]
		step := sacct.Step{ID: s.ID, Name: s.Name, State: s.State, Nodes: s.NodeList, Start: s.Start, End: s.End, ExitCode: s.Exit,
			Cores: positive(s.Cores), CPU: s.CPUSeconds, PeakMemory: s.MemoryPeak}
		j.Steps, j.StepCount = append(j.Steps, step), a.StepCount
		if p := s.MemoryPeak; p != nil && (j.PeakMemory == nil || *p > *j.PeakMemory) {
			j.PeakMemory = p
		}
	}
	j.Complete()
	return j
}
