package client

import "context"

// Data returns a table of series.
func (c *Client) Data(ctx context.Context, d DataQuery) (DataTable, error) {
	var t DataTable
	err := c.get(ctx, "/api/reckon/v1/data", d.Query(), &t)
	return t, err
}

// Correlate returns the correlations between series.
func (c *Client) Correlate(ctx context.Context, d DataQuery) (Correlation, error) {
	var out Correlation
	err := c.get(ctx, "/api/reckon/v1/data/correlate", d.Query(), &out)
	return out, err
}
