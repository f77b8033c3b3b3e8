package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"reckon/interop/slurmtext"
	"reckon/metric"
	"reckon/workload"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }

func job(id, state string, submit, start, end int) Job {
	j := Job{ID: id, State: state, User: "alice", Name: "x", Partition: "p", Cores: 2, Submit: at(submit)}
	_, _ = fmt.Sscan(id, &j.Number)
	if start != 0 {
		j.Start = at(start)
	}
	if end != 0 {
		j.End = at(end)
	}
	j.Ended = slurmtext.IsFinal(state) || state == "requeued"
	return j
}

// summary lists batches: the time of each and, by workload, its states and ends.
func summary(list []metric.Batch) []string {
	var out []string
	for _, b := range list {
		one := map[string]string{}
		for _, s := range b.Samples {
			w := s.Series.Values[0]
			switch {
			case s.Value != s.Value:
				one[w] += fmt.Sprintf(" -%s", s.Series.Values[4])
			case s.Series.Desc == workloadState:
				one[w] += " " + s.Series.Values[4]
			case s.Series.Desc == startTime:
				one[w] += fmt.Sprintf(" from %v", s.Value-unixSeconds(noon))
			case s.Series.Desc == endTime:
				one[w] += fmt.Sprintf(" to %v", s.Value-unixSeconds(noon))
			}
			if s.Last && s.Series.Desc == workloadState && s.Value == s.Value {
				one[w] += "."
			}
		}
		for _, w := range slices.Sorted(maps.Keys(one)) {
			out = append(out, fmt.Sprintf("%v: %s%s", b.Time.Sub(noon).Round(time.Millisecond), w, one[w]))
		}
	}
	return out
}

func expect(t *testing.T, what string, got []metric.Batch, want ...string) {
	t.Helper()
	if g := summary(got); !slices.Equal(g, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(g, " | "), strings.Join(want, " | "))
	}
}

// TestExitCodeOfTheController: accounting, which takes 128 off, does not replace the code that the controller reported of an ended
// job. A job that the controller reported as running had no code.
func TestExitCodeOfTheController(t *testing.T) {
	for _, tt := range []struct {
		state string
		want  float64
		by    string
	}{{"failed", 255, ""}, {"running", 127, "accounting"}} {
		b := NewJobTracker(workload.Slurm)
		queued, code := job("1", tt.state, 5, 10, 0), 255
		if tt.state == "failed" {
			queued.End, queued.Exit = at(20), &code
		} else {
			zero := 0
			queued.Exit = &zero
		}
		queued.Ended = tt.state == "failed"
		b.UpdateQueue(at(30), []Job{queued}, true)
		b.Collect(at(30))
		reduced, accounted := 127, job("1", "failed", 5, 10, 20)
		accounted.Exit, accounted.ExitReduced, accounted.QOS = &reduced, true, "normal"
		b.UpdateQueue(at(60), nil, true)
		b.UpdateAccounting([]Job{accounted})
		found := false
		for _, batch := range b.Collect(at(60)) {
			for _, s := range batch.Samples {
				if s.Series.Desc == exitCodes && s.Value == s.Value {
					found = true
					if s.Value != tt.want || s.Series.Values[4] != tt.by {
						t.Errorf("%s: exit code %v by %q, want %v by %q", tt.state, s.Value, s.Series.Values[4], tt.want, tt.by)
					}
				}
			}
		}
		if !found {
			t.Errorf("%s: no exit code", tt.state)
		}
	}
}

