package pipeline_test

import (
	"strings"
	"testing"
	"time"

	"reckon/lab/simulate"
	"reckon/test/pipeline"
)

// TestCounters: what limits a job on its cores by the counters of the processors, on both sides of each threshold, after all that is
// between the counters and a sentence. The counters are simulated.
func TestCounters(t *testing.T) {
	const (
		bandwidth  = "most likely memory bandwidth limits it"
		memory     = "most likely it waited for memory"
		stalled    = "most of the time it waited inside its processors"
		arithmetic = "arithmetic limits it"
		flowing    = "memory did not hold them up"
		scalars    = "of its floating-point instructions work on one number each"
	)
	sentences := []string{bandwidth, memory, stalled, arithmetic, flowing, scalars}
	cases := map[string]struct {
		does simulate.Does
		want string
	}{
		"bandwidth":    {simulate.Does{IPC: 0.69, Traffic: 5.05e9}, bandwidth},
		"latency":      {simulate.Does{IPC: 0.69, Traffic: 4.95e9}, memory},
		"some-traffic": {simulate.Does{IPC: 0.69, Traffic: 0.41e9}, memory},
		"less-traffic": {simulate.Does{IPC: 0.69, Traffic: 0.39e9}, stalled},
		"between":      {simulate.Does{IPC: 0.71, Traffic: 9e9}, ""},
		"almost":       {simulate.Does{IPC: 1.49, Traffic: 1e8, FP: 0.5}, ""},
		"computing":    {simulate.Does{IPC: 1.51, Traffic: 1e8, FP: 0.11}, arithmetic},
		"spinning":     {simulate.Does{IPC: 1.51, Traffic: 1e8, FP: 0.09}, flowing},
		"scalars":      {simulate.Does{IPC: 1, FP: 0.051, Scalar: 0.81}, scalars},
		"vectors":      {simulate.Does{IPC: 1, FP: 0.5, Scalar: 0.79}, ""},
		"integers":     {simulate.Does{IPC: 1, FP: 0.049, Scalar: 1}, ""},
		"not-counted":  {simulate.Does{}, ""},
	}
	var plan []simulate.Planned
	for name, c := range cases {
		does := c.does
		does.Cores, does.Needed = 1.9, 100*mib
		plan = append(plan, simulate.Planned{User: "alice", Name: name, Cores: 2, Length: 20 * time.Minute, Does: does})
	}
	s := pipeline.Run(t, simulate.Config{OnlyPlanned: true, Nodes: 2, Cores: 16, Plan: plan}, 30*time.Minute, pipeline.Fine)
	for name, c := range cases {
		got := s.Said(name)
		for _, sentence := range sentences {
			if strings.Contains(got, sentence) != (sentence == c.want) {
				t.Errorf("%s: want %q, got\n%s", name, c.want, got)
			}
		}
	}
	if w := s.Job("bandwidth"); w.MemoryTrafficBytes == nil || w.CPUSeconds == nil || *w.MemoryTrafficBytes < 5.00e9**w.CPUSeconds || *w.MemoryTrafficBytes > 5.1e9**w.CPUSeconds {
		t.Errorf("memory traffic %v, CPU time %v", w.MemoryTrafficBytes, w.CPUSeconds)
	}
	if w := s.Job("not-counted"); w.MemoryTrafficBytes != nil && *w.MemoryTrafficBytes == 0 {
		t.Error("traffic that nobody counted is shown as none")
	}
}
