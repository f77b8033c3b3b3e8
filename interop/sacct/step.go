package sacct

import (
	"maps"
	"slices"

	"reckon/figure"
	"reckon/interop/slurmtext"
)

// AddStep adds a step to the job. The job's memory is the highest of its steps; bytes read and written are summed.
func (j *Job) AddStep(s *Job) {
	j.Unread = append(j.Unread, s.Unread...)
	if s.PeakMemory != nil && (j.PeakMemory == nil || *s.PeakMemory > *j.PeakMemory) {
		j.PeakMemory = s.PeakMemory
	}
	j.zeroMemory = j.zeroMemory || s.zeroMemory
	figure.Plus(&j.Read, s.Read)
	figure.Plus(&j.Written, s.Written)
	j.StepCount++
	j.Steps = slurmtext.KeepStep(j.Steps, s.toStep(), (*Step).weight)
}

// weight returns the importance of a step. The most important steps are kept.
func (s *Step) weight() float64 {
	return slurmtext.StepWeight(s.ID, s.State, s.ExitCode, s.CPU, s.Start, s.End)
}

// toStep converts to the stored form of a step.
func (j *Job) toStep() Step {
	s := Step{ID: j.Step, Name: j.Name, State: j.State, Nodes: j.Nodes, Start: j.Start, End: j.End, ExitCode: j.ExitCode,
		Cores: j.AllocCores, PeakMemory: j.PeakMemory}
	for _, v := range []*float64{j.CPUUser, j.CPUSystem} {
		switch {
		case v == nil:
		case s.CPU == nil:
			s.CPU = pointer(*v)
		default:
			*s.CPU += *v
		}
	}
	return s
}

// resizedState is the state of a record that ended because the allocation of its job changed. Accounting continues the run
// in another record, which has the time of the change as submit time. The start of that record is the job's start
// (observed with 22.05) or the time of the change.
const resizedState = "resizing"

// Joiner calls Job for each run of a series of records, the parts of a run between changes of its allocation joined.
type Joiner struct {
	Job    func(*Job) error
	before map[string]*Job // parts of runs that a later record continues, by job number
}

// Add adds a record with all its steps.
func (r *Joiner) Add(j *Job) error {
	j.Complete()
	if before := r.before[j.Raw]; before != nil && before.resizedTo(j) {
		delete(r.before, j.Raw)
	}
	if j.State != resizedState {
		return r.Job(j)
	}
	if r.before == nil {
		r.before = map[string]*Job{}
	}
	r.before[j.Raw] = j
	return nil
}

// End calls Job for the parts that are not continued.
func (r *Joiner) End() error {
	for _, raw := range slices.Sorted(maps.Keys(r.before)) {
		if err := r.Job(r.before[raw]); err != nil {
			return err
		}
	}
	return nil
}

// resizedTo reports whether next is the record of the same run after a change of its allocation. If so, it merges the
// earlier records into next, which then describes the whole job.
func (j *Job) resizedTo(next *Job) bool {
	if j.State != resizedState || j.Raw != next.Raw || j.End.IsZero() || !next.Submit.Equal(j.End) {
		return false
	}
	next.Start = j.End // of this size; below, the job's
	if len(j.Sizes) == 0 {
		j.Sizes = []Size{j.toSize()}
	}
	next.Sizes = append(j.Sizes, next.toSize())
	next.Submit, next.Start = j.Submit, j.Start
	next.ReqCores, next.ReqMemory, next.ReqGPUs, next.ReqNodes = j.ReqCores, j.ReqMemory, j.ReqGPUs, j.ReqNodes
	for _, f := range []struct{ to, from **float64 }{
		{&next.CPUUser, &j.CPUUser}, {&next.CPUSystem, &j.CPUSystem}, {&next.Read, &j.Read}, {&next.Written, &j.Written},
		{&next.Suspended, &j.Suspended},
	} {
		switch {
		case *f.from == nil:
		case *f.to == nil:
			*f.to = *f.from
		default:
			*f.to = pointer(**f.to + **f.from)
		}
	}
	if p := j.PeakMemory; p != nil && (next.PeakMemory == nil || *p > *next.PeakMemory) {
		next.PeakMemory = p
	}
	steps := j.Steps
	for _, s := range next.Steps {
		steps = slurmtext.KeepStep(steps, s, (*Step).weight)
	}
	next.Steps, next.StepCount = steps, j.StepCount+next.StepCount
	if !slurmtext.IsFinal(next.State) {
		next.ExitCode = nil
	}
	return true
}

func (j *Job) toSize() Size {
	return Size{Start: j.Start, End: j.End, Cores: j.AllocCores, Memory: j.AllocMemory, GPUs: j.AllocGPUs, Nodes: j.AllocNodes}
}
