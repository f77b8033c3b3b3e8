package wire

import "time"

// Members is a job array or a heterogeneous job as a whole: the response of GET
// /api/reckon/v1/members/{id}. A task that ran several times is represented by its latest run.
type Members struct {
	ID        string `json:"id"`                  // The id of the whole, or of the tasks that were asked for.
	Kind      string `json:"kind"`                // array or heterogeneous.
	Name      string `json:"name"`                // Name given by the owner.
	Owner     string `json:"owner"`               // Unix user.
	Site      string `json:"site,omitempty"`      // Site of the runs.
	Account   string `json:"account,omitempty"`   // Project or account it is charged to.
	Partition string `json:"partition,omitempty"` // Partition of the latest member.

	Waiting bool `json:"waiting,omitempty"` // Whether there are pending tasks that are not yet jobs of their own.
	// Number of members by state, the most frequent first; waiting tasks are pending and no members.
	States []StateCount `json:"states"`
	Submit *time.Time   `json:"submit"` // Submit time of the first.
	Start  *time.Time   `json:"start"`  // Start of the first.
	// End of the last; null while one is running or pending, or if an end is unknown.
	End  *time.Time `json:"end"`
	Sums MemberSums `json:"sums"` // Figures of all members together.

	Verdicts []Verdict  `json:"verdicts"`          // Remarks on the whole, most severe first.
	Members  []Workload `json:"members"`           // Latest run of each member by number.
	Missing  []string   `json:"missing,omitempty"` // Names of the unavailable parts of a partial answer.
}

// StateCount is the number of members in a state.
type StateCount struct {
	State string `json:"state"` // The state.
	Count int    `json:"count"` // Number of members.
}

// MemberSums are sums over all members. Members that lack a figure are not included in its sum.
type MemberSums struct {
	Measured       int      `json:"measured"`         // Members with CPU time.
	CPUSeconds     *float64 `json:"cpu_seconds"`      // CPU time, seconds.
	CoreSeconds    *float64 `json:"core_seconds"`     // Allocated core seconds, without suspended time.
	CPUShare       *float64 `json:"cpu_share"`        // CPU time divided by allocated core time, over the members with both.
	GPUSeconds     *float64 `json:"gpu_seconds"`      // Busy share of GPUs, integrated over time, seconds.
	GPUHeldSeconds *float64 `json:"gpu_held_seconds"` // Allocated GPU seconds, without suspended time.
	EnergyJoules   *float64 `json:"energy_joules"`    // Energy they caused, joules.
	ReadBytes      *float64 `json:"io_read_bytes"`    // Bytes read from storage.
	WriteBytes     *float64 `json:"io_write_bytes"`   // Bytes written to storage.
	OOMKills       *float64 `json:"oom_kills"`        // Processes killed for lack of memory.
	WallSeconds    float64  `json:"wall_seconds"`     // Sum of the wall times of the members that have started, seconds.
	LongestSeconds float64  `json:"longest_seconds"`  // Wall time of the longest member, seconds.
	// Highest peak of resident memory of a member, bytes; peaks at different times do not add up.
	MemoryPeakBytes *float64 `json:"memory_peak_bytes"`
}
