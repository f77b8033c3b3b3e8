package wire

import (
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
	for key, v := range map[string]float64{"cores": f.Cores, "memory_bytes": f.MemoryBytes, "gpus": f.GPUs,
		"gpu_memory_bytes": f.GPUMemoryBytes} {
		if v > 0 {
			q.Set(key, strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	if f.Time > 0 {
		q.Set("time", f.Time.String())
	}
	return q
}

// Place is a class of similar nodes of a site where a job could run, and the partitions that they were seen in.
type Place struct {
	Site        string   `json:"site,omitempty"`      // Site.
	Partitions  []string `json:"partitions"`          // Partitions in which these nodes were seen.
	Nodes       int      `json:"nodes"`               // Number of nodes.
	Up          *int     `json:"up"`                  // Number of nodes that are up; null if unknown.
	Cores       *float64 `json:"cores"`               // Cores of each.
	MemoryBytes *float64 `json:"memory_bytes"`        // Memory of each, bytes.
	GPUs        *float64 `json:"gpus"`                // Minimum GPUs of each node, from allocations to jobs; null if unknown.
	Fits        *bool    `json:"fits"`                // Whether one such node is large enough; null if unknown.
	Why         string   `json:"why,omitempty"`       // Reason why it is not, or missing data.
	FreeNow     *int     `json:"free_now"`            // Number of nodes with enough free capacity now; null if unknown.
	Comparable  int      `json:"comparable"`          // Jobs of the last 30 days that asked for half to twice as much.
	WaitP50     *float64 `json:"wait_p50_seconds"`    // Median wait of these jobs, seconds.
	WaitP90     *float64 `json:"wait_p90_seconds"`    // 90th percentile of the wait of these jobs, seconds.
	LongestRun  *float64 `json:"longest_run_seconds"` // Run time of the longest of these jobs, seconds.
}

// GPUTenant is a workload that has a GPU open, with its use over the last day.
type GPUTenant struct {
	Workload string `json:"workload"`        // Workload, or words without a name for viewers who may not see it.
	Owner    string `json:"owner,omitempty"` // Owner of the workload.
	// Highest device memory that it held at once, bytes; null if not measured.
	MemoryPeak *float64 `json:"memory_peak_bytes"`
	BusyPeak   *float64 `json:"busy_peak_ratio"` // Busy share of its busiest minute; null if not measured.
	BusyMean   *float64 `json:"busy_mean_ratio"` // Share of the time that the device computed for it; null when not measured.
	// Whether its time was divided by memory or evenly instead of measured.
	Estimated bool `json:"estimated,omitempty"`
}

// GPUShare is a GPU, or a partition of one, that the job could share.
type GPUShare struct {
	Site        string      `json:"site,omitempty"`      // Site of the node.
	Node        string      `json:"node"`                // Node that the GPU is in.
	Device      string      `json:"device"`              // UUID of the device, or its address on the bus.
	Index       string      `json:"index"`               // Number of the device in its vendor's tools.
	Model       string      `json:"model,omitempty"`     // Model of the device.
	Partition   bool        `json:"partition,omitempty"` // Whether it is a MIG instance.
	MemoryBytes *float64    `json:"memory_bytes"`        // Memory of the device; null if unknown.
	Tenants     []GPUTenant `json:"tenants"`             // Workloads that have it open.
	// Whether memory and time suffice next to the tenants' peak memory and mean use; null if unknown.
	Fits *bool `json:"fits"`
	// Resource that is too small or unknown, or the slowdown of all at their busiest.
	Why string `json:"why,omitempty"`
	// Memory left next to all tenants at their peaks, bytes; a negative value is a shortage; null if unknown.
	MemoryLeft *float64 `json:"memory_left_bytes"`
	// Time left after the mean use of all; negative if there is too little; null if unknown.
	BusyLeft *float64 `json:"busy_left_ratio"`
	// Lower bound of the factor by which all of them slow down: the mean use plus the requested share, at least 1;
	// null if unknown. Contention for memory and caches is not included.
	SlowdownAtLeast *float64 `json:"slowdown_at_least"`
	AtPeaks         *float64 `json:"slowdown_at_peaks"` // The same for the busiest minute of each; null if unknown.
	Profile         string   `json:"profile,omitempty"` // MIG profile or time slices to use.
}

// FitList lists the places where a job would fit, the best place first: the response of GET /api/reckon/v1/fit.
type FitList struct {
	Places  []Place    `json:"places"`            // The best first.
	Sharing []GPUShare `json:"sharing,omitempty"` // GPUs that the job could share, the best first, if it needs a part of one.
	// Time when the list of nodes was read, if before the request; omitted for a current list.
	AsOf    *time.Time `json:"as_of,omitempty"`
	Missing []string   `json:"missing,omitempty"` // Unavailable parts of the answer.
}
