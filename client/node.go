package client

import "time"

// NodeBatch is what a batch system says of a node.
type NodeBatch struct {
	State      string   `json:"state"` // idle, mixed, allocated, down, drained, ...
	Open       bool     `json:"open"`  // takes jobs
	Flags      []string `json:"flags,omitempty"`
	Reason     string   `json:"reason,omitempty"` // why it takes none
	Partitions []string `json:"partitions"`
	// What it gives out, and what of it jobs hold.
	Cores       *float64 `json:"cores"`
	CoresHeld   *float64 `json:"cores_held"`
	MemoryBytes *float64 `json:"memory_bytes"`
	MemoryHeld  *float64 `json:"memory_held_bytes"`
	GPUs        *float64 `json:"gpus"`
	GPUsHeld    *float64 `json:"gpus_held"`
}

// NodeSpan is what a node had and what was used of it in a stretch of time. What it had
// counts while it was up: a node that is down is not idle.
type NodeSpan struct {
	Since     time.Time `json:"since"`
	UpSeconds *float64  `json:"up_seconds"`
	UpShare   *float64  `json:"up_share"`   // of the time since then
	CoresUsed *float64  `json:"cores_used"` // mean while it was up
	// CPUShare and MemoryShare are what was used of what was there.
	CPUShare    *float64 `json:"cpu_share"`
	MemoryShare *float64 `json:"memory_share"`
	// UnusedCoreSeconds is core time that was there and was not used.
	UnusedCoreSeconds *float64 `json:"unused_core_seconds"`
	GPUSeconds        *float64 `json:"gpu_seconds"`
	EnergyJoules      *float64 `json:"energy_joules"` // of the whole node, idle included
}

// NodeWaiting is work that waited while a node had room for it: for all that one node of
// the job would take of it, in a partition of the job.
type NodeWaiting struct {
	// Jobs waited, in the last day, at some time in which there was room; Now of them wait
	// and there is room now.
	Jobs int `json:"jobs"`
	Now  int `json:"now"`
	// CoreSeconds is the core time that was free for them while they waited.
	CoreSeconds float64 `json:"core_seconds"`
}
