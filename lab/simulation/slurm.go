package simulation

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/interop/scheduler"
	"reckon/interop/slurmtext"
	"reckon/lab/simulate"
	"reckon/workload"
)

// minJobAge is the time that the controller keeps a job after its end (MinJobAge of Slurm).
const minJobAge = 5 * time.Minute

// simController is the simulated controller of a site. One [scheduler.Poller] polls it from a single goroutine. The
// clock of that poller advances the simulated time.
type simController struct {
	site   *simulate.Site
	names  []string
	next   int // index of the next job to be submitted
	active []*simulate.Job
	ended  []*simulate.Job // by end
	clock  time.Time
}

var _ scheduler.Source = (*simController)(nil)

func newSource(s *simulate.Site) *simController {
	return &simController{site: s, names: s.Names()}
}

// advance advances the controller to a time.
func (q *simController) advance(now time.Time) {
	q.clock = now
	for q.next < len(q.site.Jobs) && !q.site.Jobs[q.next].Submit.After(now) {
		q.active = append(q.active, q.site.Jobs[q.next])
		q.next++
	}
	was := len(q.ended)
	q.active = slices.DeleteFunc(q.active, func(j *simulate.Job) bool {
		over := !j.Start.IsZero() && !j.End.After(now)
		if over {
			q.ended = append(q.ended, j)
		}
		return over
	})
	if len(q.ended) > was {
		slices.SortStableFunc(q.ended[was:], func(a, b *simulate.Job) int { return a.End.Compare(b.End) })
	}
}

// countJobs returns the number of pending and running jobs.
func (q *simController) countJobs() (waiting, running int) {
	for _, j := range q.active {
		if isWaiting(j, q.clock) {
			waiting++
		} else {
			running++
		}
	}
	return waiting, running
}

func isWaiting(j *simulate.Job, now time.Time) bool { return j.Start.IsZero() || j.Start.After(now) }

// Kind implements [scheduler.Source].
func (q *simController) Kind() workload.Kind { return workload.Slurm }

// Name implements [scheduler.Source].
func (q *simController) Name() string { return "simulated" }

// Jobs implements [scheduler.Source]. As in Slurm, the pending tasks of an array are one record.
func (q *simController) Jobs(context.Context) ([]scheduler.Job, scheduler.Read, error) {
	var out []scheduler.Job
	arrays := map[int]int{} // index of its pending tasks in out
	first := true
	for _, j := range q.active {
		w := q.jobRecord(j)
		if isWaiting(j, q.clock) {
			switch {
			case j.Stuck != "":
				w.Reason = j.Stuck
			case first:
				w.Reason, first = "Resources", false
			default:
				w.Reason = "Priority"
			}
			if j.Array != 0 {
				if at, ok := arrays[j.Array]; ok {
					out[at].Tasks++
					continue
				}
				arrays[j.Array] = len(out)
				w.ID, w.Number, w.Tasks = strconv.Itoa(j.Array), uint64(j.Array), 1
			}
		}
		out = append(out, w)
	}
	for i := len(q.ended) - 1; i >= 0 && q.clock.Sub(q.ended[i].End) < minJobAge; i-- {
		out = append(out, q.jobRecord(q.ended[i]))
	}
	return out, scheduler.Read{Records: len(out)}, nil
}

// Ended implements [scheduler.Source].
func (q *simController) Ended(_ context.Context, since, until time.Time) ([]scheduler.Job, scheduler.Read, error) {
	var out []scheduler.Job
	for i := len(q.ended) - 1; i >= 0 && !q.ended[i].End.Before(since.Add(-minJobAge)); i-- {
		if j := q.ended[i]; !j.End.Before(since) && !j.End.After(until) {
			out = append(out, q.jobRecord(j))
		}
	}
	return out, scheduler.Read{Records: len(out)}, nil
}

// ByNumber implements [scheduler.Source].
func (q *simController) ByNumber(_ context.Context, numbers []uint64, since time.Time) ([]scheduler.Job, scheduler.Read, error) {
	var out []scheduler.Job
	for _, n := range numbers {
		if i := int(n) - int(q.site.Jobs[0].Raw); i >= 0 && i < q.next && !q.site.Jobs[i].Submit.Before(since) {
			out = append(out, q.jobRecord(q.site.Jobs[i]))
		}
	}
	return out, scheduler.Read{Records: len(out)}, nil
}

