package client

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// Members is the answer of GET /api/reckon/v1/members/{id}: a job array or a heterogeneous job as a
// whole. Of a task that ran more than once its latest run is the member.
type Members struct {
	ID        string `json:"id"`   // slurm/4, or slurm/4_[1-4]
	Kind      string `json:"kind"` // array or heterogeneous
	Name      string `json:"name"`
	Owner     string `json:"owner"`
	Site      string `json:"site,omitempty"`
	Account   string `json:"account,omitempty"`
	Partition string `json:"partition,omitempty"`

	// Waiting says that tasks wait that have not become jobs of their own.
	Waiting bool         `json:"waiting,omitempty"`
	States  []StateCount `json:"states"` // the most frequent first
	Submit  *time.Time   `json:"submit"` // of the first
	Start   *time.Time   `json:"start"`  // of the first that began
	End     *time.Time   `json:"end"`    // of the last; null while one runs, waits or is lost
	Sums    MemberSums   `json:"sums"`

	Verdicts []Verdict  `json:"verdicts"`
	Members  []Workload `json:"members"` // in the order of their numbers
	// Missing names what could not be asked, when the answer is partial.
	Missing []string `json:"missing,omitempty"`
}

// StateCount is how many members are in a state.
type StateCount struct {
	State string `json:"state"`
	Count int    `json:"count"`
}

// MemberSums are figures of all members together. Those of members that lack one are not in it:
// Measured says how many have CPU time.
type MemberSums struct {
	Measured       int      `json:"measured"`
	CPUSeconds     *float64 `json:"cpu_seconds"`
	CoreSeconds    *float64 `json:"core_seconds"` // given: cores by time, less the time suspended
	CPUShare       *float64 `json:"cpu_share"`    // of the core time given, over members with both
	GPUSeconds     *float64 `json:"gpu_seconds"`
	GPUHeldSeconds *float64 `json:"gpu_held_seconds"` // given: GPUs by time
	EnergyJoules   *float64 `json:"energy_joules"`
	ReadBytes      *float64 `json:"io_read_bytes"`
	WriteBytes     *float64 `json:"io_write_bytes"`
	OOMKills       *float64 `json:"oom_kills"`
	WallSeconds    float64  `json:"wall_seconds"`    // of those that began, added up
	LongestSeconds float64  `json:"longest_seconds"` // wall time of the longest
	// MemoryPeakBytes is the highest peak of one member; peaks at different times do not add up.
	MemoryPeakBytes *float64 `json:"memory_peak_bytes"`
}

// Members tells of a job array or a heterogeneous job as a whole: slurm/4, or 4_[1-4] for some
// tasks. site may be empty where only one gave the id.
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
