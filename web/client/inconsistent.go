package client

import (
	"context"
)

// Inconsistent lists the figures that exceeded their bounds since the start of the server.
func (c *Client) Inconsistent(ctx context.Context) (InconsistentList, error) {
	var list InconsistentList
	err := c.get(ctx, "/api/reckon/v1/inconsistent", nil, &list)
	return list, err
}
