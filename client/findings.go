package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Evidence is one figure behind a finding, and the limit it is compared with.
type Evidence struct {
	Text  string   `json:"text"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"`
	Limit *float64 `json:"limit,omitempty"`
	// Wasted is true if the figure is an unused allocation.
	Wasted bool `json:"wasted,omitempty"`
}

// FindingQuery is a PromQL query that shows the data behind a finding, over its time.
type FindingQuery struct {
	Text  string `json:"text"`
	Query string `json:"query"`
}

// FindingStep is a period that contributes to the score of an owner:
// Seconds is (Use - Fair) / Capacity times its length.
type FindingStep struct {
	Node     string    `json:"node"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	Use      float64   `json:"use"`      // mean; cores, bytes or GPUs
	Fair     float64   `json:"fair"`     // mean fair share
	Capacity float64   `json:"capacity"` // of the node
	Owners   float64   `json:"owners"`   // mean number of owners who wanted it, this one included
	Why      string    `json:"why"`      // cause of contention: full, pressure, runnable, available, waiting
	Seconds  float64   `json:"seconds"`  // contribution to the score
}

// FindingSteps is the response of GET /api/reckon/v1/findings/ID/steps.
type FindingSteps struct {
	Total float64       `json:"total"` // sum of all steps: the score in this time
	Unit  string        `json:"unit"`  // of use, fair share and capacity
	Start time.Time     `json:"start"`
	End   time.Time     `json:"end"`
	Note  string        `json:"note,omitempty"` // why there are no steps
	Steps []FindingStep `json:"steps"`
}

// Finding is one case of misuse.
type Finding struct {
	ID       string     `json:"id"`
	Rule     string     `json:"rule"`            // over-share, gpu-unused, over-requested, idle-allocation, many-small-jobs, memory-thrashing, imbalance, many-connections, cannot-start
	Means    string     `json:"means,omitempty"` // what the rule finds, in a sentence
	Severity string     `json:"severity"`        // high, medium, low
	State    string     `json:"state"`           // new, open, gone
	Site     string     `json:"site,omitempty"`
	Owner    string     `json:"owner"`
	Workload string     `json:"workload,omitempty"`
	Node     string     `json:"node,omitempty"`
	Part     string     `json:"part,omitempty"` // part of the subject: cpu, memory, gpu, nodes, ...
	Text     string     `json:"text"`
	First    time.Time  `json:"first"` // time range of the evidence
	Last     time.Time  `json:"last"`
	Found    time.Time  `json:"found"` // when it was first found, and last confirmed
	Seen     time.Time  `json:"seen"`
	Evidence []Evidence `json:"evidence"`
	// Queries show the data behind the finding, over the time from First to Last.
	Queries []FindingQuery `json:"queries,omitempty"`

	AckBy      string     `json:"acknowledged_by,omitempty"`
	AckAt      *time.Time `json:"acknowledged,omitempty"`
	MutedUntil *time.Time `json:"muted_until,omitempty"`
	MuteReason string     `json:"mute_reason,omitempty"`
}

// FindingList is the response of GET /api/reckon/v1/findings.
type FindingList struct {
	Findings []Finding `json:"findings"`
	Total    int       `json:"total"` // without limit
	// Looked is when the server last evaluated the rules; null before the first time.
	Looked *time.Time `json:"looked"`
	// Owners are the same findings by owner, without limit, in descending order of wasted core-hours.
	Owners []FindingOwner `json:"owners"`
}

// FindingOwner sums up the findings of one owner. Wasted amounts are unused allocations; null
// if no finding reports any.
type FindingOwner struct {
	Site        string   `json:"site,omitempty"`
	Owner       string   `json:"owner"` // empty for work without an owner
	Findings    int      `json:"findings"`
	Severity    string   `json:"severity"` // the highest
	Rules       []string `json:"rules"`
	CoreSeconds *float64 `json:"wasted_core_seconds"`
	GPUSeconds  *float64 `json:"wasted_gpu_seconds"`
	ByteSeconds *float64 `json:"wasted_memory_byte_seconds"`
}

// FindingDifference is the effect of another policy.
type FindingDifference struct {
	Since   time.Time `json:"since"`
	Now     int       `json:"now"`  // findings of the current policy
	Then    int       `json:"then"` // findings of the other policy
	Added   []Finding `json:"added"`
	Removed []Finding `json:"removed"`
}

// FindingFilter selects findings. Zero fields select all findings that are new or open and
// not muted.
type FindingFilter struct {
	Rules, Severities, Owners, States []string
	Workload, Node                    string
	Since                             time.Time // confirmed after
	Muted                             bool      // include muted ones
	Limit                             int
}

// Query encodes the filter as URL parameters.
func (f FindingFilter) Query() url.Values {
	q := url.Values{}
	for key, v := range map[string][]string{"rule": f.Rules, "severity": f.Severities, "owner": f.Owners, "state": f.States} {
		if len(v) > 0 {
			q[key] = v
		}
	}
	for key, v := range map[string]string{"workload": f.Workload, "node": f.Node, "since": formatTime(f.Since)} {
		if v != "" {
			q.Set(key, v)
		}
	}
	if f.Muted {
		q.Set("muted", "true")
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	return q
}

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

// AcknowledgeFinding records that somebody takes care of a finding.
func (c *Client) AcknowledgeFinding(ctx context.Context, id string) (Finding, error) {
	return c.changeFinding(ctx, id, "acknowledge", nil)
}

// MuteFinding keeps a finding out of lists and alerts until a time; a time in the past unmutes
// it.
func (c *Client) MuteFinding(ctx context.Context, id, reason string, until time.Time) (Finding, error) {
	return c.changeFinding(ctx, id, "mute", url.Values{"reason": {reason}, "until": {formatTime(until)}})
}

func (c *Client) changeFinding(ctx context.Context, id, verb string, q url.Values) (Finding, error) {
	var f Finding
	err := c.post(ctx, "/api/reckon/v1/findings/"+url.PathEscape(id)+"/"+verb, q, &f)
	return f, err
}

// WhatIf returns what another policy (YAML) would have found since a time; the zero time is
// a day ago.
func (c *Client) WhatIf(ctx context.Context, policy []byte, since time.Time) (FindingDifference, error) {
	var d FindingDifference
	q := url.Values{"policy": {string(policy)}}
	if !since.IsZero() {
		q.Set("since", formatTime(since))
	}
	err := c.post(ctx, "/api/reckon/v1/policy/what-if", q, &d)
	return d, err
}

// FindingPolicy returns the policy of the server, as YAML.
func (c *Client) FindingPolicy(ctx context.Context) ([]byte, error) {
	return c.do(ctx, http.MethodGet, "/api/reckon/v1/policy", nil)
}

func (c *Client) post(ctx context.Context, path string, q url.Values, into any) error {
	body, err := c.do(ctx, http.MethodPost, path, q)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s%s did not answer with reckon's JSON (%v); is this a reckon server?", c.Server(), path, err)
	}
	return nil
}
