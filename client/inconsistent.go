package client

import (
	"context"
	"time"
)

// InconsistentList is the response of GET /api/reckon/v1/inconsistent.
type InconsistentList struct {
	Figures []InconsistentFigure `json:"figures"`
}

// InconsistentFigure is a figure that exceeded its bound and was withheld from answers,
// with a count and the latest example.
type InconsistentFigure struct {
	Figure  string    `json:"figure"`
	Rule    string    `json:"rule"`
	Count   int       `json:"count"` // workloads, nodes or groups since the start of the server
	Subject string    `json:"subject"`
	Value   float64   `json:"value"`
	Bound   float64   `json:"bound"`
	Of      string    `json:"of"` // description of the bound
	Time    time.Time `json:"time"`
}

// Inconsistent lists the figures that exceeded their bounds since the start of the server.
func (c *Client) Inconsistent(ctx context.Context) (InconsistentList, error) {
	var list InconsistentList
	err := c.get(ctx, "/api/reckon/v1/inconsistent", nil, &list)
	return list, err
}
