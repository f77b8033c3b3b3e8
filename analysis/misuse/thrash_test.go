package misuse_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/analysis/misuse"
)

// TestSustained: only what lasts for the rule's duration without a break is thrashing, whatever
// the totals of the run.
func TestSustained(t *testing.T) {
	line := func(parts ...any) *misuse.Line { // 60, 500.0: an hour of 500
		l := &misuse.Line{Start: epoch, Step: time.Minute}
		for i := 0; i < len(parts); i += 2 {
			l.Values = append(l.Values, slices.Repeat([]float64{parts[i+1].(float64)}, parts[i].(int))...)
		}
		return l
	}
	gap := math.NaN()
	for name, c := range map[string]struct {
		faults  *misuse.Line
		seconds float64 // 0: no finding
		when    string
	}{
		"an hour of a day":        {line(600, 0.0, 60, 500.0, 780, 0.0), 3600, "for 1h from 2026-11-21 10:00 UTC on"},
		"a start from disk":       {line(2, 10000.0, 1438, 0.0), 300, ""}, // 4,000 per second over five minutes
		"a small start from disk": {line(1, 400.0, 1439, 0.0), 0, ""},
		"now and then":            {line(4, 90.0, 1, 0.0, 4, 90.0, 1, 0.0), 0, ""},
		"twice":                   {line(100, 0.0, 10, 200.0, 100, 0.0, 10, 200.0), 0, ""},
		"nothing":                 {line(1440, 0.0), 0, ""},
		"five minutes with a gap": {line(3, 200.0, 1, gap, 3, 200.0), 0, ""},
		"nothing is known":        {line(1440, gap), 0, ""},
	} {
		if name == "twice" {
			c.seconds = -1 // two stretches, with the minutes at their edges
		}
		w := job(1, 24, func(w *misuse.Workload) { w.MajorFaults, w.Lines["major_faults"] = num(1e7), c.faults })
		got := misuse.Judge([]misuse.Workload{w}, nil, func(string, []string) *misuse.Policy { return policy() })
		switch {
		case c.seconds == 0 && len(got) != 0:
			t.Errorf("%s: %+v", name, got)
		case c.seconds == 0:
		case len(got) != 1 || got[0].Rule != misuse.MemoryThrashing || got[0].Part != "faults":
			t.Errorf("%s: %+v", name, got)
		default:
			for1 := got[0].Evidence[1].Value
			if c.seconds > 0 && math.Abs(for1-c.seconds) > 480 || c.seconds < 0 && (for1 < 1200 || for1 > 2200) || got[0].Evidence[0].Value < policy().MemoryThrashing.FaultRate {
				t.Errorf("%s: for %g s, %+v", name, for1, got[0].Evidence)
			}
			if !got[0].First.Equal(w.Start) {
				t.Errorf("%s: the finding begins at %s: it would not be the same one in the next look", name, got[0].First)
			}
			if c.when != "" && !strings.Contains(got[0].Text, strings.TrimPrefix(c.when, "for 1h ")[:15]) {
				t.Errorf("%s: %s", name, got[0].Text)
			}
		}
	}
	// Without figures over time the totals decide.
	w := job(1, 1, func(w *misuse.Workload) { w.MajorFaults = num(1e6) })
	if got := misuse.Judge([]misuse.Workload{w}, nil, func(string, []string) *misuse.Policy { return policy() }); len(got) != 1 || !strings.Contains(got[0].Text, "278 pages a second") {
		t.Errorf("by totals: %+v", got)
	}
}

func TestSpan(t *testing.T) {
	for seconds, want := range map[float64]string{18000: "5h", 4800: "1h20m", 720: "12m", 20: "less than a minute", 50: "1m", 90000: "25h"} {
		if got := misuse.Span(seconds).String(); got != want {
			t.Errorf("%g: %q, want %q", seconds, got, want)
		}
	}
}
