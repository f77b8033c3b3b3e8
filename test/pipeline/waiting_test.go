package pipeline_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"reckon/interop/scheduler"
	"reckon/interop/slurmtext"
	"reckon/metric"
	"reckon/test/pipeline"
	"reckon/web/client"
	"reckon/workload"
)

// queue is a controller with these jobs.
type queue struct{ jobs []scheduler.Job }

func (q *queue) Jobs(context.Context) ([]scheduler.Job, scheduler.Read, error) {
	return q.jobs, scheduler.Read{}, nil
}

func (q *queue) Ended(context.Context, time.Time, time.Time) ([]scheduler.Job, scheduler.Read, error) {
	return nil, scheduler.Read{}, nil
}

func (q *queue) ByNumber(context.Context, []uint64, time.Time) ([]scheduler.Job, scheduler.Read, error) {
	return nil, scheduler.Read{}, nil
}

func (q *queue) Nodes(context.Context) ([]scheduler.Node, []scheduler.Partition, scheduler.Read, error) {
	return nil, nil, scheduler.Read{}, nil
}
func (q *queue) Kind() workload.Kind { return workload.Slurm }
func (q *queue) Name() string        { return "a queue" }

// TestWaitingArray: an array that waits is one record in the queue, and counts as all of its tasks; fewer wait once some have started.
func TestWaitingArray(t *testing.T) {
	s := pipeline.Empty(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	submitted := s.Now.Add(-time.Minute)
	job := func(id string, number uint64, tasks, state string) scheduler.Job {
		j := scheduler.Job{ID: id, Number: number, User: "alice", Name: "sweep", Partition: "all", State: state, Submit: submitted, Cores: 2, Nodes: 1}
		if tasks != "" {
			j.Tasks = slurmtext.CountTasks(tasks)
		}
		return j
	}
	q := &queue{jobs: []scheduler.Job{job("4", 4, "0-999%50", "pending"), job("5", 5, "", "pending")}}
	q.jobs[0].Reason, q.jobs[1].Name = "Resources", "alone"
	poller := scheduler.NewPoller(q, scheduler.Options{Clock: func() time.Time { return s.Now }, Write: func(_ context.Context, b *metric.Batch) error { return s.Append("", b) }})
	run := func() {
		for end := s.Now.Add(3 * time.Minute); s.Now.Before(end); s.Now = s.Now.Add(15 * time.Second) {
			poller.Step(t.Context())
			s.Advance()
		}
	}
	run()
	d := s.Job("sweep")
	text := ""
	for _, v := range d.Verdicts {
		text += v.Text + "\n"
	}
	if d.WaitingTasks == nil || *d.WaitingTasks != 1000 || !strings.Contains(text, "it represents 1000 tasks of its array") {
		t.Errorf("%v tasks: %s", d.WaitingTasks, text)
	}
	if d := s.Job("alone"); d.WaitingTasks != nil {
		t.Errorf("a job of its own represents %v tasks", *d.WaitingTasks)
	}
	if p := s.Usage(client.UsageQuery{Since: s.Now.Add(-time.Hour), Until: s.Now}).Pending; p == nil || p.Workloads != 1001 || *p.RequestCores != 2002 {
		t.Errorf("what waits: %+v", p)
	}
	started := job("4_0", 6, "", "running")
	started.Start = s.Now
	q.jobs[0] = job("4", 4, "1-999%50", "pending")
	q.jobs = append(q.jobs, started)
	run()
	for _, w := range s.Workloads(client.Filter{IDs: []string{"slurm/4"}}) {
		if w.ID == "slurm/4" && (w.WaitingTasks == nil || *w.WaitingTasks != 999) {
			t.Errorf("after one has started %s represents %v tasks", w.ID, *w.WaitingTasks)
		}
	}
}
