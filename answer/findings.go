package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"reckon/analysis/misuse"
	"reckon/answer/findings"
	"reckon/figure/wire"
	"reckon/store"
)

// Findings answers questions about misuse.
type Findings struct{ Keeper *findings.Keeper }

// Findings returns the findings that the filter selects; without states, the current ones.
func (c *Findings) Findings(ctx context.Context, f wire.FindingFilter) (wire.FindingList, error) {
	q := store.FindingFilter{Rules: f.Rules, Severities: f.Severities, Owners: f.Owners, States: f.States, Workload: f.Workload,
		Node: f.Node, Since: f.Since, Limit: f.Limit, Now: c.Keeper.Clock()}
	if len(q.States) == 0 {
		q.States = []string{store.FindingNew, store.FindingOpen}
	}
	if !f.Muted {
		q.Muted = new(bool)
	}
	looked := c.Keeper.Last() // read before the findings, which an evaluation may store meanwhile
	rows, total, err := c.Keeper.Store.Findings(ctx, q)
	if err != nil {
		return wire.FindingList{}, err
	}
	list := wire.FindingList{Findings: make([]wire.Finding, 0, len(rows)), Total: total}
	for i := range rows {
		one, err := findingToAPI(&rows[i])
		if err != nil {
			return list, err
		}
		list.Findings = append(list.Findings, one)
	}
	all := list.Findings
	if total > len(rows) {
		if all, err = c.storedFindings(ctx, q); err != nil {
			return list, err
		}
	}
	if !f.Since.IsZero() && len(f.States) == 0 && f.Workload == "" && f.Node == "" {
		past, err := c.importedFindings(ctx, f)
		if err != nil {
			return list, err
		}
		list.Findings, all, list.Total = slices.Concat(list.Findings, past), slices.Concat(all, past), total+len(past)
	}
	now := c.Keeper.Clock()
	slices.SortStableFunc(list.Findings, func(a, b wire.Finding) int { // within a severity, lasting ones first and then by cost
		x, y := findingSortKey(&a, now), findingSortKey(&b, now)
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(y[1], x[1]), cmp.Compare(y[2], x[2]))
	})
	list.Owners = byOwner(all)
	if !looked.IsZero() {
		list.Looked = new(looked.UTC())
	}
	return list, nil
}

// findingSortKey returns the sort key of a finding: severity, whether its subject was active until now, and wasted core-hours.
// A GPU counts as 16 cores, as on the web pages.
func findingSortKey(f *wire.Finding, now time.Time) (out [3]float64) {
	out[0] = float64(slices.Index([]string{string(misuse.High), string(misuse.Medium), string(misuse.Low)}, f.Severity))
	if now.Sub(f.Last) < 40*time.Minute {
		out[1] = 1
	}
	for _, e := range f.Evidence {
		if e.Wasted {
			out[2] += e.Value * map[string]float64{"core-seconds": 1, "gpu-seconds": 16, "byte-seconds": 1.0 / (8 << 30)}[e.Unit]
		}
	}
	return out
}

// importedFindings returns the findings in imported time.
func (c *Findings) importedFindings(ctx context.Context, f wire.FindingFilter) ([]wire.Finding, error) {
	found, err := c.Keeper.Imported(ctx, f.Since)
	if err != nil {
		return nil, err
	}
	is := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	out := findingsToAPI(slices.DeleteFunc(found, func(x misuse.Finding) bool {
		return !is(f.Rules, x.Rule) || !is(f.Severities, string(x.Severity)) || !is(f.Owners, x.Owner)
	}))
	for i := range out {
		out[i].State, out[i].Found, out[i].Seen = "imported", c.Keeper.Clock().UTC(), c.Keeper.Clock().UTC()
	}
	return out, nil
}

