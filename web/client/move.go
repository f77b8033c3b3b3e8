package client

import "context"

// Move returns the owners with work for another partition or cluster.
func (c *Client) Move(ctx context.Context, m MoveQuery) (list MoveList, err error) {
	return list, c.get(ctx, "/api/reckon/v1/move", m.Query(), &list)
}
