package client

import (
	"fmt"
	"testing"

	"reckon/figure"
)

// TestLostOf: runs of one name form one line with the worst of them, losses below one core-hour and runs without an
// allocation are left out, and a GPU counts as 16 cores in the order.
func TestLostOf(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	run := func(id, name string, cores, gpus, used *float64, wall float64) Workload {
		return Workload{ID: id, Name: name, WallSeconds: wall, Row: figure.Row{AllocatedCores: cores, AllocatedGPUs: gpus, CPUSeconds: used, GPUSeconds: f(0)}}
	}
	got := groupLost([]Workload{
		run("slurm/1", "a", f(2), nil, f(3600), 3600),    // 1 core-hour
		run("slurm/2", "a", f(4), nil, f(3600), 3600),    // 3
		run("slurm/3", "b", f(1), f(1), f(3600), 3600),   // 1 GPU-hour
		run("slurm/4", "c", f(1), nil, f(1), 3600),       // a second less than an hour
		run("slurm/5", "d", nil, nil, f(1), 3600),        // the allocation is unknown
		run("slurm/6", "e", f(2), nil, nil, 3600),        // its use was not measured
		run("slurm/7", "f", f(1), nil, f(9999999), 3600), // used more than its allocation
	})
	var text string
	for _, l := range got {
		text += fmt.Sprintf("%s %d %s %.0f; ", l.Name, l.Runs, l.Worst.ID, *l.CoreSeconds)
	}
	if want := "b 1 slurm/3 0; a 2 slurm/2 14400; "; text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
