package client

import (
	"context"
)

// Proof returns the latest proof of the server.
func (c *Client) Proof(ctx context.Context) (p Proof, err error) {
	return p, c.get(ctx, "/api/reckon/v1/proof", nil, &p)
}

// Prove compares usage with the counters now.
func (c *Client) Prove(ctx context.Context, q ProofQuery) (p Proof, err error) {
	return p, c.post(ctx, "/api/reckon/v1/prove", q.Query(), &p)
}