// storedFindings returns the findings of a query without its limit.
func (c *Findings) storedFindings(ctx context.Context, q store.FindingFilter) ([]wire.Finding, error) {
	q.Limit = 0
	rows, _, err := c.Keeper.Store.Findings(ctx, q)
	out := make([]wire.Finding, 0, len(rows))
	for i := range rows {
		one, err := findingToAPI(&rows[i])
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, err
}

func findingToAPI(f *store.Finding) (wire.Finding, error) {
	out := wire.Finding{
		ID: f.ID, Rule: f.Rule, Means: misuse.Meaning(f.Rule), Severity: f.Severity, State: f.State, Site: f.Site, Owner: f.Owner,
		Workload: f.Workload, Node: f.Node, Part: f.Part, Text: f.Text,
		First: f.First.UTC(), Last: f.Last.UTC(), Found: f.Found.UTC(), Seen: f.Seen.UTC(), AckBy: f.AckBy, MuteReason: f.MuteReason,
		Evidence: []wire.Evidence{},
	}
	for _, q := range findings.Queries(f) {
		out.Queries = append(out.Queries, wire.FindingQuery(q))
	}
	if !f.AckAt.IsZero() {
		out.AckAt = &f.AckAt
	}
	if !f.MutedUntil.IsZero() {
		out.MutedUntil = &f.MutedUntil
	}
	evidence, values, err := findings.Figures(f)
	if err != nil {
		return out, fmt.Errorf("evidence of finding %s: %w", f.ID, err)
	}
	for _, e := range evidence {
		out.Evidence = append(out.Evidence, wire.Evidence(e))
	}
	out.Values = values
	return out, nil
}

// Finding returns one finding by its id.
func (c *Findings) Finding(ctx context.Context, id string) (wire.Finding, error) {
	rows, _, err := c.Keeper.Store.Findings(ctx, store.FindingFilter{ID: id})
	if err != nil {
		return wire.Finding{}, err
	}
	if len(rows) == 0 {
		return wire.Finding{}, NotFound("", fmt.Errorf("finding %s: %w", id, findings.ErrUnknown))
	}
	return findingToAPI(&rows[0])
}

// FindingSteps recomputes the steps that add up to the score of a finding.
func (c *Findings) FindingSteps(ctx context.Context, id string) (wire.FindingSteps, error) {
	f, steps, err := c.Keeper.Steps(ctx, id)
	note := ""
	switch {
	case errors.Is(err, findings.ErrChanged):
		note = "By the rule, the policy and the data of today the score is another one; the figures of the finding are from when it " +
			"was found."
	case errors.Is(err, findings.ErrUnknown):
		return wire.FindingSteps{}, NotFound("", fmt.Errorf("finding %w", err))
	case errors.Is(err, findings.ErrNoSteps):
		return wire.FindingSteps{}, Invalid("the evidence of the finding has its figures", err)
	case err != nil:
		return wire.FindingSteps{}, err
	}
	out := wire.FindingSteps{
		Unit:  map[string]string{"cpu": "cores", "memory": "bytes", "gpu": "GPUs", "storage": "share of the bytes"}[f.Part],
		Start: f.First.UTC(), End: f.Last.UTC(), Note: note, Steps: make([]wire.FindingStep, len(steps))}
	for i, s := range steps {
		s.Start, s.End = s.Start.UTC(), s.End.UTC()
		out.Steps[i] = wire.FindingStep(s)
		out.Total += s.Seconds
	}
	return out, nil
}

// Acknowledge records the user who acknowledged a finding.
func (c *Findings) Acknowledge(ctx context.Context, id, by string) (wire.Finding, error) {
	f, err := c.Keeper.Acknowledge(ctx, id, by)
	return toWireChanged(f, err)
}

// Mute silences a finding until a time.
func (c *Findings) Mute(ctx context.Context, id, reason string, until time.Time) (wire.Finding, error) {
	f, err := c.Keeper.Mute(ctx, id, reason, until)
	return toWireChanged(f, err)
}

func toWireChanged(f store.Finding, err error) (wire.Finding, error) {
	if errors.Is(err, findings.ErrUnknown) {
		return wire.Finding{}, NotFound("", fmt.Errorf("finding %w", err))
	}
	if err != nil {
		return wire.Finding{}, err
	}
	return findingToAPI(&f)
}

// WhatIf compares the current findings with the findings of another policy since a time.
func (c *Findings) WhatIf(ctx context.Context, policy []byte, since time.Time) (wire.FindingDifference, error) {
	if _, err := findings.ReadPolicy(policy); err != nil {
		return wire.FindingDifference{}, Invalid("`reckon findings policy` prints one that is right", fmt.Errorf("the policy: %w", err))
	}
	d, err := c.Keeper.WhatIf(ctx, policy, since)
	if err != nil {
		return wire.FindingDifference{}, err
	}
	return wire.FindingDifference{Since: since.UTC(), Now: len(d.Now), Then: len(d.Then), Added: findingsToAPI(d.Added),
		Removed: findingsToAPI(d.Removed)}, nil
}

func findingsToAPI(list []misuse.Finding) []wire.Finding {
	out := make([]wire.Finding, 0, len(list))
	for i := range list {
		f := &list[i]
		one := wire.Finding{
			ID: findings.ID(f), Rule: f.Rule, Means: misuse.Meaning(f.Rule), Severity: string(f.Severity), Site: f.Site, Owner: f.Owner,
			Workload: f.Workload, Node: f.Node, Part: f.Part, Text: f.Text,
			First: f.First.UTC(), Last: f.Last.UTC(), Values: findings.Values(f.Values),
		}
		for _, e := range f.Evidence {
			one.Evidence = append(one.Evidence, wire.Evidence(e))
		}
		out = append(out, one)
	}
	return out
}

// Policy returns the policy in force, as YAML.
func (c *Findings) Policy() []byte {
	if len(c.Keeper.Policy) > 0 {
		return c.Keeper.Policy
	}
	return findings.DefaultPolicy()
}
