package misuse_test

import (
	"testing"
	"time"

	"reckon/analysis/misuse"
)

// TestDeadProcesses: zombies matter when there are many and they stay.
func TestDeadProcesses(t *testing.T) {
	p := policy()
	p.IdleAllocation.Zombies, p.IdleAllocation.ZombiesFor = 20, min(30)
	// run has one count per minute, ending a minute before now.
	run := func(counts ...float64) misuse.Zombies {
		z := misuse.Zombies{Site: "lab", Node: "n1", Owner: "alice", Now: epoch}
		for i, c := range counts {
			z.Times = append(z.Times, epoch.Add(-time.Duration(len(counts)-i)*time.Minute).UnixMilli())
			z.Counts = append(z.Counts, c)
		}
		return z
	}
	many := func(n int, v float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = v
		}
		return out
	}
	late := run(many(60, 50)...)
	late.Now = epoch.Add(time.Hour)
	broken := run(many(60, 50)...)
	for i := range 40 { // before a pause of an hour
		broken.Times[i] -= time.Hour.Milliseconds()
	}
	for name, c := range map[string]struct {
		z    misuse.Zombies
		want misuse.Severity // empty: no finding
	}{
		"fifty for an hour":        {run(many(60, 50)...), misuse.Low},
		"two hundred for an hour":  {run(many(60, 200)...), misuse.Medium},
		"a few":                    {run(many(60, 3)...), ""},
		"many, not for long":       {run(many(20, 50)...), ""},
		"waited for in between":    {run(append(append(many(40, 50), 0), many(20, 50)...)...), ""},
		"waited for at last":       {run(append(many(60, 50), 0)...), ""},
		"nobody has said since":    {late, ""},
		"nobody said for an hour":  {broken, ""},
		"nothing was measured":     {run(), ""},
		"as many as the limit":     {run(many(32, 20)...), misuse.Low},
		"one fewer than the limit": {run(many(32, 19)...), ""},
	} {
		f, found := misuse.DeadProcesses(c.z, p)
		if found != (c.want != "") || f.Severity != c.want {
			t.Errorf("%s: %v, %+v, want %q", name, found, f, c.want)
		}
		if found && (f.Owner != "alice" || f.Part != "zombies" || !f.First.Before(f.Last) || len(f.Evidence) != 3) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	p.IdleAllocation.On = false
	if _, found := misuse.DeadProcesses(run(many(60, 50)...), p); found {
		t.Error("a rule that is off found something")
	}
}

// TestSmallRequests: jobs too small for over-requested matter when they are many
// and their unused allocations add up; the same number of jobs that use theirs do not.
func TestSmallRequests(t *testing.T) {
	for name, c := range map[string]struct {
		n    int
		p95  float64
		want int
	}{"many that idle": {30, 0.1, 1}, "few that idle": {10, 0.1, 0}, "many that work": {30, 1.9, 0}} {
		var list []misuse.Workload
		for i := range c.n {
			list = append(list, job(i, 1, func(w *misuse.Workload) {
				w.Cores, w.CoresP95, w.CoresMean, w.CPUSeconds = num(2), num(c.p95), num(c.p95), num(c.p95*3600)
			}))
		}
		got := 0
		for _, f := range misuse.Judge(list, nil, func(string, []string) *misuse.Policy { return policy() }) {
			if f.Rule != misuse.ManySmallJobs {
				t.Errorf("%s: %+v", name, f)
			}
			got++
		}
		if got != c.want {
			t.Errorf("%s: %d findings, want %d", name, got, c.want)
		}
	}
}
