package client

import (
	"reckon/figure/wire"

	"context"
	"net/http"
	"net/url"
	"time"
)

// Findings lists the findings that the filter selects, the most severe first.
func (c *Client) Findings(ctx context.Context, f FindingFilter) (FindingList, error) {
	var list FindingList
	err := c.get(ctx, "/api/reckon/v1/findings", f.Query(), &list)
	return list, err
}

// Finding returns one finding.
func (c *Client) Finding(ctx context.Context, id string) (Finding, error) {
	var f Finding
	err := c.get(ctx, "/api/reckon/v1/findings/"+url.PathEscape(id), nil, &f)
	return f, err
}

// FindingSteps returns the steps that add up to a score of over-share.
func (c *Client) FindingSteps(ctx context.Context, id string) (FindingSteps, error) {
	var s FindingSteps
	err := c.get(ctx, "/api/reckon/v1/findings/"+url.PathEscape(id)+"/steps", nil, &s)
	return s, err
}

// AcknowledgeFinding records that a user handles a finding.
func (c *Client) AcknowledgeFinding(ctx context.Context, id string) (Finding, error) {
	return c.changeFinding(ctx, id, "acknowledge", nil)
}

// MuteFinding hides a finding from lists and alerts until a time. A time in the past unmutes it.
func (c *Client) MuteFinding(ctx context.Context, id, reason string, until time.Time) (Finding, error) {
	return c.changeFinding(ctx, id, "mute", url.Values{"reason": {reason}, "until": {wire.FormatTime(until)}})
}

func (c *Client) changeFinding(ctx context.Context, id, verb string, q url.Values) (Finding, error) {
	var f Finding
	err := c.post(ctx, "/api/reckon/v1/findings/"+url.PathEscape(id)+"/"+verb, q, &f)
	return f, err
}

// WhatIf returns how the findings since a time would differ with another policy, which is YAML text. The zero time
// means one day ago.
func (c *Client) WhatIf(ctx context.Context, policy []byte, since time.Time) (FindingDifference, error) {
	var d FindingDifference
	q := url.Values{"policy": {string(policy)}}
	if !since.IsZero() {
		q.Set("since", wire.FormatTime(since))
	}
	err := c.post(ctx, "/api/reckon/v1/policy/what-if", q, &d)
	return d, err
}

// FindingPolicy returns the policy of the server, as YAML.
func (c *Client) FindingPolicy(ctx context.Context) ([]byte, error) {
	return c.send(ctx, http.MethodGet, "/api/reckon/v1/policy", nil)
}
