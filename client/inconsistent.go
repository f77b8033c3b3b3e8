package client

import (
	"context"
	"time"
)

// InconsistentList is the answer of GET /api/reckon/v1/inconsistent.
type InconsistentList struct {
	Figures []InconsistentFigure `json:"figures"`
}

// InconsistentFigure is a figure that passed what bounds it and was held back from answers,
// with how often and the latest example.
type InconsistentFigure struct {
	Figure  string    `json:"figure"`
	Rule    string    `json:"rule"`
	Count   int       `json:"count"` // workloads, nodes or groups since the server was started
	Subject string    `json:"subject"`
	Value   float64   `json:"value"`
	Bound   float64   `json:"bound"`
	Of      string    `json:"of"` // what the bound is
	Time    time.Time `json:"time"`
}

// Inconsistent lists the figures that passed what bounds them since the server was started.
func (c *Client) Inconsistent(ctx context.Context) (InconsistentList, error) {
	var list InconsistentList
	err := c.get(ctx, "/api/reckon/v1/inconsistent", nil, &list)
	return list, err
}
