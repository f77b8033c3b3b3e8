package client

import (
	"context"
)

// Forecast returns forecasts of demand.
func (c *Client) Forecast(ctx context.Context, f ForecastQuery) (ForecastList, error) {
	var list ForecastList
	err := c.get(ctx, "/api/reckon/v1/forecast", f.Query(), &list)
	return list, err
}
