package client

import (
	"context"
)

// Rank ranks nodes for work to be placed.
func (c *Client) Rank(ctx context.Context, r RankQuery) (Ranking, error) {
	var out Ranking
	err := c.post(ctx, "/api/reckon/v1/rank", r.Query(), &out)
	return out, err
}
