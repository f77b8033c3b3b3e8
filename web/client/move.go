package client

import "context"

// Move returns whose work should run on another partition or cluster.
func (c *Client) Move(ctx context.Context, m MoveQuery) (list MoveList, err error) {
	return list, c.get(ctx, "/api/reckon/v1/move", m.Query(), &list)
}