// TestCancelledWhileSuspended: Slurm ends a job that is cancelled while suspended when the suspension began, and counts the suspension
// after that. What is within the job's time counts, also after another record of accounting and for a tracker that knew nothing before.
func TestCancelledWhileSuspended(t *testing.T) {
	last := func(b *JobTracker, now int) (v float64, ok bool) {
		for _, batch := range b.Collect(at(now)) {
			for _, s := range batch.Samples {
				if s.Series.Desc == suspendedTime && s.Value == s.Value {
					v, ok = s.Value, true
				}
			}
		}
		return v, ok
	}
	for _, before := range []float64{0, 5} {
		b := NewJobTracker(workload.Slurm)
		begun := job("1", "running", 5, 10, 0)
		begun.Suspended = before
		b.UpdateQueue(at(20), []Job{begun}, true)
		last(b, 20)
		stopped := job("1", "suspended", 5, 10, 0)
		stopped.Suspended, stopped.SuspendedSince = before, at(30)
		for now := 35; now <= 45; now += 5 {
			b.UpdateQueue(at(now), []Job{stopped}, true)
			if v, ok := last(b, now); ok && v != before+float64(now-30) {
				t.Errorf("%g s before, at %d: suspended for %g s", before, now, v)
			}
		}
		b.UpdateQueue(at(60), nil, true)
		for now := 60; now <= 80; now += 20 {
			over := job("1", "cancelled", 5, 10, 30)
			over.Suspended, over.QOS = before+20, fmt.Sprint("q", now)
			b.UpdateAccounting([]Job{over})
			if v, ok := last(b, now); !ok || v != before {
				t.Errorf("%g s before, ended: suspended for %g s (%t) of its time", before, v, ok)
			}
		}
	}
	over := job("2", "cancelled", 5, 10, 22)
	over.Suspended = 20
	b := NewJobTracker(workload.Slurm)
	b.UpdateAccounting([]Job{over})
	if v, _ := last(b, 60); v != 0 {
		t.Errorf("a job of 12 s was suspended for %g s", v)
	}
}

func TestRunOfAJob(t *testing.T) {
	b := NewJobTracker(workload.Slurm)
	b.UpdateQueue(at(10), []Job{job("1", "pending", 5, 0, 0)}, true)
	expect(t, "handed in", b.Collect(at(10)), "10s: slurm/1 pending")
	b.UpdateQueue(at(40), []Job{job("1", "pending", 5, 0, 0)}, true)
	expect(t, "nothing new", b.Collect(at(40)))
	b.UpdateQueue(at(131), []Job{job("1", "pending", 5, 0, 0)}, true)
	expect(t, "again, so that it does not go stale", b.Collect(at(131)), "2m11s: slurm/1 pending")
	b.UpdateQueue(at(160), []Job{job("1", "running", 5, 150, 0)}, true)
	expect(t, "began", b.Collect(at(160)), "2m40s: slurm/1 from 150 -pending running")
	b.UpdateQueue(at(190), []Job{job("1", "completed", 5, 150, 185)}, true)
	expect(t, "ended", b.Collect(at(190)), "3m5s: slurm/1 from 150 to 185 -running completed.")
	b.UpdateQueue(at(220), []Job{job("1", "completed", 5, 150, 185)}, true)
	b.UpdateAccounting([]Job{job("1", "completed", 5, 150, 185)})
	expect(t, "told once", b.Collect(at(220)))
	late := job("1", "completed", 5, 150, 185)
	late.StepCount, late.Steps = 1, []Step{{ID: "0", State: "completed", Start: at(151), End: at(152)}}
	b.UpdateAccounting([]Job{late})
	if got := b.Collect(at(250)); len(got) != 1 || got[0].Time.Sub(noon) != 185002*time.Millisecond {
		t.Errorf("steps that accounting knew later: %v", summary(got))
	}
	b.UpdateQueue(at(260), nil, true)
	if b.Collect(at(260)); b.Unresolved() != 0 {
		t.Error("an ended job that left the queue counts as unresolved")
	}
	b.Collect(at(260).Add(7 * time.Hour))
	if len(b.runs) != 0 {
		t.Error("an ended job is never forgotten")
	}
}

