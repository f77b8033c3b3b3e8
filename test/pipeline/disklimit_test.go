package pipeline_test

import (
	"strings"
	"testing"
	"time"

	"reckon/lab/simulate"
	"reckon/test/pipeline"
)

// TestDiskLimit: whether a limit of its control group on a disk slows a job down, on both sides of each threshold.
func TestDiskLimit(t *testing.T) {
	const (
		sentence = "most likely this limit (io.max, blkio.throttle) slows it down"
		limit    = 50e6 // bytes a second
	)
	cases := map[string]struct {
		does simulate.Does
		want bool
	}{
		"at-limit":    {simulate.Does{Cores: 0.5, Read: 0.99 * limit, ReadLimit: limit}, true},
		"near-limit":  {simulate.Does{Cores: 0.5, Read: 0.91 * limit, ReadLimit: limit}, true},
		"below-limit": {simulate.Does{Cores: 0.5, Read: 0.89 * limit, ReadLimit: limit}, false},
		"above-limit": {simulate.Does{Cores: 0.5, Read: 1.11 * limit, ReadLimit: limit}, false}, // it read from elsewhere, too
		"a-little":    {simulate.Does{Cores: 0.5, Read: 1.09 * limit, ReadLimit: limit}, true},
		"writing":     {simulate.Does{Cores: 0.5, Write: limit, ReadLimit: limit}, false},
		"no-limit":    {simulate.Does{Cores: 0.5, Read: limit}, false},
		"computing":   {simulate.Does{Cores: 4.1, Read: limit, ReadLimit: limit}, false},
		"half-asleep": {simulate.Does{Cores: 3.9, Read: limit, ReadLimit: limit}, true},
	}
	var plan []simulate.Planned
	for name, c := range cases {
		c.does.Needed = 100 * mib
		plan = append(plan, simulate.Planned{User: "alice", Name: name, Cores: 8, Length: 20 * time.Minute, Does: c.does})
	}
	s := pipeline.Run(t, simulate.Config{OnlyPlanned: true, Nodes: 16, GPUNodes: -1, Cores: 8, Plan: plan}, 30*time.Minute, pipeline.Fine)
	for name, c := range cases {
		if got := s.Said(name); strings.Contains(got, sentence) != c.want || c.want && strings.Contains(got, "it was idle") {
			t.Errorf("%s: want the sentence on a limit of a disk: %v, got\n%s", name, c.want, got)
		}
	}
	if got := s.Said("at-limit"); !strings.Contains(got, "it read 47.2 MiB a second of the 47.7 MiB a second that its control group allows on disk nvme0n1 of node") {
		t.Error(got)
	}
}
