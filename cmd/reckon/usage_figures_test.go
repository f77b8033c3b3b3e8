package main

import (
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
)

// TestUsageFigures: every figure of usage can be selected, with its share of the total; an unmeasured figure is not 0.
func TestUsageFigures(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	list := client.UsageList{By: []string{"owner"}, Span: "whole", Rows: []client.Usage{
		{Owner: "alice", UsageFigures: client.UsageFigures{NetworkBytes: f(1 << 30), IOWaitSeconds: f(5400)}},
		{Owner: "bob", UsageFigures: client.UsageFigures{NetworkBytes: f(3 << 30)}},
		{Owner: "carol"},
	}}
	list.Rows[1].Exactness = figure.Degrees{"network_bytes": figure.AtLeast}
	list.Total.NetworkBytes, list.Total.IOWaitSeconds = f(4<<30), f(5400)
	sortUsage(list.Rows, "network")
	var places []int
	for _, name := range []string{"network", "io_wait_seconds"} {
		at, err := usageFigure(name)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, at)
	}
	var out strings.Builder
	m := marked{}
	if err := m.figures(list, places, 0).Print(term.Screen{Writer: &out, Width: 100}); err != nil {
		t.Fatal(err)
	}
	want := []string{"OWNER NETWORK OF USED STORAGE WAIT OF USED", "bob >=3 GiB >=75% - -", "alice 1 GiB 25% 1h 30m 100%", "carol - - - -"}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		got := strings.ReplaceAll(strings.Join(strings.Fields(line), " "), " %", "%")
		if i >= len(want) || !strings.EqualFold(strings.ReplaceAll(got, ">= ", ">="), want[i]) {
			t.Errorf("line %d is %q, want %q", i, got, want[min(i, len(want)-1)])
		}
	}
	for word := range usedWords() {
		if _, err := usageFigure(word); err != nil {
			t.Error(err)
		}
	}
	if !hasUse(&list.Total) || hasUse(&client.Usage{UsageFigures: client.UsageFigures{Started: f(4), WriteBytes: f(0)}}) {
		t.Error("a time in which work started and nothing is counted yet has a table")
	}
	if _, err := usageFigure("moon"); err == nil || !strings.Contains(err.Error(), "io-wait") {
		t.Errorf("an unknown figure: %v", err)
	}
}

// TestHoursOfTheWeek: of imported time the hours of the week are the mean of the cores allocated, for each owner the largest first;
// an hour that came twice counts twice in the mean.
func TestHoursOfTheWeek(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	monday := time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)
	row := func(owner string, hour int, held float64) client.Usage {
		at := monday.Add(time.Duration(hour) * time.Hour)
		return client.Usage{From: &at, Owner: owner, UsageFigures: client.UsageFigures{HeldCoreSeconds: f(held), CPUSeconds: f(1)}}
	}
	list := client.UsageList{By: []string{"owner"}, Span: "hour-of-week", Since: time.Date(2025, 6, 2, 0, 0, 0, 0, time.UTC),
		Until: time.Date(2025, 6, 16, 0, 0, 0, 0, time.UTC), Rows: []client.Usage{row("bob", 0, 3600*8), row("alice", 25, 3600*64), row("alice", 26, 3600*32)}}
	var out strings.Builder
	if err := printWeek(term.Screen{Writer: &out, Width: 100}, list, false, 1); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if !strings.HasPrefix(lines[0], "Mean of the cores allocated") || !strings.HasSuffix(lines[1], "  alice") || strings.Join(strings.Fields(lines[3])[:4], " ") != "Tue - 32 16" ||
		!strings.Contains(out.String(), "1 more: --limit 2") {
		t.Errorf("%s", out.String())
	}
}
