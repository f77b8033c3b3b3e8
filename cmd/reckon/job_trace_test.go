package main

import (
	"testing"
	"time"

	"reckon/lab/stress"
	"reckon/web/client"
)

// TestTraceOf: a trace sums nodes and parts, starts with the first known figure, and holds the last
// value over a gap: a gap is not idleness.
func TestTraceOf(t *testing.T) {
	at := func(i int) time.Time { return time.Unix(1000+int64(i)*10, 0) }
	profile := func(metric, node string, values ...float64) client.Profile {
		p := client.Profile{Metric: metric, Node: node}
		for i, v := range values {
			point := client.Point{Time: at(i)}
			if v >= 0 {
				point.Value = &v
			}
			p.Points = append(p.Points, point)
		}
		return p
	}
	d := client.WorkloadDetail{StepSeconds: 10, Profile: []client.Profile{
		profile("cores", "a", -1, 1, -1, 3),
		profile("cores", "b", -1, 0.5, -1, 1),
		profile("memory_bytes", "a", -1, 100, -1, 300),
		profile("network_bytes_per_second", "a", -1, 50, -1, 70),
		profile("watts", "a", 9, 9, 9, 9),
	}}
	p, gaps := traceOf(d)
	if len(p.Steps) != 3 || gaps != 1 {
		t.Fatalf("%d steps, %d gaps: %+v", len(p.Steps), gaps, p)
	}
	for i, want := range []stress.Level{
		{stress.CPU: 1.5, stress.Memory: 100, stress.Network: 25},
		{stress.CPU: 1.5, stress.Memory: 100, stress.Network: 25},
		{stress.CPU: 4, stress.Memory: 300, stress.Network: 35},
	} {
		if got := p.Steps[i]; got.Level != want || got.Duration != 10*time.Second {
			t.Errorf("step %d: %+v, want %v", i+1, got, want)
		}
	}
	d.Profile = append(d.Profile, profile("network_transmit_bytes_per_second", "a", -1, 10, 20, 30))
	if p, gaps := traceOf(d); gaps != 0 || p.Steps[1].Level[stress.Network] != 20 {
		t.Errorf("sent bytes: %+v, %d gaps", p, gaps)
	}
	if p, _ := traceOf(client.WorkloadDetail{}); len(p.Steps) != 0 {
		t.Errorf("no profile: %+v", p)
	}
}