// Nodes implements [scheduler.Source].
func (q *simController) Nodes(context.Context) ([]scheduler.Node, []scheduler.Partition, scheduler.Read, error) {
	held := make([]scheduler.Node, len(q.names))
	for _, j := range q.active {
		if isWaiting(j, q.clock) {
			continue
		}
		for _, n := range j.On {
			held[n].AllocatedCores += float64(j.Cores)
			held[n].AllocatedMemory += float64(j.MemoryBytes)
		}
	}
	out := held[:0:0]
	for i := range held {
		n := &held[i]
		about := q.site.About(i)
		if about.Partition == "" {
			continue // login and service nodes do not belong to Slurm
		}
		n.Name, n.Cores, n.MemoryBytes, n.GPUs = q.names[i], float64(about.Cores), float64(about.MemoryBytes), float64(about.GPUs)
		n.Partitions = []string{about.Partition}
		switch {
		case about.Down(q.clock):
			n.State, n.Reason = "down", "Not responding"
			n.Flags = []string{"not_responding"}
		case n.AllocatedCores == 0:
			n.State = "idle"
		case n.AllocatedCores < n.Cores:
			n.State = "mixed"
		default:
			n.State = "allocated"
		}
		out = append(out, *n)
	}
	parts := []scheduler.Partition{{Name: "batch", State: "up", Default: true, Seconds: 4 * 86400}}
	if q.site.GPUNodes > 0 {
		parts = append(parts, scheduler.Partition{Name: "gpu", State: "up", Seconds: 2 * 86400})
	}
	return out, parts, scheduler.Read{Records: len(out)}, nil
}

// jobRecord returns the controller's present record of a job.
func (q *simController) jobRecord(j *simulate.Job) scheduler.Job {
	nodes := float64(j.Nodes)
	w := scheduler.Job{
		ID: j.ID(), Number: uint64(j.Raw), User: j.User.Name, Account: j.User.Account, Partition: j.Partition, Name: j.Name,
		Submit: j.Submit, Eligible: j.Submit, Nodes: nodes, Cores: nodes * float64(j.Cores), MemoryBytes: nodes * float64(j.MemoryBytes),
		GPUs: nodes * float64(j.GPUs), Seconds: j.Limit.Seconds(), State: "pending",
	}
	if isWaiting(j, q.clock) {
		return w
	}
	names := make([]string, len(j.On))
	for i, n := range j.On {
		names[i] = q.names[n]
	}
	w.Start, w.NodeList, w.State = j.Start, strings.Join(names, ","), "running"
	w.Allocated = scheduler.Allocation{Cores: w.Cores, MemoryBytes: w.MemoryBytes, GPUs: w.GPUs, Nodes: nodes}
	if j.End.After(q.clock) {
		return w
	}
	w.End, w.Ended, w.State = j.End, true, j.Outcome
	switch j.Outcome {
	case "completed", "failed":
		code := j.Exit
		w.Exit = &code
	case "timeout":
		w.Reason = "TimeLimit"
	case "out_of_memory":
		w.Reason = "OutOfMemory"
		code := 137
		w.Exit = &code
	case "node_fail":
		w.Reason = "NodeDown"
	}
	w.EndedBy, w.EndedByUser = slurmtext.EndedBy(j.Outcome, "")
	if j.CancelledBy != "" {
		w.EndedBy, w.EndedByUser = slurmtext.EndedByUser, j.CancelledBy
	}
	w.StepCount = 1
	w.Steps = []scheduler.Step{{ID: "batch", Name: "batch", State: w.State, NodeList: names[0], Start: j.Start, End: j.End, Exit: w.Exit}}
	if p := j.Planned(); p != nil {
		addPlannedSteps(&w, p, j)
	}
	if j.Steps() {
		w.StepCount = 2
		w.Steps = append(w.Steps, scheduler.Step{ID: "0", Name: j.Program, State: w.State, NodeList: w.NodeList, Start: j.Start, End: j.End,
			Exit: w.Exit})
	}
	return w
}

// addPlannedSteps adds the steps of a planned job.
func addPlannedSteps(w *scheduler.Job, p *simulate.Planned, j *simulate.Job) {
	at := j.Start
	for i, step := range p.Steps {
		end := j.End
		if step.Length > 0 && at.Add(step.Length).Before(end) {
			end = at.Add(step.Length)
		}
		code := step.Exit
		w.Steps = append(w.Steps, scheduler.Step{ID: strconv.Itoa(i), Name: step.Name, State: cmp.Or(step.Outcome, "completed"),
			NodeList: w.NodeList, Start: at, End: end, Exit: &code})
		at = end
	}
	w.StepCount = len(w.Steps)
}
