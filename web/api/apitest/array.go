package apitest

import (
	"fmt"
	"time"

	"reckon/web/client"
)

// Array returns a backend with a job array of 30 started tasks (slurm/4), the third failed, a heterogeneous
// job (slurm/7), and a simple job (slurm/40).
func Array(now time.Time) *Backend {
	now = now.UTC().Truncate(time.Second)
	b := &Backend{}
	add := func(id, name, state string, start, wall time.Duration, cores float64) *client.WorkloadDetail {
		begin := now.Add(-start)
		end, submit, code := begin.Add(wall), now.Add(-2*time.Hour), 0
		w := client.Workload{ID: id, Kind: "slurm", Name: name, Owner: "alice", Account: "ml", Nodes: []string{"n1"}, Start: begin,
			End: &end, Seen: end,
			WallSeconds: wall.Seconds(), State: state, Submit: &submit, ExitCode: &code}
		w.CPUSeconds, w.AllocatedCores, w.MemoryPeakBytes = f(wall.Seconds()*cores), f(2), f(1<<30)
		b.Details = append(b.Details, client.WorkloadDetail{Workload: w})
		return &b.Details[len(b.Details)-1]
	}
	for i := range 30 {
		add(fmt.Sprintf("slurm/4_%d", i), "sweep", "completed", time.Hour-time.Duration(i)*time.Minute, 10*time.Minute, 1+float64(i)/100)
	}
	third := &b.Details[2]
	third.State, *third.ExitCode, third.CPUSeconds = "failed", 3, nil
	waits := add("slurm/4", "sweep", "pending", 2*time.Hour, 0, 0)
	waits.End, waits.CPUSeconds, waits.Reason = nil, nil, "JobArrayTaskLimit"
	add("slurm/7+0", "coupled", "completed", time.Hour, 30*time.Minute, 1)
	add("slurm/7+1", "coupled", "completed", time.Hour, 30*time.Minute, 2)
	add("slurm/40", "alone", "completed", time.Hour, 30*time.Minute, 2)
	return b
}
