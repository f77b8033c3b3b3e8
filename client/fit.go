package client

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// FitQuery is what a job needs.
type FitQuery struct {
	Cores       float64
	MemoryBytes float64
	GPUs        float64
	Time        time.Duration
}

// Query writes the question as parameters of GET /api/reckon/v1/fit.
func (f FitQuery) Query() url.Values {
	q := url.Values{}
	for key, v := range map[string]float64{"cores": f.Cores, "memory_bytes": f.MemoryBytes, "gpus": f.GPUs} {
		if v > 0 {
			q.Set(key, strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	if f.Time > 0 {
		q.Set("time", f.Time.String())
	}
	return q
}

// Place is somewhere that a job could run: nodes of a site that are alike, and the
// partitions that were seen on them.
type Place struct {
	Site        string   `json:"site,omitempty"`
	Partitions  []string `json:"partitions"`
	Nodes       int      `json:"nodes"`
	Up          *int     `json:"up"`           // null when not known
	Cores       *float64 `json:"cores"`        // of each node
	MemoryBytes *float64 `json:"memory_bytes"` // of each node
	GPUs        *float64 `json:"gpus"`         // of each node; null when not known
	// Fits says whether one such node is big enough; null when that is not known.
	Fits *bool  `json:"fits"`
	Why  string `json:"why,omitempty"` // why not, or what is not known
	// FreeNow is on how many nodes there is room at this moment; null when not known.
	FreeNow *int `json:"free_now"`
	// Comparable jobs of the last 30 days: how many, and what they waited.
	Comparable int      `json:"comparable"`
	WaitP50    *float64 `json:"wait_p50_seconds"`
	WaitP90    *float64 `json:"wait_p90_seconds"`
	LongestRun *float64 `json:"longest_run_seconds"` // how long the longest of them ran
}

// FitList is the answer of GET /api/reckon/v1/fit, the best place first.
type FitList struct {
	Places  []Place  `json:"places"`
	Missing []string `json:"missing,omitempty"`
}

// Fit asks where a job would fit.
func (c *Client) Fit(ctx context.Context, f FitQuery) (FitList, error) {
	var list FitList
	err := c.get(ctx, "/api/reckon/v1/fit", f.Query(), &list)
	return list, err
}
