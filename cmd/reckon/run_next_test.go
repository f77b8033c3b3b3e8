package main

import (
	"strings"
	"testing"

	"reckon/agent/run"
)

// TestRunEndsWithRequest: a command that was measured well enough gets the request of its next run, by the rule for jobs.
func TestRunEndsWithRequest(t *testing.T) {
	of := func(edit func(*run.Report)) string {
		r := &run.Report{WallSeconds: 60, CPU: run.CPU{Total: 90}, Cores: run.Cores{P95: 1.6}, CPUWaitSeconds: new(0.5),
			MemoryPeakBytes: new(uint64(1 << 30))}
		edit(r)
		a := nextRequest(r)
		if a == nil {
			return ""
		}
		return strings.Join(append(a.Why, a.Paste), "\n")
	}
	want := "memory 1.2 GiB: it needed 1 GiB, and a fifth above it, rounded up to a multiple of 256 MiB\ncores 2: for 95 % of the time it used no more than 1.6\n" +
		"time 2 min: it took 1 min, and a quarter above it, rounded up to a multiple of 1 min\n#SBATCH --cpus-per-task=2\n#SBATCH --mem=1280M\n#SBATCH --time=00:02:00"
	if got := of(func(*run.Report) {}); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for name, edit := range map[string]func(*run.Report){
		"short":      func(r *run.Report) { r.WallSeconds = 29 },
		"failed":     func(r *run.Report) { r.ExitCode = 1 },
		"it goes on": func(r *run.Report) { r.Survivors = []run.Survivor{{}} },
	} {
		if got := of(edit); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for why, edit := range map[string]func(*run.Report){
		"memory: no advice, as no run that came to its end has an exactly measured peak": func(r *run.Report) { r.MemoryAtMost = true },
		"cores: no advice, as its threads waited for cores":                              func(r *run.Report) { r.CPUWaitSeconds, r.Cores.P95 = new(60.0), 2 },
	} {
		if got := of(edit); !strings.Contains(got, why) || !strings.Contains(got, "#SBATCH --time") {
			t.Errorf("%s\nlacks %s", got, why)
		}
	}
}
