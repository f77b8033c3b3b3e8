package wire

import (
	"net/url"
	"time"

	"reckon/figure"
)

// UsageQuery selects historical use by time, user and other dimensions. Zero fields select everything.
type UsageQuery struct {
	Since, Until time.Time // rounded outwards to whole hours, UTC
	// Span is hour, day, week, month, whole or hour-of-week.
	Span string
	// By lists the dimensions that distinguish rows: some of [UsageDimensions].
	By []string

	Sites, Kinds, Owners, Accounts, Partitions, Nodes []string
	Command                                           string // shell pattern
}

// UsageDimensions returns the dimensions of usage rows, which can be combined freely.
func UsageDimensions() []string {
	return []string{"owner", "account", "partition", "node", "command", "kind", "site", "qos", "size", "gpus", "length"}
}

// Query encodes the query as parameters of GET /api/reckon/v1/usage.
func (u UsageQuery) Query() url.Values {
	q := url.Values{}
	for key, v := range map[string]string{"since": FormatTime(u.Since), "until": FormatTime(u.Until), "span": u.Span,
		"command": u.Command} {
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

// Capacity is the capacity of machines while they were up, and its use. A machine that is down has
// no capacity, because it is not idle.
type Capacity = figure.Capacity

// Usage is the use by one group in one period: a row of history.
type Usage struct {
	From      *time.Time `json:"from"`                // Start of the stretch; null when the span is whole.
	Site      string     `json:"site,omitempty"`      // Site.
	Owner     string     `json:"owner,omitempty"`     // Owner; "others" combines everyone the caller may not see.
	Account   string     `json:"account,omitempty"`   // Project or account it was charged to.
	Partition string     `json:"partition,omitempty"` // Partition.
	Node      string     `json:"node,omitempty"`      // Node.
	// Program; other figures than CPU time stand with the program that used most in a workload.
	Command string `json:"command,omitempty"`
	Kind    string `json:"kind,omitempty"` // Kind of workload.
	QOS     string `json:"qos,omitempty"`  // Quality of service.
	// Class of allocated cores: 1, 2-8, 9-32, 33-128, 129-512, more than 512; empty if none are known.
	Size string `json:"size,omitempty"`
	// Class of allocated GPUs: 0, 1, 2-4, more than 4; empty if nothing was allocated.
	GPUs string `json:"gpus,omitempty"`
	// Class of the run time of ended runs: < 1 min, < 1 h, < 6 h, < 1 d, < 7 d, 7 d or more; running of others.
	Length string `json:"length,omitempty"`
	UsageFigures
	// Capacity of the node in a row of one node, of the partition's nodes in a row of one partition
	// if the batch system reports them, else of all nodes in that time.
	Capacity
	// Share of all use: its CPU time divided by the CPU time of all rows.
	UsedShare *float64 `json:"used_share"`
	// Share of capacity: CPU time divided by the core time of the machines while they were up, or
	// of the partition's nodes if the batch system reports them.
	CapacityShare *float64 `json:"capacity_share"`
}

// UsageList is usage over a period: the response of GET /api/reckon/v1/usage.
type UsageList struct {
	Since time.Time `json:"since"` // Start, a full hour.
	Until time.Time `json:"until"` // End, a whole hour.
	// Time up to which usage was counted, if that is before the end: some minutes ago on a busy server.
	AsOf    *time.Time `json:"as_of,omitempty"`
	Span    string     `json:"span"`              // Length of the stretches of time.
	By      []string   `json:"by"`                // Dimensions of the rows.
	Rows    []Usage    `json:"rows"`              // One row per time span and group, by time.
	Total   Usage      `json:"total"`             // All rows together, and the capacity over all the time.
	Pending *Pending   `json:"pending,omitempty"` // The currently waiting demand; null for none.
	Missing []string   `json:"missing,omitempty"` // Unavailable parts of a partial answer.
	// Agreement of usage with the counters, such as: checked 03:10 CET, 100.00 % accounted for; empty if unknown.
	Proof string `json:"proof,omitempty"`
}

// Pending is the currently waiting demand.
type Pending struct {
	Workloads      int      `json:"workloads"`       // Number of waiting workloads, including each task of an array.
	RequestCores   *float64 `json:"request_cores"`   // Cores they ask for together.
	RequestGPUs    *float64 `json:"request_gpus"`    // GPUs they ask for together.
	LongestSeconds *float64 `json:"longest_seconds"` // Longest current waiting time, seconds.
}
