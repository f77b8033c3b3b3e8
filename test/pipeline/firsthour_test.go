package pipeline_test

import (
	"math"
	"testing"
	"time"

	"reckon/lab/simulate"
	"reckon/test/pipeline"
	"reckon/web/client"
)

// TestFirstHour: in the first hours of an installation, on machines that have run for weeks and
// with jobs under way, history holds what was seen since the first look, and nothing of before:
// the figures of the site, of its owners and of its nodes add up.
func TestFirstHour(t *testing.T) {
	const installed = 3*time.Hour + 50*time.Minute
	for _, age := range []time.Duration{90 * time.Second, 6 * time.Minute, 80 * time.Minute} {
		t.Run(age.String(), func(t *testing.T) {
			p := pipeline.Fine
			p.Installed = installed
			s := pipeline.Run(t, simulate.Config{Nodes: 5, GPUNodes: 1, Jobs: 200, Cores: 8, For: 8 * time.Hour, Seed: 7}, installed+age, p)
			all := s.Usage(client.UsageQuery{Since: s.Now.Add(-24 * time.Hour), Until: s.Now, Span: "whole", By: []string{"owner"}})
			looked := 5 * (age - p.Export).Seconds() // since the first export of each node
			core, cpu := *all.Total.CoreSeconds, *all.Total.CPUSeconds
			if math.Abs(core-8*looked) > 0.01*8*looked {
				t.Errorf("%g core seconds in %v, want %g", core, age, 8*looked)
			}
			used, begun := 0.0, 0.0
			for _, n := range s.Nodes() {
				if math.Abs(*n.Day.UpSeconds-looked/5) > 1 {
					t.Errorf("%s was up for %g s of %g", n.Node, *n.Day.UpSeconds, looked/5)
				}
				used += *n.Day.CPUShare * looked / 5 * 8
			}
			for _, r := range all.Rows {
				if r.CPUSeconds != nil {
					begun += *r.CPUSeconds
				}
			}
			if math.Abs(cpu-used) > 0.01*core || math.Abs(cpu-begun) > 1e-6*cpu || used < 0.05*core {
				t.Errorf("owners used %g s, workloads %g s, nodes %g s of %g", begun, cpu, used, core)
			}
			if share := *all.Total.CapacityShare; share > 1 || math.Abs(share-used/core) > 0.01 {
				t.Errorf("%.3f of the capacity was used, want %.3f", share, used/core)
			}
		})
	}
}
