package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"reckon/analysis/misuse"
	"reckon/answer/findings"
	"reckon/client"
	"reckon/store"
	"reckon/web/api"
)

// cases answers what was found of misuse.
type cases struct{ keeper *findings.Keeper }

var _ api.Findings = (*cases)(nil)

// lookEvery is how often the server looks for misuse, if that costs little.
const lookEvery = 5 * time.Minute

// Findings implements api.Findings.
func (c *cases) Findings(ctx context.Context, f client.FindingFilter) (client.FindingList, error) {
	q := store.FindingFilter{Rules: f.Rules, Severities: f.Severities, Owners: f.Owners, States: f.States, Workload: f.Workload, Node: f.Node, Since: f.Since, Limit: f.Limit, Now: c.keeper.Clock()}
	if len(q.States) == 0 {
		q.States = []string{store.FindingNew, store.FindingOpen}
	}
	if !f.Muted {
		q.Muted = new(bool)
	}
	rows, total, err := c.keeper.Store.Findings(ctx, q)
	if err != nil {
		return client.FindingList{}, err
	}
	list := client.FindingList{Findings: make([]client.Finding, 0, len(rows)), Total: total}
	for i := range rows {
		one, err := caseOf(&rows[i])
		if err != nil {
			return list, err
		}
		list.Findings = append(list.Findings, one)
	}
	if at := c.keeper.Last(); !at.IsZero() {
		at = at.UTC()
		list.Looked = &at
	}
	return list, nil
}

func caseOf(f *store.Finding) (client.Finding, error) {
	out := client.Finding{
		ID: f.ID, Rule: f.Rule, Severity: f.Severity, State: f.State, Site: f.Site, Owner: f.Owner, Workload: f.Workload, Node: f.Node, Part: f.Part, Text: f.Text,
		First: f.First.UTC(), Last: f.Last.UTC(), Found: f.Found.UTC(), Seen: f.Seen.UTC(), AckBy: f.AckBy, MuteReason: f.MuteReason, Evidence: []client.Evidence{},
	}
	for _, q := range findings.Queries(f) {
		out.Queries = append(out.Queries, client.FindingQuery(q))
	}
	if !f.AckAt.IsZero() {
		out.AckAt = &f.AckAt
	}
	if !f.MutedUntil.IsZero() {
		out.MutedUntil = &f.MutedUntil
	}
	if err := json.Unmarshal(f.Evidence, &out.Evidence); err != nil {
		return out, fmt.Errorf("evidence of finding %s: %w", f.ID, err)
	}
	return out, nil
}

// Finding implements api.Findings.
func (c *cases) Finding(ctx context.Context, id string) (client.Finding, error) {
	rows, _, err := c.keeper.Store.Findings(ctx, store.FindingFilter{ID: id})
	if err != nil {
		return client.Finding{}, err
	}
	if len(rows) == 0 {
		return client.Finding{}, fmt.Errorf("finding %s: %w", id, api.ErrNotFound)
	}
	return caseOf(&rows[0])
}

// FindingSteps implements api.Findings.
func (c *cases) FindingSteps(ctx context.Context, id string) (client.FindingSteps, error) {
	f, steps, err := c.keeper.Steps(ctx, id)
	switch {
	case errors.Is(err, findings.ErrUnknown):
		return client.FindingSteps{}, fmt.Errorf("finding %w: %w", err, api.ErrNotFound)
	case errors.Is(err, findings.ErrNoSteps):
		return client.FindingSteps{}, api.Refuse(http.StatusBadRequest, "the evidence of the finding has its figures", err)
	case err != nil:
		return client.FindingSteps{}, err
	}
	out := client.FindingSteps{Unit: map[string]string{"cpu": "cores", "memory": "bytes", "gpu": "GPUs"}[f.Part], Start: f.First.UTC(), End: f.Last.UTC(), Steps: make([]client.FindingStep, len(steps))}
	for i, s := range steps {
		s.Start, s.End = s.Start.UTC(), s.End.UTC()
		out.Steps[i] = client.FindingStep(s)
		out.Total += s.Seconds
	}
	return out, nil
}

// Acknowledge implements api.Findings.
func (c *cases) Acknowledge(ctx context.Context, id, by string) (client.Finding, error) {
	f, err := c.keeper.Acknowledge(ctx, id, by)
	return changed(f, err)
}

// Mute implements api.Findings.
func (c *cases) Mute(ctx context.Context, id, reason string, until time.Time) (client.Finding, error) {
	f, err := c.keeper.Mute(ctx, id, reason, until)
	return changed(f, err)
}

func changed(f store.Finding, err error) (client.Finding, error) {
	if errors.Is(err, findings.ErrUnknown) {
		return client.Finding{}, fmt.Errorf("finding %w: %w", err, api.ErrNotFound)
	}
	if err != nil {
		return client.Finding{}, err
	}
	return caseOf(&f)
}

// WhatIf implements api.Findings.
func (c *cases) WhatIf(ctx context.Context, policy []byte, since time.Time) (client.FindingDifference, error) {
	if _, err := findings.ReadPolicy(policy); err != nil {
		return client.FindingDifference{}, api.Refuse(http.StatusBadRequest, "`reckon findings policy` prints one that is right", fmt.Errorf("the policy: %w", err))
	}
	d, err := c.keeper.WhatIf(ctx, policy, since)
	if err != nil {
		return client.FindingDifference{}, err
	}
	return client.FindingDifference{Since: since.UTC(), Now: len(d.Now), Then: len(d.Then), Added: casesOf(d.Added), Removed: casesOf(d.Removed)}, nil
}

func casesOf(list []misuse.Finding) []client.Finding {
	out := make([]client.Finding, 0, len(list))
	for i := range list {
		f := &list[i]
		one := client.Finding{
			ID: findings.ID(f), Rule: f.Rule, Severity: string(f.Severity), Site: f.Site, Owner: f.Owner, Workload: f.Workload, Node: f.Node, Part: f.Part, Text: f.Text,
			First: f.First.UTC(), Last: f.Last.UTC(),
		}
		for _, e := range f.Evidence {
			one.Evidence = append(one.Evidence, client.Evidence(e))
		}
		out = append(out, one)
	}
	return out
}

// Policy implements api.Findings.
func (c *cases) Policy() []byte {
	if len(c.keeper.Policy) > 0 {
		return c.keeper.Policy
	}
	return findings.DefaultPolicy()
}