// TestJobThatLeftTheQueue: a job that leaves the queue without an end is queried by number until its end is
// known, however late accounting receives it.
func TestJobThatLeftTheQueue(t *testing.T) {
	b := NewJobTracker(workload.Slurm)
	b.UpdateQueue(at(10), []Job{job("7", "running", 5, 6, 0)}, true)
	b.Collect(at(10))
	b.UpdateQueue(at(40), nil, false)
	if raw, _ := b.Unaccounted(at(40), 10); len(raw) != 0 || b.Unresolved() != 0 {
		t.Error("an answer that broke off says that a job is gone")
	}
	b.UpdateQueue(at(70), nil, true)
	if raw, since := b.Unaccounted(at(200), 10); !slices.Equal(raw, []uint64{7}) || !since.Equal(at(5)) {
		t.Errorf("asked for %v since %v", raw, since)
	}
	if raw, _ := b.Unaccounted(at(201), 10); len(raw) != 0 {
		t.Error("asked for again at once")
	}
	b.UpdateAccounting([]Job{job("7", "running", 5, 6, 0)}) // slurmdbd does not have the end yet
	expect(t, "nothing is known", b.Collect(at(202)))
	b.UpdateAccounting([]Job{job("7", "timeout", 5, 6, 65)})
	expect(t, "an hour later", b.Collect(at(3600)), "58m30s: slurm/7 from 6 to 65 -running timeout.")
	if !b.RereadSince().IsZero() {
		t.Error("it still counts as one without an end")
	}
}

// TestRequeue: runs of one id have samples at times within each run.
func TestRequeue(t *testing.T) {
	b := NewJobTracker(workload.Slurm)
	b.UpdateQueue(at(10), []Job{job("3", "running", 5, 6, 0)}, true)
	b.Collect(at(10))
	// Just after the requeue the queue reports a different start (observed with 22.05).
	b.UpdateQueue(at(40), []Job{job("3", "completing", 5, 38, 0)}, true)
	b.Collect(at(40))
	b.UpdateQueue(at(70), []Job{job("3", "pending", 38, 0, 0)}, true)
	expect(t, "the new life waits, of the old one the end is not known", b.Collect(at(70)), "1m10s: slurm/3 pending")
	b.UpdateAccounting([]Job{job("3", "requeued", 5, 6, 37), job("3", "pending", 38, 0, 0)})
	expect(t, "the old one ended before the new one was handed in", b.Collect(at(100)), "37.997s: slurm/3 from 6 to 37 -completing requeued.")
	b.UpdateQueue(at(130), []Job{job("3", "running", 38, 120, 0)}, true)
	expect(t, "the new one began", b.Collect(at(130)), "2m10s: slurm/3 from 120 -pending running")
}

// TestRequeueWhileTheQueueAnswers: the queue is polled, and the job is requeued during the response: samples of that poll
// must be within the run they belong to; its final state comes later.
func TestRequeueWhileTheQueueAnswers(t *testing.T) {
	b := NewJobTracker(workload.Slurm)
	b.UpdateQueue(at(35), []Job{job("3", "pending", 27, 0, 0)}, true) // polled at 35, response at 41
	expect(t, "told for when it was asked", b.Collect(at(41)), "35s: slurm/3 pending")
	b.UpdateAccounting([]Job{job("3", "requeued", 27, 27, 34), job("3", "pending", 36, 0, 0)})
	b.UpdateQueue(at(65), []Job{job("3", "pending", 36, 0, 0)}, true)
	expect(t, "the last word is later than that", b.Collect(at(66)), "35.002s: slurm/3 from 27 to 34 -pending requeued.", "1m5s: slurm/3 pending")
}

// TestShortLifeBeforeRequeue: a run that ended in the second in which the next was submitted, and that was never seen in
// the queue: its samples must not overlap the next run, even if they are sent twice.
func TestShortLifeBeforeRequeue(t *testing.T) {
	b := NewJobTracker(workload.Slurm)
	b.UpdateQueue(at(40), []Job{job("3", "pending", 38, 0, 0)}, true)
	b.Collect(at(40))
	b.UpdateAccounting([]Job{job("3", "requeued", 35, 36, 38)})
	expect(t, "before the next was handed in", b.Collect(at(100)), "37s: slurm/3 from 36 to 38 requeued.")
	again := job("3", "requeued", 35, 36, 38)
	again.StepCount = 2
	b.UpdateAccounting([]Job{again})
	expect(t, "its steps came later", b.Collect(at(101)), "37.002s: slurm/3 from 36 to 38 requeued.")
	b.UpdateAccounting([]Job{job("4", "requeued", 38, 38, 39), job("4", "completed", 39, 40, 41)})
	expect(t, "a life of a second", b.Collect(at(102)), "38s: slurm/4 from 38 to 39 requeued.", "41s: slurm/4 from 40 to 41 completed.")
}

