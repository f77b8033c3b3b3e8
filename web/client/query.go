package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"reckon/figure/wire"
)

// Series is one time series in the result of a PromQL query. It has one sample for an instant query
// and several for a range query.
type Series struct {
	Metric  map[string]string `json:"metric"` // labels; the name is __name__
	Samples []Sample          `json:"samples"`
}

// Sample is one value. As in the Prometheus API it is a string, so that NaN and Inf are preserved;
// parse it with strconv.ParseFloat. For a native histogram, Value is its count and Histogram the
// rest in Prometheus's format.
type Sample struct {
	Time      time.Time       `json:"time"`
	Value     string          `json:"value"`
	Histogram json.RawMessage `json:"histogram,omitempty"`
}

// Float returns the value as a number.
func (s Sample) Float() (float64, error) { return strconv.ParseFloat(s.Value, 64) }

// Result is the result of a PromQL query.
type Result struct {
	Type     string   `json:"type"` // vector, matrix, scalar or string
	Series   []Series `json:"series"`
	Warnings []string `json:"warnings,omitempty"`
}

// Query evaluates a PromQL expression at one time; the zero time means now.
func (c *Client) Query(ctx context.Context, expr string, at time.Time) (Result, error) {
	q := url.Values{"query": {expr}}
	if !at.IsZero() {
		q.Set("time", wire.FormatTime(at))
	}
	return c.queryPromQL(ctx, "/api/v1/query", q)
}

// QueryRange evaluates a PromQL expression at each step from one time to another.
func (c *Client) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) (Result, error) {
	return c.queryPromQL(ctx, "/api/v1/query_range", url.Values{
		"query": {expr}, "start": {wire.FormatTime(from)}, "end": {wire.FormatTime(to)},
		"step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	})
}

func (c *Client) queryPromQL(ctx context.Context, path string, q url.Values) (Result, error) {
	body, err := c.send(ctx, http.MethodPost, path, q) // POST: an expression may be longer than an address
	if err != nil {
		return Result{}, err
	}
	var answer promAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return Result{}, fmt.Errorf("%s%s did not answer with Prometheus JSON (%w)", c.Server(), path, err)
	}
	res, err := answer.toResult()
	if err != nil {
		return Result{}, fmt.Errorf("%s%s: %w", c.Server(), path, err)
	}
	return res, nil
}

// promAnswer is the envelope of https://prometheus.io/docs/prometheus/latest/querying/api/.
type promAnswer struct {
	Status   string   `json:"status"`
	Error    string   `json:"error"`
	Warnings []string `json:"warnings"`
	Data     struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	} `json:"data"`
}

func (a promAnswer) toResult() (Result, error) {
	r := Result{Type: a.Data.Type, Warnings: a.Warnings, Series: []Series{}}
	switch a.Data.Type {
	case "scalar", "string":
		var p samplePair
		if err := json.Unmarshal(a.Data.Result, &p); err != nil {
			return r, err
		}
		r.Series = append(r.Series, Series{Metric: map[string]string{}, Samples: []Sample{Sample(p)}})
		return r, nil
	case "vector", "matrix":
	default:
		return r, fmt.Errorf("unknown type of result %q", a.Data.Type)
	}
	var rows []struct {
		Metric     map[string]string `json:"metric"`
		Value      *samplePair       `json:"value"`
		Values     []samplePair      `json:"values"`
		Histogram  *histogramPair    `json:"histogram"`
		Histograms []histogramPair   `json:"histograms"`
	}
	if err := json.Unmarshal(a.Data.Result, &rows); err != nil {
		return r, err
	}
	for _, row := range rows {
		s := Series{Metric: row.Metric, Samples: []Sample{}}
		if row.Value != nil {
			row.Values = append(row.Values, *row.Value)
		}
		if row.Histogram != nil {
			row.Histograms = append(row.Histograms, *row.Histogram)
		}
		for _, p := range row.Values {
			s.Samples = append(s.Samples, Sample(p))
		}
		for _, p := range row.Histograms {
			s.Samples = append(s.Samples, Sample(p))
		}
		r.Series = append(r.Series, s)
	}
	return r, nil
}

// samplePair is [seconds, "value"].
type samplePair Sample

func (p *samplePair) UnmarshalJSON(b []byte) error {
	var seconds float64
	if err := json.Unmarshal(b, &[]any{&seconds, &p.Value}); err != nil {
		return err
	}
	p.Time = timeFloat(seconds)
	return nil
}

// histogramPair is [seconds, {"count": "...", ...}].
type histogramPair Sample

func (p *histogramPair) UnmarshalJSON(b []byte) error {
	var seconds float64
	if err := json.Unmarshal(b, &[]any{&seconds, &p.Histogram}); err != nil {
		return err
	}
	var h struct {
		Count string `json:"count"`
	}
	if err := json.Unmarshal(p.Histogram, &h); err != nil {
		return err
	}
	p.Time, p.Value = timeFloat(seconds), h.Count
	return nil
}
