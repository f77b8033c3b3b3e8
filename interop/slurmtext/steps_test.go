package slurmtext_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"reckon/interop/slurmtext"
)

// TestKeepStep: of a job with very many steps, the informative ones are kept.
func TestKeepStep(t *testing.T) {
	type step struct {
		id, state string
		exit      int
		cpu, wall float64
	}
	begin := time.Unix(1e9, 0)
	weight := func(s *step) float64 {
		var cpu *float64
		if s.cpu > 0 {
			cpu = &s.cpu
		}
		return slurmtext.StepWeight(s.id, s.state, &s.exit, cpu, begin, begin.Add(time.Duration(s.wall)*time.Second))
	}
	var kept []step
	take := func(s step) { kept = slurmtext.KeepStep(kept, s, weight) }
	has := func(id string) bool {
		return slices.ContainsFunc(kept, func(s step) bool { return s.id == id })
	}
	take(step{id: "batch", state: "completed"})
	take(step{id: "extern", state: "completed"})
	for i := range 100_000 {
		s := step{id: fmt.Sprint(i), state: "completed", cpu: 0.1}
		switch i {
		case 40_000:
			s.state, s.exit = "failed", 3
		case 50_000:
			s.exit = 1 // reported as completed
		case 60_000:
			s.cpu = 500
		case 70_000:
			s.cpu, s.wall = 0, 400 // no accounting of CPU time
		case 80_000:
			s.state, s.cpu = "running", 0
		}
		take(s)
	}
	if n := len(kept); n > slurmtext.MaxSteps || n < slurmtext.MaxSteps/2 {
		t.Errorf("%d steps are kept", n)
	}
	if kept[0].id != "batch" || kept[2].id != "0" || kept[3].id != "1" {
		t.Errorf("they begin with %v", kept[:4])
	}
	for id, want := range map[string]bool{"batch": true, "extern": true, "40000": true, "50000": true, "60000": true, "70000": true, "80000": false, "0": true, "150": true, "98000": false} {
		if has(id) != want {
			t.Errorf("step %s is kept: %v", id, !want)
		}
	}
}
