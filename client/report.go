package client

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// Report is the response of GET /api/reckon/v1/report: the use of a site in a period.
type Report struct {
	Period string    `json:"period"` // day, week, month, quarter or year
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Public bool      `json:"public"` // names were removed

	Total    Usage   `json:"total"`
	Steps    []Usage `json:"steps"` // over time: hours of a day, days of a month, months of a year
	Step     string  `json:"step"`
	Week     []Usage `json:"week"` // by hour of the week
	Owners   []Usage `json:"owners"`
	Accounts []Usage `json:"accounts"`
	Commands []Usage `json:"commands"`
	Kinds    []Usage `json:"kinds"`
	Nodes    []Usage `json:"nodes"`

	Pending *Pending `json:"pending,omitempty"`
	Missing []string `json:"missing,omitempty"`
}

// Periods returns the possible lengths of a report.
func Periods() []string { return []string{"day", "week", "month", "quarter", "year"} }

// Report returns the use of the site in the period that ends at the given time; the
// zero time is now. public removes names.
func (c *Client) Report(ctx context.Context, period string, until time.Time, public bool) (Report, error) {
	q := url.Values{"period": {period}, "public": {strconv.FormatBool(public)}}
	if !until.IsZero() {
		q.Set("until", formatTime(until))
	}
	var r Report
	err := c.get(ctx, "/api/reckon/v1/report", q, &r)
	return r, err
}
