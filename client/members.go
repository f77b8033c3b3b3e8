package client

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// Members is the response of GET /api/reckon/v1/members/{id}: a job array or a heterogeneous job as a
// whole. A task that ran more than once is represented by its latest run.
type Members struct {
	ID        string `json:"id"`   // slurm/4, or slurm/4_[1-4]
	Kind      string `json:"kind"` // array or heterogeneous
	Name      string `json:"name"`
	Owner     string `json:"owner"`
	Site      string `json:"site,omitempty"`
	Account   string `json:"account,omitempty"`
	Partition string `json:"partition,omitempty"`

	// Waiting is true if there are pending tasks that are not yet jobs of their own.
	Waiting bool         `json:"waiting,omitempty"`
	States  []StateCount `json:"states"` // the most frequent first
	Submit  *time.Time   `json:"submit"` // earliest
	Start   *time.Time   `json:"start"`  // earliest
	End     *time.Time   `json:"end"`    // latest; null while a member runs, waits or is lost
	Sums    MemberSums   `json:"sums"`

	Verdicts []Verdict  `json:"verdicts"`
	Members  []Workload `json:"members"` // in the order of their numbers
	// Missing names the unavailable parts of a partial answer.
	Missing []string `json:"missing,omitempty"`
}

// StateCount is the number of members in a state.
type StateCount struct {
	State string `json:"state"`
	Count int    `json:"count"`
}

// MemberSums are sums over all members. Members that lack a figure are not included in its sum:
// Measured is the number of members with CPU time.
type MemberSums struct {
	Measured       int      `json:"measured"`
	CPUSeconds     *float64 `json:"cpu_seconds"`
	CoreSeconds    *float64 `json:"core_seconds"` // allocated: cores times time, without suspended time
	CPUShare       *float64 `json:"cpu_share"`    // of the allocated core time, over members with both
	GPUSeconds     *float64 `json:"gpu_seconds"`
	GPUHeldSeconds *float64 `json:"gpu_held_seconds"` // allocated: GPUs times time
	EnergyJoules   *float64 `json:"energy_joules"`
	ReadBytes      *float64 `json:"io_read_bytes"`
	WriteBytes     *float64 `json:"io_write_bytes"`
	OOMKills       *float64 `json:"oom_kills"`
	WallSeconds    float64  `json:"wall_seconds"`    // sum over the members that have started
	LongestSeconds float64  `json:"longest_seconds"` // wall time of the longest member
	// MemoryPeakBytes is the highest peak of one member; peaks at different times do not add up.
	MemoryPeakBytes *float64 `json:"memory_peak_bytes"`
}

// Members returns a job array or a heterogeneous job as a whole: slurm/4, or 4_[1-4] for some
// tasks. site may be empty if the id is unique.
func (c *Client) Members(ctx context.Context, id, site string) (Members, error) {
	var m Members
	words := strings.Split(id, "/")
	for i := range words {
		words[i] = url.PathEscape(words[i])
	}
	q := url.Values{}
	if site != "" {
		q.Set("site", site)
	}
	err := c.get(ctx, "/api/reckon/v1/members/"+strings.Join(words, "/"), q, &m)
	return m, err
}
