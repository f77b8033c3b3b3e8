package client

import (
	"context"
)

// PowerFit returns how well a model explains the measured power of a node.
func (c *Client) PowerFit(ctx context.Context, p PowerFitQuery) (PowerFit, error) {
	var f PowerFit
	err := c.get(ctx, "/api/reckon/v1/power/fit", p.Query(), &f)
	return f, err
}
