package client

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// FitQuery holds the requirements of a job.
type FitQuery struct {
	Cores       float64
	MemoryBytes float64
	GPUs        float64 // below 1: a share of one GPU's time
	// GPUMemoryBytes is the memory needed on one GPU. If it is set, or GPUs is below 1, the
	// response lists the GPUs that can be shared.
	GPUMemoryBytes float64
	Time           time.Duration
}

// Shares reports whether the query is about a part of a GPU.
func (f FitQuery) Shares() bool { return f.GPUs > 0 && f.GPUs < 1 || f.GPUMemoryBytes > 0 }

// Query encodes the query as parameters of GET /api/reckon/v1/fit.
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

// Place is a class of similar nodes of a site where a job could run, with the
// partitions observed on them.
type Place struct {
	Site        string   `json:"site,omitempty"`
	Partitions  []string `json:"partitions"`
	Nodes       int      `json:"nodes"`
	Up          *int     `json:"up"`           // null if unknown
	Cores       *float64 `json:"cores"`        // per node
	MemoryBytes *float64 `json:"memory_bytes"` // per node
	GPUs        *float64 `json:"gpus"`         // per node; null if unknown
	// Fits reports whether one such node is large enough; null if unknown.
	Fits *bool  `json:"fits"`
	Why  string `json:"why,omitempty"` // why not, or what is unknown
	// FreeNow is the number of nodes with enough free capacity now; null if unknown.
	FreeNow *int `json:"free_now"`
	// Comparable jobs of the last 30 days: their number and waiting times.
	Comparable int      `json:"comparable"`
	WaitP50    *float64 `json:"wait_p50_seconds"`
	WaitP90    *float64 `json:"wait_p90_seconds"`
	LongestRun *float64 `json:"longest_run_seconds"` // run time of the longest of them
}

// GPUTenant is a workload that has a GPU open, with its use of it in the last day.
type GPUTenant struct {
	Workload string `json:"workload"`
	Owner    string `json:"owner,omitempty"`
	// MemoryPeak is the most memory it held at a time, BusyPeak the busiest minute as a share
	// of the minute, BusyMean the mean; null if not measured.
	MemoryPeak *float64 `json:"memory_peak_bytes"`
	BusyPeak   *float64 `json:"busy_peak_ratio"`
	BusyMean   *float64 `json:"busy_mean_ratio"`
	// Estimated is true if its time was divided by memory held or evenly, rather than measured.
	Estimated bool `json:"estimated,omitempty"`
}

// GPUShare is a GPU, or a partition of one, that the job could share.
type GPUShare struct {
	Site        string      `json:"site,omitempty"`
	Node        string      `json:"node"`
	Device      string      `json:"device"`
	Index       string      `json:"index"`
	Model       string      `json:"model,omitempty"`
	Partition   bool        `json:"partition,omitempty"` // a MIG instance
	MemoryBytes *float64    `json:"memory_bytes"`
	Tenants     []GPUTenant `json:"tenants"`
	// Fits reports whether memory and time suffice next to the tenants' peak memory and
	// mean use; null if unknown. Why is what does not suffice or is unknown.
	Fits *bool  `json:"fits"`
	Why  string `json:"why,omitempty"`
	// MemoryLeft and BusyLeft are what remains next to all tenants, at their peak memory and
	// mean time; a negative value is a shortage.
	MemoryLeft *float64 `json:"memory_left_bytes"`
	BusyLeft   *float64 `json:"busy_left_ratio"`
	// SlowdownAtLeast is a lower bound of the factor by which all of them slow down: the sum of the
	// mean use and of the requested share, at least 1. Contention for memory and
	// caches comes on top. AtPeaks is the same with each one's busiest minute.
	SlowdownAtLeast *float64 `json:"slowdown_at_least"`
	AtPeaks         *float64 `json:"slowdown_at_peaks"`
	Profile         string   `json:"profile,omitempty"` // MIG profile or time slices to use
}

// FitList is the response of GET /api/reckon/v1/fit, the best place first.
type FitList struct {
	Places []Place `json:"places"`
	// Sharing lists GPUs that the job could share, the best first, if it needs a part of one.
	Sharing []GPUShare `json:"sharing,omitempty"`
	// AsOf is the time of the list of nodes, as in [NodeList].
	AsOf    *time.Time `json:"as_of,omitempty"`
	Missing []string   `json:"missing,omitempty"`
}

// Fit returns where a job would fit.
func (c *Client) Fit(ctx context.Context, f FitQuery) (FitList, error) {
	var list FitList
	err := c.get(ctx, "/api/reckon/v1/fit", f.Query(), &list)
	return list, err
}
