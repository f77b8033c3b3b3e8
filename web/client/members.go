package client

import (
	"context"
	"net/url"
	"strings"
)

// Members returns a job array or heterogeneous job as a whole: slurm/4, or 4_[1-4] for some of its
// tasks. site may be empty if the id is unique.
func (c *Client) Members(ctx context.Context, id, site string) (Members, error) {
	var m Members
	words := strings.Split(id, "/")
	for i := range words {
		words[i] = url.PathEscape(words[i])
	}
	q := url.Values{}
	if site != "" {
		q.Set("site", site)
	}
	err := c.get(ctx, "/api/reckon/v1/members/"+strings.Join(words, "/"), q, &m)
	return m, err
}
