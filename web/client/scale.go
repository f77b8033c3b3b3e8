package client

import (
	"context"
	"net/url"
	"strings"
)

// Scale returns how the run time of a workload depends on its number of cores. If the id was reused, Start and Site of
// the range select the run. The default is the latest run.
func (c *Client) Scale(ctx context.Context, id string, r Range) (Scale, error) {
	words := strings.Split(id, "/")
	for i := range words {
		words[i] = url.PathEscape(words[i])
	}
	var s Scale
	err := c.get(ctx, "/api/reckon/v1/scale/"+strings.Join(words, "/"), Range{Start: r.Start, Site: r.Site}.Query(), &s)
	return s, err
}
