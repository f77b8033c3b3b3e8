package client

import "time"

// NodeBatch is the state of a node in a batch system.
type NodeBatch struct {
	State      string   `json:"state"` // idle, mixed, allocated, down, drained, ...
	Open       bool     `json:"open"`  // accepts jobs
	Flags      []string `json:"flags,omitempty"`
	Reason     string   `json:"reason,omitempty"` // why it accepts none
	Partitions []string `json:"partitions"`
	// Its allocatable capacity, and the part of it allocated to jobs.
	Cores       *float64 `json:"cores"`
	CoresHeld   *float64 `json:"cores_held"`
	MemoryBytes *float64 `json:"memory_bytes"`
	MemoryHeld  *float64 `json:"memory_held_bytes"`
	GPUs        *float64 `json:"gpus"`
	GPUsHeld    *float64 `json:"gpus_held"`
}

// NodeSpan is the capacity of a node and its use over a period. Capacity counts
// only while the node was up: a node that is down is not idle.
type NodeSpan struct {
	Since     time.Time `json:"since"`
	UpSeconds *float64  `json:"up_seconds"`
	UpShare   *float64  `json:"up_share"`   // of the time since then
	CoresUsed *float64  `json:"cores_used"` // mean while it was up
	// CPUShare and MemoryShare are the used shares of the capacity.
	CPUShare    *float64 `json:"cpu_share"`
	MemoryShare *float64 `json:"memory_share"`
	// UnusedCoreSeconds is unused core time while the node was up.
	UnusedCoreSeconds *float64 `json:"unused_core_seconds"`
	GPUSeconds        *float64 `json:"gpu_seconds"`
	EnergyJoules      *float64 `json:"energy_joules"` // of the whole node, including idle energy
}

// NodeWaiting is work that waited although a node in a partition of the job had enough free capacity for
// everything that the job would use on one node.
type NodeWaiting struct {
	// Jobs is the number of jobs that waited during free capacity at some time in the last day; Now of them are still waiting
	// while there is enough capacity.
	Jobs int `json:"jobs"`
	Now  int `json:"now"`
	// CoreSeconds is the core time that was free for them while they waited.
	CoreSeconds float64 `json:"core_seconds"`
}