func TestWhatWaitsOfAnArray(t *testing.T) {
	rest := job("9", "pending", 5, 0, 0)
	rest.Tasks = 9999
	first := job("9_0", "running", 5, 6, 0)
	b := NewJobTracker(workload.Slurm)
	b.UpdateQueue(at(10), []Job{rest, first}, true)
	list := b.Collect(at(10))
	expect(t, "two workloads for ten thousand tasks", list, "10s: slurm/9 pending", "10s: slurm/9_0 from 6 running")
	for _, s := range list[0].Samples {
		if s.Series.Desc == requestCores && s.Series.Values[0] == "slurm/9" && s.Value != 2*9999 {
			t.Errorf("it asks for %g cores", s.Value)
		}
	}
	part := rest
	part.State, part.Ended, part.End, part.Tasks = "cancelled", true, at(11), 500
	b.UpdateAccounting([]Job{part})
	expect(t, "that a part was cancelled does not end the rest", b.Collect(at(12)))
	b.UpdateQueue(at(40), []Job{job("9_0", "completed", 5, 6, 30), job("9_1", "running", 5, 35, 0)}, true)
	expect(t, "all have begun", b.Collect(at(40)), "30s: slurm/9_0 from 6 to 30 -running completed.",
		"35s: slurm/9 to 35 -pending started.", "40s: slurm/9_1 from 35 running")
}

// TestTimesAreNeverAhead: with differing clocks, and times in the future, samples have times that can be stored.
func TestTimesAreNeverAhead(t *testing.T) {
	b := NewJobTracker(workload.Slurm)
	b.UpdateQueue(at(10), []Job{job("1", "completed", 500, 600, 700)}, true)
	expect(t, "the controller is ahead", b.Collect(at(10)), "10s: slurm/1 from 600 to 700 completed.")
	b = NewJobTracker(workload.Slurm)
	b.UpdateQueue(at(10), []Job{job("1", "running", 5, 6, 0)}, true)
	b.Collect(at(10))
	b.UpdateQueue(at(5), []Job{job("1", "completed", 5, 6, 4)}, true)
	expect(t, "our clock was set back", b.Collect(at(5)), "10.002s: slurm/1 from 6 to 4 -running completed.")
}

// TestNameOfTheController: accounting of Slurm writes ` for ", and the name of a job stays as its owner wrote it.
func TestNameOfTheController(t *testing.T) {
	b := NewJobTracker(workload.Slurm)
	j := job("1", "running", 5, 6, 0)
	j.Name = `say "hi" ` + "`now`"
	b.UpdateQueue(at(10), []Job{j}, true)
	b.Collect(at(10))
	j = job("1", "completed", 5, 6, 20)
	j.Name = "say `hi` `now`"
	b.UpdateQueue(at(40), nil, true)
	b.UpdateAccounting([]Job{j})
	for _, batch := range b.Collect(at(40)) {
		for _, s := range batch.Samples {
			if s.Series.Desc == info && s.Series.Values[4] != `say "hi" `+"`now`" {
				t.Errorf("the name is %q", s.Series.Values[4])
			}
		}
	}
}

// TestNamesThatAreNoText: whatever the name of a job, its labels are one line of valid text, sent once.
func TestNamesThatAreNoText(t *testing.T) {
	for _, name := range []string{"a|b UserId=root(0)", "new\nline", "bad\xff\xfeutf", "\x00\x1b[31m", strings.Repeat("x", 5000)} {
		b := NewJobTracker(workload.Slurm)
		j := job("1", "running", 5, 6, 0)
		j.Name = name
		b.UpdateQueue(at(10), []Job{j}, true)
		list := b.Collect(at(10))
		if len(list) != 1 {
			t.Fatalf("%q: %d batches", name, len(list))
		}
		for _, s := range list[0].Samples {
			for _, v := range s.Series.Values {
				if !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) || len(v) > 1000 {
					t.Errorf("%q: label %.100q of %s", name, v, s.Series.Desc.Name)
				}
			}
		}
		b.UpdateQueue(at(40), []Job{j}, true)
		expect(t, "nothing new", b.Collect(at(40)))
	}
}

