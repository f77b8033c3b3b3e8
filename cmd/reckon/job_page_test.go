package main

import (
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
)

// A run of a few seconds has fewer points than are drawn, of any figure; a workload without memory has no chart of it.
func TestProfilesOfShortRuns(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	page := func(points int) string {
		d := client.WorkloadDetail{Workload: client.Workload{ID: "group/n1/7", Kind: "group", Owner: "alice", Start: now.Add(-time.Minute), End: &now, Seen: now}}
		for metric, v := range map[string]float64{"cores": 1, "cpu_wait_cores": 0.1, "memory_bytes": 0} {
			p := client.Profile{Metric: metric, Unit: "cores"}
			for i := range points {
				p.Points = append(p.Points, client.Point{Time: now.Add(time.Duration(i-points) * time.Second), Value: &v})
			}
			d.Profile = append(d.Profile, p)
		}
		var b strings.Builder
		if err := printJob(term.Screen{Writer: &b}, d, "", now); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for points, drawn := range map[int]bool{2: false, 3: true} {
		got := page(points)
		for _, what := range []string{"Cores over time", "cpu wait"} {
			if strings.Contains(got, what) != drawn {
				t.Errorf("%d points: %q drawn: %v, want %v\n%s", points, what, !drawn, drawn, got)
			}
		}
		if strings.Contains(got, memoryTitle) {
			t.Errorf("%d points: a chart of no memory\n%s", points, got)
		}
	}
}

// What a run needed is a range where its ends are apart, and what it had is one figure; a table has the lower end as a lower bound. Of a run
// with the peak alone measured, page cache and all, the need is not above it.
func TestNeededMemory(t *testing.T) {
	v := func(mib float64) *float64 { x := mib * (1 << 20); return &x }
	one := 1.0
	apart := client.Workload{ID: "slurm/7", Kind: "slurm", WallSeconds: 60, Row: figure.Row{CPUSeconds: &one, RequestMemoryBytes: v(400),
		MemoryNeededPeakBytes: v(100), MemoryNeededMostBytes: v(150), MemoryPeakBytes: v(300)}}
	near, peak, sampled := apart, apart, apart
	near.MemoryNeededMostBytes = v(101)
	peak.MemoryNeededPeakBytes, peak.MemoryNeededMostBytes = nil, nil
	sampled.MemoryNeededPeakBytes, sampled.MemoryNeededMostBytes, sampled.Exactness = nil, nil, figure.Degrees{"memory_peak_bytes": figure.Estimated}
	for _, c := range []struct {
		w                client.Workload
		page, cell, seff string
	}{
		{apart, "needed 100 MiB to 150 MiB of 400 MiB ", ">=100 MiB", "NOTE: memory needed was between 100.00 MB and 150.00 MB.\n"},
		{near, "needed 100 MiB of 400 MiB ", "100 MiB", "Memory Utilized: 100.00 MB\n"},
		{peak, "peak 300 MiB of 400 MiB ", "<=300 MiB", "Memory Utilized: 300.00 MB\n"},
		{sampled, "peak 300 MiB of 400 MiB ", "~300 MiB", "Memory Utilized: 300.00 MB\n"},
	} {
		var b, seff strings.Builder
		d := client.WorkloadDetail{Workload: c.w}
		if err := printJob(term.Screen{Writer: &b}, d, "", time.Unix(0, 0)); err != nil || !strings.Contains(b.String(), c.page) {
			t.Errorf("no %q in\n%s%v", c.page, b.String(), err)
		}
		if got := (marked{}).formatMemoryCell(&c.w); got != c.cell {
			t.Errorf("the cell is %q, want %q", got, c.cell)
		}
		if err := printSeff(&seff, d); err != nil || !strings.Contains(seff.String(), c.seff) {
			t.Errorf("no %q in\n%s%v", c.seff, seff.String(), err)
		}
	}
}

// What was received and sent is marked as the sum of both is.
func TestNetworkIsMarked(t *testing.T) {
	v := 1024.0
	w := client.Workload{ID: "group/n1/7", Kind: "group", Row: figure.Row{CPUSeconds: &v, NetworkBytes: &v, NetworkReceiveBytes: &v, NetworkTransmitBytes: &v,
		Exactness: figure.Degrees{"network_bytes": figure.AtLeast, "network_receive_bytes": figure.AtLeast, "network_transmit_bytes": figure.AtLeast}}}
	var b strings.Builder
	if err := printJob(term.Screen{Writer: &b}, client.WorkloadDetail{Workload: w}, "", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if want := ">=1 KiB   received >=1 KiB   sent >=1 KiB"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

// TestChartOfShortJob: the chart of a job that ran less than three minutes begins at its start and ends at its end.
func TestChartOfShortJob(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 11, 28, 10, 0, s, 0, time.UTC) }
	two, end := 2.0, at(158)
	d := client.WorkloadDetail{Workload: client.Workload{Start: at(0), End: &end}, StepSeconds: 60,
		Profile: []client.Profile{{Metric: "cores", Unit: "cores"}}}
	for s := 60; s <= 240; s += 60 {
		d.Profile[0].Points = append(d.Profile[0].Points, client.Point{Time: at(s), Value: &two})
	}
	p := &page{Screen: term.Screen{Width: 80}}
	p.printProfiles(d)
	got := p.b.String()
	for _, want := range []string{"Cores over time, means of 1m 0s\n", at(0).Local().Format("└15:04:05 "),
		end.Local().Format(" 15:04:05\n")} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
