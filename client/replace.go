package client

import (
	"context"
	"net/url"
)

// Replaced is the response of POST /api/reckon/v1/nodes/replace.
type Replaced struct {
	Node string `json:"node"`
	Site string `json:"site,omitempty"`
}

// ReplaceNode allows another machine to send under the name of a node.
func (c *Client) ReplaceNode(ctx context.Context, site, node string) (r Replaced, err error) {
	return r, c.post(ctx, "/api/reckon/v1/nodes/replace", url.Values{"site": {site}, "node": {node}}, &r)
}