func TestUndoTellsAgain(t *testing.T) {
	b := NewJobTracker(workload.Slurm)
	b.UpdateQueue(at(10), []Job{job("1", "running", 5, 6, 0)}, true)
	b.Collect(at(10))
	b.Resend()
	expect(t, "nothing was heard since", b.Collect(at(11)))
	b.UpdateQueue(at(12), []Job{job("1", "running", 5, 6, 0)}, true)
	expect(t, "again", b.Collect(at(13)), "12s: slurm/1 from 6 running")
}

func BenchmarkBook(b *testing.B) {
	jobs := make([]Job, 10000)
	for i := range jobs {
		jobs[i] = job(fmt.Sprint(i+1), "running", 5, 6, 0)
	}
	tracker, n := NewJobTracker(workload.Slurm), 10
	b.ReportAllocs()
	for b.Loop() {
		n += 30
		tracker.UpdateQueue(at(n), jobs, true)
		tracker.Collect(at(n))
	}
}

// TestResizedAtOnce: a run whose size was changed within a second of its start, and whose second record has the time of the change as its
// start, is one run.
func TestResizedAtOnce(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(1795322000+s, 0).UTC() }
	for began, what := range map[int64]string{0: "a second before", 1: "in the second of the change"} {
		first := Job{ID: "7", Number: 7, Submit: at(0), Start: at(began), End: at(1), State: "resizing"}
		last := Job{ID: "7", Number: 7, Submit: at(1), Start: at(1), End: at(26), State: "completed", Ended: true}
		running := first
		running.State, running.End = "running", time.Time{}
		tracker := NewJobTracker(workload.Slurm)
		tracker.UpdateQueue(at(1), []Job{running}, true)
		tracker.UpdateAccounting([]Job{first, last})
		if len(tracker.runs) != 1 {
			t.Errorf("%s: %d runs", what, len(tracker.runs))
		}
		for _, l := range tracker.runs {
			if !l.job.Start.Equal(at(began)) || !l.job.Submit.Equal(at(0)) || !l.job.End.Equal(at(26)) || len(l.job.Earlier) != 1 {
				t.Errorf("%s: %+v", what, l.job)
			}
		}
	}
}

// TestStepsOfEachSize: a resized run has the steps of every size once, in order; those
// of another run of its id are not among them.
func TestStepsOfEachSize(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(1795322000+s, 0).UTC() }
	step := func(id, state string) Step { return Step{ID: id, State: state} }
	part := func(start int64, state string, steps ...Step) Job {
		j := Job{ID: "7", Number: 7, Submit: at(start), Start: at(start), End: at(start + 100), State: state, Ended: state == "completed", Steps: steps, StepCount: len(steps)}
		return j
	}
	other := part(500, "resizing", step("9", "completed"))
	first := part(0, "resizing", step("batch", "resizing"), step("0", "completed"), step("1", "resizing"))
	second := part(0, "resizing", step("1", "completed"), step("2", "failed"))
	last := part(0, "completed", step("3", "completed"))
	second.Submit, second.End, last.Submit = at(100), at(200), at(200)
	last.StepCount = 5 // with four left out
	tracker := NewJobTracker(workload.Slurm)
	tracker.UpdateAccounting([]Job{first, last}) // a query
	tracker.UpdateAccounting([]Job{other, first, second})
	tracker.UpdateAccounting([]Job{other, first, second}) // the next one, with an overlapping time range
	tracker.UpdateAccounting([]Job{last})
	if len(tracker.runs) != 1 {
		t.Fatalf("%d runs", len(tracker.runs))
	}
	for _, l := range tracker.runs {
		if e := l.job.Earlier; len(e) != 2 || !e[0].Since.IsZero() || !e[1].Since.Equal(at(100)) || !l.job.Allocated.Since.Equal(at(200)) {
			t.Errorf("allocations %+v, then %+v", e, l.job.Allocated)
		}
		var got []string
		for _, s := range l.job.Steps {
			got = append(got, s.ID+" "+s.State)
		}
		if all := strings.Join(got, ", "); all != "batch completed, 0 completed, 1 completed, 2 failed, 3 completed" || l.job.StepCount != 9 {
			t.Errorf("%d steps: %s", l.job.StepCount, all)
		}
	}
}
