package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"reckon/answer"
	"reckon/web/client"
)

// cases are findings that can be acknowledged and muted.
type cases struct {
	mu   sync.Mutex
	list []client.Finding
}

func newCases() *cases {
	now, limit := time.Now().UTC(), 0.1
	f := client.Finding{
		ID: "f1", Rule: "over-share", Severity: "high", State: "open", Owner: "alice", Workload: "slurm/4711", Node: "n1", Part: "cpu",
		Text: "it used more than its share of n1 while two owners wanted it", First: now.Add(-time.Hour), Last: now,
		Found: now.Add(-30 * time.Minute), Seen: now,
		Queries: []client.FindingQuery{
			{Text: "cores it used", Query: `sum by (workload) (rate(reckon_workload_cpu_seconds_total{workload="slurm/4711"}[5m]))`}},
		Evidence: []client.Evidence{{Text: "above its share, of the capacity", Value: 0.42, Unit: "ratio", Limit: &limit},
			{Text: "time contended", Value: 1800, Unit: "seconds"}},
	}
	return &cases{list: []client.Finding{f}}
}

func (c *cases) Findings(_ context.Context, f client.FindingFilter) (client.FindingList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	l := client.FindingList{Looked: &now}
	for _, x := range c.list {
		if f.Muted || x.MutedUntil == nil || x.MutedUntil.Before(now) {
			l.Findings = append(l.Findings, x)
		}
	}
	l.Total = len(l.Findings)
	return l, nil
}

func (c *cases) change(id string, how func(*client.Finding)) (client.Finding, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.list {
		if c.list[i].ID == id {
			how(&c.list[i])
			return c.list[i], nil
		}
	}
	return client.Finding{}, answer.NotFound("", fmt.Errorf("no such finding: %s", id))
}

func (c *cases) Finding(_ context.Context, id string) (client.Finding, error) {
	return c.change(id, func(*client.Finding) {})
}

func (c *cases) Acknowledge(_ context.Context, id, by string) (client.Finding, error) {
	now := time.Now()
	return c.change(id, func(f *client.Finding) { f.AckBy, f.AckAt = by, &now })
}

func (c *cases) Mute(_ context.Context, id, reason string, until time.Time) (client.Finding, error) {
	return c.change(id, func(f *client.Finding) { f.MuteReason, f.MutedUntil = reason, &until })
}

func (c *cases) WhatIf(context.Context, []byte, time.Time) (client.FindingDifference, error) {
	return client.FindingDifference{Now: len(c.list), Then: len(c.list) + 1,
		Added: []client.Finding{
			{ID: "f9", Rule: "over-requested", Severity: "low", Owner: "bob", Text: "it held 16 cores and used <b>2</b>"}},
		Removed: []client.Finding{}}, nil
}

// FindingSteps returns steps with use above the fair share, with a gap.
func (c *cases) FindingSteps(_ context.Context, id string) (client.FindingSteps, error) {
	f, err := c.Finding(context.Background(), id)
	if err != nil {
		return client.FindingSteps{}, err
	}
	s := client.FindingSteps{Unit: "cores", Start: f.First, End: f.Last}
	for at, i := f.First, 0; at.Before(f.Last); at, i = at.Add(5*time.Minute), i+1 {
		if i == 4 {
			continue
		}
		one := client.FindingStep{Node: "n1", Start: at, End: at.Add(5 * time.Minute), Use: 12 + float64(i%3), Fair: 8, Capacity: 16,
			Owners: 2, Why: "runnable"}
		one.Seconds = (one.Use - one.Fair) / one.Capacity * 300
		s.Total, s.Steps = s.Total+one.Seconds, append(s.Steps, one)
	}
	return s, nil
}

func (c *cases) Policy() []byte { return []byte("# thresholds\nrules: {}\n") }
