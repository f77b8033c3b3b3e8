package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// DataQuery selects measured series, joined by time into one table.
type DataQuery struct {
	Select   []string // PromQL selectors; a series matched by several counts once
	By       []string // labels that distinguish rows; the others become part of column names
	From, To time.Time
	Step     time.Duration // zero: a step that gives a few hundred rows
	// MaxLag is the longest lag that [Client.Correlate] tries, in rows; nil means 60.
	MaxLag *int
}

// Query encodes the query as URL parameters.
func (d DataQuery) Query() url.Values {
	q := url.Values{"select": d.Select}
	if len(d.By) > 0 {
		q["by"] = d.By
	}
	for key, t := range map[string]time.Time{"from": d.From, "to": d.To} {
		if !t.IsZero() {
			q.Set(key, formatTime(t))
		}
	}
	if d.Step > 0 {
		q.Set("step", d.Step.String())
	}
	if d.MaxLag != nil {
		q.Set("max_lag", strconv.Itoa(*d.MaxLag))
	}
	return q
}

// DataTable is the response of GET /api/reckon/v1/data: a row for each step and set of labels.
type DataTable struct {
	From        time.Time    `json:"from"`
	To          time.Time    `json:"to"`
	StepSeconds float64      `json:"step_seconds"`
	Times       []time.Time  `json:"times"`
	Labels      []DataLabels `json:"labels"`
	Columns     []DataColumn `json:"columns"`
	Warnings    []string     `json:"warnings"`
}

// DataLabels is a column of strings.
type DataLabels struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// DataColumn is a column of figures; null is a gap.
type DataColumn struct {
	Name   string     `json:"name"`
	Unit   string     `json:"unit"`
	Help   string     `json:"help"`
	Source string     `json:"source"` // the series
	Rate   bool       `json:"rate"`   // computed from a counter
	Values []*float64 `json:"values"`
}

// Correlation is the response of GET /api/reckon/v1/data/correlate.
type Correlation struct {
	From        time.Time         `json:"from"`
	To          time.Time         `json:"to"`
	StepSeconds float64           `json:"step_seconds"`
	Rows        int               `json:"rows"`
	Columns     []string          `json:"columns"`
	Pairs       []CorrelationPair `json:"pairs"` // the strongest first
	Warnings    []string          `json:"warnings"`
}

// CorrelationPair is the correlation of two columns; null where there are too few common points
// or a column is constant.
type CorrelationPair struct {
	A         string   `json:"a"`
	B         string   `json:"b"`
	Points    int      `json:"points"`
	Effective *float64 `json:"effective"` // equivalent number of independent points
	Pearson   *float64 `json:"pearson"`
	Low       *float64 `json:"low"` // 95 % interval of Pearson's
	High      *float64 `json:"high"`
	Spearman  *float64 `json:"spearman"`
	// LagSeconds is how far B follows A at the strongest correlation; negative: A follows B.
	LagSeconds float64  `json:"lag_seconds"`
	LagPearson *float64 `json:"lag_pearson"`
	LagPoints  int      `json:"lag_points"`
}

// Data returns a table of series.
func (c *Client) Data(ctx context.Context, d DataQuery) (DataTable, error) {
	var t DataTable
	err := c.get(ctx, "/api/reckon/v1/data", d.Query(), &t)
	return t, err
}

// DataFile writes the same table as a file: csv or parquet.
func (c *Client) DataFile(ctx context.Context, d DataQuery, format string, w io.Writer) error {
	q := d.Query()
	q.Set("format", format)
	body, err := c.do(ctx, http.MethodGet, "/api/reckon/v1/data", q)
	if err != nil {
		return err
	}
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("write the data set: %w", err)
	}
	return nil
}

// Correlate returns the correlations between series.
func (c *Client) Correlate(ctx context.Context, d DataQuery) (Correlation, error) {
	var out Correlation
	err := c.get(ctx, "/api/reckon/v1/data/correlate", d.Query(), &out)
	return out, err
}
