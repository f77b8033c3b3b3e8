package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
)

const runsPath = "/api/reckon/v1/runs"

func runPath(namespace, name, rest string) string {
	return runsPath + "/" + url.PathEscape(namespace) + "/" + url.PathEscape(name) + rest
}

// MetricRuns lists runs of MetricSets.
func (c *Client) MetricRuns(ctx context.Context, f MetricRunFilter) (list MetricRunList, err error) {
	return list, c.get(ctx, runsPath, f.Query(), &list)
}

// MetricRun returns a run with its pods.
func (c *Client) MetricRun(ctx context.Context, namespace, name string) (r MetricRun, err error) {
	return r, c.get(ctx, runPath(namespace, name, ""), nil, &r)
}

// MetricRunSamples returns the samples of a run.
func (c *Client) MetricRunSamples(ctx context.Context, namespace, name string) (s MetricRunSamples, err error) {
	return s, c.get(ctx, runPath(namespace, name, "/samples"), nil, &s)
}

// CompareMetricRuns compares runs, each written NAMESPACE/NAME.
func (c *Client) CompareMetricRuns(ctx context.Context, a, b []string) (out MetricRunComparison, err error) {
	return out, c.get(ctx, "/api/reckon/v1/compare/runs", url.Values{"a": a, "b": b}, &out)
}

// KeepMetricRun sends an update of a run.
func (c *Client) KeepMetricRun(ctx context.Context, namespace, name string, u MetricRunUpdate) (kept MetricRunKept, err error) {
	text, err := json.Marshal(u)
	if err != nil {
		return kept, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.String()+runPath(namespace, name, "/keep"), bytes.NewReader(text))
	if err != nil {
		return kept, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.userAgent)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return kept, c.unreachableError(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return kept, err
	}
	if resp.StatusCode != http.StatusOK {
		return kept, c.responseError(resp, body)
	}
	return kept, json.Unmarshal(body, &kept)
}
