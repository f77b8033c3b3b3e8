package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"reckon/figure/wire"
)

// Periods returns the possible lengths of a report.
func Periods() []string { return []string{"day", "week", "month", "quarter", "year"} }

// Report returns the use of the site in the period that ends at until. The zero time means now. If public is set, the
// report contains no names.
func (c *Client) Report(ctx context.Context, period string, until time.Time, public bool) (Report, error) {
	q := url.Values{"period": {period}, "public": {strconv.FormatBool(public)}}
	if !until.IsZero() {
		q.Set("until", wire.FormatTime(until))
	}
	var r Report
	err := c.get(ctx, "/api/reckon/v1/report", q, &r)
	return r, err
}
