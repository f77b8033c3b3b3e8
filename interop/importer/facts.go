package importer

import "reckon/interop/sacct"

// userName returns the user who cancelled a job: its owner by name, others by number as in accounting, except root.
func (im *Importer) userName(j *sacct.Job) string {
	switch {
	case j.EndedByUser == "":
		return ""
	case j.EndedByUser == j.UID:
		return j.User
	case j.EndedByUser == "0":
		return "root"
	}
	return j.EndedByUser
}

// allocation writes the allocation of a job at time t, Unix ms, and for a resized job also each earlier allocation at its start.
func (im *Importer) allocation(b *seriesBook, j *sacct.Job, base []string, t int64) {
	sizes := j.Sizes
	if len(sizes) == 0 {
		sizes = []sacct.Size{{Start: j.Start, Cores: j.AllocCores, Memory: j.AllocMemory, GPUs: j.AllocGPUs, Nodes: j.AllocNodes}}
	}
	for i := range sizes {
		s := &sizes[i]
		at := t
		if i < len(sizes)-1 {
			at = s.Start.UnixMilli()
			im.extendRange(s.Start.Unix())
		}
		for _, f := range []struct {
			name string
			v    *float64
		}{{mAllocCores, s.Cores}, {mAllocMemory, s.Memory}, {mAllocGPUs, s.GPUs}, {mAllocNodes, s.Nodes}} {
			if f.v != nil {
				b.addPoint(at, *f.v, f.name, base)
			}
		}
		if i > 0 {
			b.addPoint(at, float64(s.Start.Unix()), mAllocTime, base)
		}
	}
	if j.Suspended != nil && *j.Suspended > 0 {
		b.addPoint(j.Start.UnixMilli(), 0, mSuspended, base)
		b.addPoint(t, *j.Suspended, mSuspended, base)
	}
}

// steps writes the accounting of the steps of a job.
func (im *Importer) steps(b *seriesBook, j *sacct.Job, base []string, t int64) {
	if j.StepCount > 0 {
		b.addPoint(t, float64(j.StepCount), mSteps, base)
	}
	for i := range j.Steps {
		s := &j.Steps[i]
		part := []string{"part", s.ID}
		b.addPoint(t, 1, mStep, base, part, []string{"name", s.Name, "state", s.State, "nodes", s.Nodes})
		if !s.Start.IsZero() {
			b.addPoint(t, float64(s.Start.Unix()), mStepStart, base, part)
		}
		if !s.End.IsZero() {
			b.addPoint(t, float64(s.End.Unix()), mStepEnd, base, part)
		}
		if s.ExitCode != nil {
			b.addPoint(t, float64(*s.ExitCode), mStepExit, base, part)
		}
		for name, v := range map[string]*float64{mStepCPU: s.CPU, mStepMemory: s.PeakMemory, mStepCores: s.Cores} {
			if v != nil {
				b.addPoint(t, *v, name, base, part)
			}
		}
	}
}
