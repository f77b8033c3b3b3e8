package client

import (
	"context"
	"net/url"
	"time"

	"reckon/figure"
)

// UsageQuery selects history: what was used, by whom and when. Zero fields select
// everything.
type UsageQuery struct {
	Since, Until time.Time // rounded outwards to whole hours, UTC
	// Span is hour, day, week, month, whole or hour-of-week.
	Span string
	// By lists the dimensions that distinguish rows: owner, account, partition, command, kind,
	// site; or node, alone or with site.
	By []string

	Sites, Kinds, Owners, Accounts, Partitions, Nodes []string
	Command                                           string // shell pattern
}

// UsageDimensions returns the possible dimensions of rows.
func UsageDimensions() []string {
	return []string{"owner", "account", "partition", "node", "command", "kind", "site"}
}

// UsageSpans returns the possible lengths of the intervals of usage.
func UsageSpans() []string {
	return []string{"whole", "hour", "day", "week", "month", "hour-of-week"}
}

// Query encodes the query as parameters of GET /api/reckon/v1/usage.
func (u UsageQuery) Query() url.Values {
	q := url.Values{}
	for key, v := range map[string]string{"since": formatTime(u.Since), "until": formatTime(u.Until), "span": u.Span, "command": u.Command} {
		if v != "" {
			q.Set(key, v)
		}
	}
	for key, v := range map[string][]string{
		"by": u.By, "site": u.Sites, "kind": u.Kinds, "owner": u.Owners, "account": u.Accounts, "partition": u.Partitions, "node": u.Nodes,
	} {
		if len(v) > 0 {
			q[key] = v
		}
	}
	return q
}

// UsageFigures are sums over a period; unmeasured figures are null.
type UsageFigures = figure.Used

// Capacity is the capacity of machines while they were up, and its use. A machine
// that is down is not idle: it has no capacity.
type Capacity = figure.Capacity

// Usage is one row of history.
type Usage struct {
	From      *time.Time `json:"from"` // null when the span is whole
	Site      string     `json:"site,omitempty"`
	Owner     string     `json:"owner,omitempty"`
	Account   string     `json:"account,omitempty"`
	Partition string     `json:"partition,omitempty"`
	Node      string     `json:"node,omitempty"`
	Command   string     `json:"command,omitempty"`
	Kind      string     `json:"kind,omitempty"`
	UsageFigures
	// Capacity is that of the node in a row of one node, that of the nodes of the partition in a row of
	// one partition if the batch system reports them, otherwise that of all nodes in that time.
	Capacity
	// CapacityShare is CPU time over the available core time.
	CapacityShare *float64 `json:"capacity_share"`
}

// UsageList is the response of GET /api/reckon/v1/usage.
type UsageList struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// AsOf is the time up to which usage was counted, if Until is later and it is known.
	AsOf *time.Time `json:"as_of,omitempty"`
	Span string     `json:"span"`
	By   []string   `json:"by"`
	Rows []Usage    `json:"rows"`
	// Total is over all rows and times.
	Total Usage `json:"total"`
	// Pending is the currently waiting demand.
	Pending *Pending `json:"pending,omitempty"`
	Missing []string `json:"missing,omitempty"`
	// Proof describes how far usage agrees with the counters, such as "accounted 100.00 %, last proof
	// 03:10 CET"; empty if unknown.
	Proof string `json:"proof,omitempty"`
}

// Pending is the currently waiting demand.
type Pending struct {
	Workloads    int      `json:"workloads"`
	RequestCores *float64 `json:"request_cores"`
	RequestGPUs  *float64 `json:"request_gpus"`
	// LongestSeconds is the longest current waiting time.
	LongestSeconds *float64 `json:"longest_seconds"`
}

// Usage returns history.
func (c *Client) Usage(ctx context.Context, u UsageQuery) (UsageList, error) {
	var list UsageList
	err := c.get(ctx, "/api/reckon/v1/usage", u.Query(), &list)
	return list, err
}
