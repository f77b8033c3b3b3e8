package client

import (
	"context"
	"net/url"
	"strings"
)

// Members returns the members of a job array or heterogeneous job. id is the id of the whole job, such as slurm/4, or
// selects some tasks, such as 4_[1-4]. site may be empty if the id is unique.
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
