package pipeline_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"reckon/access"
	"reckon/lab/simulate"
	"reckon/test/pipeline"
	"reckon/web/client"
)

// TestMoveFromSlurm: shapes are from the batch system, GPU use is from agents, and users see their own work only.
func TestMoveFromSlurm(t *testing.T) {
	var plan []simulate.Planned
	for day := range 4 {
		at := time.Duration(day) * 24 * time.Hour
		for k := range 4 {
			plan = append(plan, simulate.Planned{User: "ines", Name: "held", Cores: 4, GPUs: 4, MemoryBytes: 8 << 30, Submit: at + time.Duration(k)*time.Minute, Length: 10 * time.Hour,
				Does: simulate.Does{Cores: 3, Needed: 4 << 30, GPU: 0.02, GPUBytes: 1 << 30}},
				simulate.Planned{User: fmt.Sprint("u", day, k), Name: "other", Cores: 4, MemoryBytes: 8 << 30, Submit: at + time.Duration(k)*time.Hour, Length: time.Hour,
					Does: simulate.Does{Cores: 3.5, Needed: 4 << 30}})
		}
		plan = append(plan, simulate.Planned{User: "jan", Name: "idle", Cores: 8, MemoryBytes: 8 << 30, Submit: at + 12*time.Hour, Length: 10 * time.Hour, Does: simulate.Does{Cores: 1, Needed: 1 << 30}})
	}
	s := pipeline.Run(t, simulate.Config{OnlyPlanned: true, Nodes: 8, GPUNodes: 4, Cores: 16, For: 96 * time.Hour, Plan: plan}, 4*24*time.Hour, pipeline.Coarse)
	q := client.MoveQuery{Since: s.Plan.From, Until: s.Now, All: true}
	list := s.Move(q, "")
	if len(list.Moves) != 1 {
		t.Fatalf("%+v", list)
	}
	m := list.Moves[0]
	if m.Owner != "ines" || m.Name != "held" || m.Rule != "gpu-off" || m.From != "gpu" || m.To != "batch" || m.Runs != 16 || m.WaitThereRuns < 10 || len(m.Jobs) != 5 {
		t.Errorf("%+v", m)
	}
	if hours := 16 * 4 * 10.0; m.Hours < 0.98*hours || m.Hours > 1.02*hours || m.GPUHours < 0.98*hours || m.FreedGPUHours < 0.98*hours*30/4 {
		t.Errorf("%g core-hours, %g GPU-hours, %g freed; want %g of both", m.Hours, m.GPUHours, m.FreedGPUHours, hours)
	}
	for want, viewer := range []access.Viewer{{Name: "jan", Role: access.User}, {Name: "ines", Role: access.User}} {
		list := s.MoveFor(viewer, q)
		if len(list.Moves) != want {
			t.Errorf("%s sees %d moves, want %d", viewer.Name, len(list.Moves), want)
		}
		for _, m := range append(list.Moves, list.Stays...) {
			if viewer.Role == access.User && m.Owner != viewer.Name {
				t.Errorf("%s sees %s", viewer.Name, m.Owner)
			}
		}
	}
	if list := s.MoveFor(access.Viewer{Name: "ops", Role: access.Support}, q); len(list.Moves) != 1 {
		t.Errorf("support sees %d moves", len(list.Moves))
	}
	// What the file reports goes before what was reported: an account that is not let in stays.
	closed := "clusters: [{name: lab, partitions: [{name: batch, who: [nobody]}]}]"
	if list := s.Move(q, closed); len(list.Moves) != 0 || !strings.Contains(list.Stays[0].Why, "does not let the account in") {
		t.Errorf("%+v", list)
	}
}
