package client

import (
	"context"
)

// Fit returns where a job would fit.
func (c *Client) Fit(ctx context.Context, f FitQuery) (FitList, error) {
	var list FitList
	err := c.get(ctx, "/api/reckon/v1/fit", f.Query(), &list)
	return list, err
}
