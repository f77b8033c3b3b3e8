package sacct

import (
	"strings"
	"time"

	"reckon/interop/slurmtext"
)

// neverStarted reports whether a job ended before it got a node. Releases before 20.11 report the time of its end as its start.
func (j *Job) neverStarted(get func(name string) string) bool {
	if j.Start.IsZero() || !j.Start.Equal(j.End) || j.Step != "" || !slurmtext.IsFinal(j.State) {
		return false
	}
	return strings.EqualFold(strings.TrimSpace(get("NodeList")), "None assigned") || strings.TrimSpace(get("AllocCPUS")) == "0"
}

// Complete derives figures that require all steps of a job. Call it once after the last step.
func (j *Job) Complete() {
	j.addUp()
	if j.PeakMemory == nil && !j.Start.IsZero() && j.End.After(j.Start) && zero(j.CPUUser) && zero(j.CPUSystem) {
		// No accounting gathered the use of its processes (JobAcctGatherType=jobacct_gather/none): its CPU time is unknown.
		j.zeroCPU = j.CPUUser != nil
		j.CPUUser, j.CPUSystem = nil, nil
		for i := range j.Steps {
			if zero(j.Steps[i].CPU) {
				j.Steps[i].CPU = nil
			}
		}
	}
}

// Has reports whether the job's export has CPU time and memory, even with the value 0. Callers use it to find out
// whether a later export of the same job contains more.
func (j *Job) Has() (cpu, memory bool) {
	return j.CPUUser != nil || j.zeroCPU, j.PeakMemory != nil || j.zeroMemory
}

func zero(v *float64) bool { return v == nil || *v == 0 }

// addUp sets the peak memory of the job to the highest sum of the peaks of concurrent steps. It limits the sum to the
// allocation, because the peaks of steps need not coincide. The peak of a single step counts even above the allocation.
func (j *Job) addUp() {
	peak := j.concurrentMemory()
	if v := j.AllocMemory; v != nil {
		peak = min(peak, *v)
	}
	if peak > 0 && (j.PeakMemory == nil || peak > *j.PeakMemory) {
		j.PeakMemory = &peak
	}
}

// concurrentMemory returns the highest total memory of concurrent steps, which are those running when one of them started.
func (j *Job) concurrentMemory() (most float64) {
	for i := range j.Steps {
		at, sum := j.Steps[i].Start, 0.0
		if at.IsZero() {
			continue
		}
		for k := range j.Steps {
			if s := &j.Steps[k]; s.PeakMemory != nil && s.ranAt(at) {
				sum += *s.PeakMemory
			}
		}
		most = max(most, sum)
	}
	return most
}

// ranAt reports whether the step was running at time t. Times are whole seconds. A step that ends in the second in
// which another one starts therefore counts as ended.
func (s *Step) ranAt(t time.Time) bool {
	return !s.Start.IsZero() && !t.Before(s.Start) && (s.End.IsZero() || t.Before(s.End) || s.Start.Equal(s.End) && t.Equal(s.Start))
}
