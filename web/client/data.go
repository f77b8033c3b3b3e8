package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Data returns a table of series.
func (c *Client) Data(ctx context.Context, d DataQuery) (DataTable, error) {
	var t DataTable
	err := c.get(ctx, "/api/reckon/v1/data", d.Query(), &t)
	return t, err
}

// DataFile writes the same table as a file: csv or parquet.
func (c *Client) DataFile(ctx context.Context, d DataQuery, format string, w io.Writer) error {
	q := d.Query()
	q.Set("format", format)
	body, err := c.do(ctx, http.MethodGet, "/api/reckon/v1/data", q)
	if err != nil {
		return err
	}
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("write the data set: %w", err)
	}
	return nil
}

// Correlate returns the correlations between series.
func (c *Client) Correlate(ctx context.Context, d DataQuery) (Correlation, error) {
	var out Correlation
	err := c.get(ctx, "/api/reckon/v1/data/correlate", d.Query(), &out)
	return out, err
}
