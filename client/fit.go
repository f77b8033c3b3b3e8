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
	GPUs        float64 // below 1: a part of one GPU's time
	// GPUMemoryBytes is the memory of one GPU. With it, or with a part of a GPU, the
	// answer says which GPUs can be shared.
	GPUMemoryBytes float64
	Time           time.Duration
}

// Shares reports whether the question is about a part of a GPU.
func (f FitQuery) Shares() bool { return f.GPUs > 0 && f.GPUs < 1 || f.GPUMemoryBytes > 0 }

// Query writes the question as parameters of GET /api/reckon/v1/fit.
func (f FitQuery) Query() url.Values {
	q := url.Values{}
	for key, v := range map[string]float64{"cores": f.Cores, "memory_bytes": f.MemoryBytes, "gpus": f.GPUs, "gpu_memory_bytes": f.GPUMemoryBytes} {
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

// GPUTenant is a workload that has a GPU open, with what it used there in the last day.
type GPUTenant struct {
	Workload string `json:"workload"`
	Owner    string `json:"owner,omitempty"`
	// MemoryPeak is the most that it held at one time, BusyPeak the busiest minute as a share
	// of it, BusyMean the mean; null when not measured.
	MemoryPeak *float64 `json:"memory_peak_bytes"`
	BusyPeak   *float64 `json:"busy_peak_ratio"`
	BusyMean   *float64 `json:"busy_mean_ratio"`
	// Estimated says that its time was split by memory held or evenly, not measured.
	Estimated bool `json:"estimated,omitempty"`
}

// GPUShare is a GPU, or a partition of one, that the job could have beside others.
type GPUShare struct {
	Site        string      `json:"site,omitempty"`
	Node        string      `json:"node"`
	Device      string      `json:"device"`
	Index       string      `json:"index"`
	Model       string      `json:"model,omitempty"`
	Partition   bool        `json:"partition,omitempty"` // a MIG instance
	MemoryBytes *float64    `json:"memory_bytes"`
	Tenants     []GPUTenant `json:"tenants"`
	// Fits says whether memory and time are enough beside the tenants' peaks of memory and
	// mean use; null when that is not known. Why says what is not enough or not known.
	Fits *bool  `json:"fits"`
	Why  string `json:"why,omitempty"`
	// MemoryLeft and BusyLeft are what is left beside all of them, at the peaks of memory and
	// in the mean of time; below 0 is what is too little.
	MemoryLeft *float64 `json:"memory_left_bytes"`
	BusyLeft   *float64 `json:"busy_left_ratio"`
	// SlowdownAtLeast is by how much they all take longer together at least: the sum of the
	// mean use and of what is asked, 1 where that is below 1. Contention for memory and
	// caches comes on top. AtPeaks is the same with each one's busiest minute.
	SlowdownAtLeast *float64 `json:"slowdown_at_least"`
	AtPeaks         *float64 `json:"slowdown_at_peaks"`
	Profile         string   `json:"profile,omitempty"` // of MIG or time slices to take
}

// FitList is the answer of GET /api/reckon/v1/fit, the best place first.
type FitList struct {
	Places []Place `json:"places"`
	// Sharing are GPUs that the job could share, the best first, where it asked for a part.
	Sharing []GPUShare `json:"sharing,omitempty"`
	Missing []string   `json:"missing,omitempty"`
}

// Fit asks where a job would fit.
func (c *Client) Fit(ctx context.Context, f FitQuery) (FitList, error) {
	var list FitList
	err := c.get(ctx, "/api/reckon/v1/fit", f.Query(), &list)
	return list, err
}
