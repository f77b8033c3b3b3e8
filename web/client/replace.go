package client

import (
	"context"
	"net/url"
)

// ReplaceNode allows another machine to send under the name of a node; site is empty for a node without one.
func (c *Client) ReplaceNode(ctx context.Context, site, node string) (r Replaced, err error) {
	q := url.Values{"node": {node}}
	if site != "" { // an empty parameter is refused
		q.Set("site", site)
	}
	return r, c.post(ctx, "/api/reckon/v1/nodes/replace", q, &r)
}
