package client

import (
	"context"
	"net/url"
)

// Devices returns the activity of the devices of a node. The site may be empty if node names are unique.
func (c *Client) Devices(ctx context.Context, site, node string) (NodeDevices, error) {
	var d NodeDevices
	q := url.Values{}
	if site != "" {
		q.Set("site", site)
	}
	err := c.get(ctx, "/api/reckon/v1/nodes/"+url.PathEscape(node)+"/devices", q, &d)
	return d, err
}
