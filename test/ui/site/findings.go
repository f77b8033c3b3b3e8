package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"reckon/client"
	"reckon/web/api"
)

// cases are findings that can be acknowledged and muted.
type cases struct {
	mu   sync.Mutex
	list []client.Finding
}

func newCases() *cases {
	now, limit := time.Now().UTC(), 0.1
	f := client.Finding{
		ID: "f1", Rule: "hog", Severity: "high", State: "open", Owner: "alice", Workload: "slurm/4711", Node: "n1", Part: "cpu",
		Text: "it used more than its share of n1 while two owners wanted it", First: now.Add(-time.Hour), Last: now, Found: now.Add(-30 * time.Minute), Seen: now,
		Evidence: []client.Evidence{{Text: "above its share, of the capacity", Value: 0.42, Unit: "ratio", Limit: &limit}, {Text: "time contended", Value: 1800, Unit: "seconds"}},
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
	return client.Finding{}, fmt.Errorf("finding %s: %w", id, api.ErrNotFound)
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
	return client.FindingDifference{}, nil
}

// FindingSteps gives an hour in which the use went above the fair share and back.
func (c *cases) FindingSteps(_ context.Context, id string) (client.FindingSteps, error) {
	return client.FindingSteps{}, nil
}

func (c *cases) Policy() []byte { return []byte("rules: {}\n") }
