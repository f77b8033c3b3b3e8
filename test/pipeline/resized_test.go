package pipeline_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"reckon/interop/scheduler"
	"reckon/metric"
	"reckon/test/pipeline"
	"reckon/web/client"
)

// windowed is a Slurm with accounting that answers for a window of time alone, as sacct -S -E does.
type windowed struct{ *replayed }

func (w windowed) Ended(ctx context.Context, since, until time.Time) ([]scheduler.Job, scheduler.Read, error) {
	jobs, got, err := w.replayed.Ended(ctx, since, until)
	return slices.DeleteFunc(jobs, func(j scheduler.Job) bool { return j.End.Before(since) || j.End.After(until) }), got, err
}

// TestResizedRuns: a job with a changing size is one run with the CPU time of its node, and its owner was allocated what accounting reports,
// whenever the changes come, whatever accounting writes as the start of a later part, and whether the reader is restarted meanwhile.
func TestResizedRuns(t *testing.T) {
	for name, x := range map[string]struct {
		changes []int // seconds after the start
		cores   []int
	}{
		"in the second of the start":   {[]int{0}, []int{2, 1}},
		"a second after it":            {[]int{1}, []int{2, 1}},
		"two seconds after it":         {[]int{2}, []int{4, 1}},
		"in two seconds in a row":      {[]int{0, 1}, []int{4, 2, 1}},
		"twice in a second":            {[]int{1, 1}, []int{4, 2, 1}},
		"up":                           {[]int{70}, []int{1, 3}},
		"down and up":                  {[]int{1, 100}, []int{2, 1, 4}},
		"after it is read for a while": {[]int{200}, []int{4, 2}},
	} {
		for _, start := range []string{"of the run", "of the change"} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, start %s, restart %v", name, start, restart), func(t *testing.T) {
					resizedRun(t, x.changes, x.cores, start == "of the change", restart)
				})
			}
		}
	}
}

func resizedRun(t *testing.T, changes, cores []int, startOfChange, restart bool) {
	begin := time.Date(2026, 3, 2, 10, 0, 7, 0, time.UTC)
	end := begin.Add(21 * time.Minute)
	unix := func(at time.Time) int64 { return at.Unix() }
	account := func(now time.Time) (text string) {
		submit, from := begin.Add(-time.Second), begin
		for i := range cores {
			state, to := "COMPLETED", end
			if i < len(changes) {
				state, to = "RESIZING", begin.Add(time.Duration(changes[i])*time.Second)
			}
			if !to.After(now) {
				text += fmt.Sprintf("7|7|ann|demo|p|%s|%d|%d|%d|%d|60|cpu=%d,mem=100M,node=1|cpu=%d,mem=100M,node=1|1|n1|0:0|normal|1000|00:00:00|00:00:01||wrap\n",
					state, unix(submit), unix(submit), unix(from), unix(to), cores[0], cores[i])
			}
			if submit = to; startOfChange {
				from = to
			}
		}
		return text
	}
	queue := func(now time.Time) string {
		if now.Before(begin) || !now.Before(end) {
			return ""
		}
		i := 0
		for i < len(changes) && !now.Before(begin.Add(time.Duration(changes[i])*time.Second)) {
			i++
		}
		return fmt.Sprintf("7|7|ann|demo|p|RUNNING|None|%d|%d|%d|1:00:00|1|%d|N/A|n1|wrap\n", unix(begin)-1, unix(begin), unix(begin)+3600, cores[i])
	}
	s, slurm := pipeline.Empty(t, begin.Add(-7*time.Second)), replay(t)
	state := filepath.Join(t.TempDir(), "slurm.json")
	var poller *scheduler.Poller
	begins := func() {
		poller = scheduler.NewPoller(windowed{slurm}, scheduler.Options{State: state, Clock: func() time.Time { return s.Now },
			Write: func(_ context.Context, b *metric.Batch) error { return s.Append("", b) }})
		poller.Load()
	}
	begins()
	runs := []slurmRun{{id: "7", raw: "7", owner: "ann", state: "COMPLETED", submit: begin, start: begin, from: begin, end: end}}
	for ; s.Now.Before(end.Add(4 * time.Minute)); s.Now = s.Now.Add(export) {
		if restart && s.Now.Equal(begin.Add(15*time.Minute-7*time.Second)) {
			begins()
		}
		slurm.write(t, answers{squeue: queue(s.Now), sacct: account(s.Now)})
		measure(t, s, runs)
		poller.Step(t.Context())
		s.Advance()
	}
	want := 0.0
	for i := range cores {
		from, to := begin, end
		if i > 0 {
			from = begin.Add(time.Duration(changes[i-1]) * time.Second)
		}
		if i < len(changes) {
			to = begin.Add(time.Duration(changes[i]) * time.Second)
		}
		want += float64(cores[i]) * to.Sub(from).Seconds()
	}
	rows := s.Workloads(client.Filter{Kinds: []string{"slurm"}})
	if len(rows) != 1 || !rows[0].Start.Equal(begin) || rows[0].End == nil || !rows[0].End.Equal(end) || rows[0].State != "completed" ||
		rows[0].CPUSeconds == nil || *rows[0].CPUSeconds != 1 || *rows[0].AllocatedCores != float64(cores[len(cores)-1]) {
		t.Errorf("%d runs: %+v", len(rows), rows)
	}
	list := s.Usage(client.UsageQuery{Span: "whole", By: []string{"owner"}, Since: begin.Add(-time.Hour), Until: s.Now})
	if len(list.Rows) != 1 || list.Rows[0].HeldCoreSeconds == nil || *list.Rows[0].HeldCoreSeconds != want {
		t.Errorf("allocated %g core seconds, want %g: %+v", *list.Rows[0].HeldCoreSeconds, want, list.Rows)
	}
}
