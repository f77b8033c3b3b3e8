package main

import (
	"fmt"
	"math"
	"time"

	"reckon/internal/term"
	"reckon/lab/stress"
	"reckon/web/client"
)

// writeTrace writes the use of a workload over time, summed over nodes and parts, as a program for
// `reckon stress --trace`.
func writeTrace(g *globals, d client.WorkloadDetail, format string) error {
	p, gaps := traceOf(d)
	if len(p.Steps) == 0 {
		return fmt.Errorf("no profile of %s is kept; `reckon job %s` shows its figures", term.Safe(d.ID),
			term.Safe(d.ID))
	}
	if gaps > 0 {
		fmt.Fprintf(g.stderr, "reckon: note: %d of %d steps were not measured and hold the values before them\n", gaps, len(p.Steps))
	}
	if len(d.Nodes) > 1 {
		fmt.Fprintf(g.stderr, "reckon: note: the trace is the sum over %d nodes\n", len(d.Nodes))
	}
	return stress.WriteTrace(g.stdout, p, d.ID, format)
}

// traceOf converts the profiles of a workload to a program. A step without any figure repeats the previous step and
// counts as a gap. Such steps at the start are dropped.
func traceOf(d client.WorkloadDetail) (p stress.Program, gaps int) {
	step := time.Duration(math.Round(d.StepSeconds * 1e9))
	if step <= 0 {
		return p, 0
	}
	figures := map[string][]term.Point{}
	steps := 0
	for _, m := range mergeProfiles(d.Profile) {
		figures[m.Metric] = m.points
		steps = max(steps, len(m.points))
	}
	var level stress.Level
	for i := range steps {
		known := false
		take := func(of stress.Resource, metric string, factor float64) bool {
			points := figures[metric]
			if i >= len(points) || points[i].Value == nil {
				return false
			}
			level[of], known = max(0, *points[i].Value*factor), true
			return true
		}
		for _, of := range stress.All() {
			// The network figure includes both directions; a load only sends.
			if of != stress.Network || !take(of, "network_transmit_bytes_per_second", 1) {
				factor := 1.0
				if of == stress.Network {
					factor = 0.5
				}
				take(of, of.String(), factor)
			}
		}
		switch {
		case known:
		case len(p.Steps) == 0:
			continue
		default:
			gaps++
		}
		p.Steps = append(p.Steps, stress.Step{Level: level, Duration: step})
	}
	return p, gaps
}
