package wire

import "time"

// NodeBatch is the state of a node in a batch system.
type NodeBatch struct {
	State       string   `json:"state"`             // State in the batch system's words: idle, mixed, allocated, down and the like.
	Open        bool     `json:"open"`              // Whether the node takes jobs.
	Flags       []string `json:"flags,omitempty"`   // Further flags of the state, such as drain.
	Reason      string   `json:"reason,omitempty"`  // Reason why it accepts no jobs.
	Partitions  []string `json:"partitions"`        // Partitions of the node.
	Cores       *float64 `json:"cores"`             // Allocatable cores.
	CoresHeld   *float64 `json:"cores_held"`        // Cores allocated to jobs.
	MemoryBytes *float64 `json:"memory_bytes"`      // Allocatable memory, bytes.
	MemoryHeld  *float64 `json:"memory_held_bytes"` // Memory allocated to jobs, bytes.
	GPUs        *float64 `json:"gpus"`              // Allocatable GPUs.
	GPUsHeld    *float64 `json:"gpus_held"`         // GPUs allocated to jobs.
}

// NodeSpan is the capacity of a node and its use over a period. Capacity counts only while the node
// was up, because a node that is down is not idle.
type NodeSpan struct {
	Since             time.Time `json:"since"`               // Start.
	UpSeconds         *float64  `json:"up_seconds"`          // Observed uptime.
	UpShare           *float64  `json:"up_share"`            // The same as a share of the time since then.
	CoresUsed         *float64  `json:"cores_used"`          // Mean cores in use while it was up.
	CPUShare          *float64  `json:"cpu_share"`           // Used share of the core time while it was up.
	MemoryShare       *float64  `json:"memory_share"`        // Used share of the memory while it was up.
	UnusedCoreSeconds *float64  `json:"unused_core_seconds"` // Unused core time while the node was up, core seconds.
	GPUSeconds        *float64  `json:"gpu_seconds"`         // GPU time that workloads used.
	EnergyJoules      *float64  `json:"energy_joules"`       // Energy of the whole node, idle included, joules.
}

// NodeWaiting is work that waited although a node in the job's partition had free capacity for the
// job's whole need on one node.
type NodeWaiting struct {
	Jobs        int     `json:"jobs"`         // Jobs that waited during free capacity at some time in the last day.
	Now         int     `json:"now"`          // Jobs of these that still wait while there is enough capacity.
	CoreSeconds float64 `json:"core_seconds"` // Free core time while they waited, core seconds.
}
