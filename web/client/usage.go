package client

import (
	"context"

	"reckon/figure/wire"
)

// UsageDimensions returns the possible dimensions of rows.
func UsageDimensions() []string { return wire.UsageDimensions() }

// UsageSpans returns the possible lengths of the intervals of usage.
func UsageSpans() []string {
	return []string{"whole", "hour", "day", "week", "month", "hour-of-week"}
}

// Usage returns history.
func (c *Client) Usage(ctx context.Context, u UsageQuery) (UsageList, error) {
	var list UsageList
	err := c.get(ctx, "/api/reckon/v1/usage", u.Query(), &list)
	return list, err
}
