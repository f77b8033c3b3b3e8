package client

import (
	"context"
)

// PowerFit returns the quality of a model of a node's measured power.
func (c *Client) PowerFit(ctx context.Context, p PowerFitQuery) (PowerFit, error) {
	var f PowerFit
	err := c.get(ctx, "/api/reckon/v1/power/fit", p.Query(), &f)
	return f, err
}
