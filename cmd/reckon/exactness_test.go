package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
)

// TestMarks: bounds, estimates and modelled figures are marked next to their numbers, in the list
// and on the page of a run, and the marks are explained; exact and unknown figures have none.
func TestMarks(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	end := now.Add(-time.Hour)
	w := client.Workload{ID: "unit/a", Start: end.Add(-time.Hour), Seen: end, End: &end, WallSeconds: 3600}
	w.CPUSeconds, w.CoresMean, w.CoresP95, w.MemoryPeakBytes, w.ReadBytes = new(7200.0), new(2.0), new(4.0), new(float64(1<<30)), new(0.0)
	w.Exactness = figure.Degrees{"cpu_seconds": figure.AtLeast, "cores_mean": figure.AtLeast, "wall_seconds": figure.AtMost, "cores_p95": figure.Estimated, "memory_peak_bytes": figure.Estimated, "energy_joules": figure.Modelled}
	for name, print := range map[string]func(term.Screen) error{
		"list": func(s term.Screen) error {
			m := marked{}
			err := m.jobTable([]client.Workload{w}, now).Print(s)
			_, _ = s.Write([]byte(m.legend()))
			return err
		},
		"page": func(s term.Screen) error { return printJob(s, client.WorkloadDetail{Workload: w}, "", now) },
	} {
		var b bytes.Buffer
		if err := print(term.Screen{Writer: &b}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{">=2h", ">=2", "<=1h", "~4", "~1 GiB", ">= at least", "<= at most", "~ estimated or modelled"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, b.String())
			}
		}
		for _, no := range []string{"~-", ">=-", ">=0", "~0"} {
			if strings.Contains(b.String(), no) {
				t.Errorf("%s: %q in\n%s", name, no, b.String())
			}
		}
	}
	if m := (marked{}); m.figure(nil, "cpu_seconds", "3 s") != "3 s" || m.legend() != "" {
		t.Error("an exact figure is marked")
	}
}

// TestUsageMarks: history marks figures that are bounds or estimates in some of their hours.
func TestUsageMarks(t *testing.T) {
	var list client.UsageList
	list.By, list.Span = []string{"owner"}, "whole"
	exact := client.Usage{Owner: "bob", UsageFigures: client.UsageFigures{CPUSeconds: new(3600.0)}}
	bound := client.Usage{Owner: "alice", UsageFigures: client.UsageFigures{CPUSeconds: new(7200.0), HeldCoreSeconds: new(36000.0), ReadBytes: new(1024.0)}}
	bound.Exactness = figure.Degrees{"cpu_seconds": figure.AtLeast, "held_core_seconds": figure.Estimated, "gpu_seconds": figure.Modelled}
	list.Rows, list.Total = []client.Usage{exact, bound}, bound
	m := marked{}
	var b bytes.Buffer
	s := term.Screen{Writer: &b}
	if err := m.usageTable(list, 0).Print(s); err != nil {
		t.Fatal(err)
	}
	if err := m.printTotals(s, list); err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]int{">=2": 2, "~10": 1, ">=1": 0, ">= at least": 1, "~ estimated": 1, "1 KiB": 1, ">=-": 0, "~-": 0} {
		if strings.Count(b.String(), want) != n {
			t.Errorf("%q is not there %d times:\n%s", want, n, b.String())
		}
	}
}

// TestTopMarks: the live view marks figures that were not exact at the last export, each once.
func TestTopMarks(t *testing.T) {
	w := client.LiveWorkload{ID: "unit/a", Cores: 1.5, CPUSeconds: 60, MemoryBytes: new(2048.0), ReadRate: new(1024.0), WriteRate: new(1024.0),
		Exactness: figure.Degrees{"cpu_seconds": figure.AtLeast, "memory_bytes": figure.Estimated, "io_read_bytes": figure.AtLeast, "io_write_bytes": figure.AtLeast}}
	var b bytes.Buffer
	m := &topModel{screen: term.Screen{Writer: &b, Width: 200, Height: 40}}
	if err := m.workloadTable([]*client.LiveWorkload{&w}).Print(m.screen); err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]int{">=1.5": 1, ">=1m": 1, "~2 KiB": 1, ">=2 KiB/s": 1, ">=": 3, "~": 1} {
		if strings.Count(b.String(), want) != n {
			t.Errorf("%q is not there %d times:\n%s", want, n, b.String())
		}
	}
}

// TestPickedUsage: sums over people are formatted in core-hours and with their marks in chosen columns too.
func TestPickedUsage(t *testing.T) {
	rows := []client.Usage{{Owner: "alice", UsageFigures: client.UsageFigures{CPUSeconds: new(7200.0), EnergyJoules: new(1500.0), Exactness: figure.Degrees{"cpu_seconds": figure.AtLeast}}}}
	columns, err := resolveColumns[client.Usage]([]string{"User", "used", "energy", "gpu"}, usageAliases())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	m := marked{}
	if err := newColumnTable(m, rows, columns, func(u *client.Usage) figure.Degrees { return u.Exactness },
		fixedNow()).Print(term.Screen{Writer: &out}); err != nil {
		t.Fatal(err)
	}
	if want := "alice  >=2 core-hours  0.42 Wh         -\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %q, want %q at the end", out.String(), want)
	}
}

// TestUsageUntil: the sentence below the table does not name an end up to which nothing was counted yet.
func TestUsageUntil(t *testing.T) {
	list := client.UsageList{Since: time.Date(2026, 11, 23, 15, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 23, 17, 0, 0, 0, time.UTC)}
	counted := list.Since.Add(51*time.Minute + 38*time.Second)
	for _, c := range []struct {
		asOf *time.Time
		want string
	}{{nil, "From 2026-11-23 15:00 to 2026-11-23 17:00 UTC"}, {&counted, "From 2026-11-23 15:00 to 2026-11-23 15:51 UTC"}, {&list.Since, "to 2026-11-23 17:00 UTC"}} {
		var b bytes.Buffer
		list.AsOf = c.asOf
		if err := (marked{}).printTotals(term.Screen{Writer: &b}, list); err != nil || !strings.Contains(b.String(), c.want) {
			t.Errorf("as of %v: %q, %v", c.asOf, b.String(), err)
		}
	}
}
