package store

import (
	"context"
	"time"
)

// Wait is the time that a workload waited to start, and the reason.
type Wait struct {
	Site, Partition, Reason string
	Nodes                   []string  // on which it started
	Submit                  time.Time // never zero
	Start                   time.Time // zero while it waits
	End                     time.Time // or when it was last observed

	// Resources requested on all its nodes together; nil when unreported.
	RequestCores, RequestMemoryBytes, RequestGPUs, RequestNodes *float64
}

// Range is an amount from Low to High, both included.
type Range struct{ Low, High float64 }

// WaitQuery selects the waits that ended between Since and Until, or that were under way then.
type WaitQuery struct {
	Since, Until time.Time
	Begun        bool // only of workloads that have started
	// Cores, MemoryBytes and GPUs, if not nil, are ranges of the requested resources.
	Cores, MemoryBytes, GPUs *Range
}

// Waits reads the waiting times of workloads. It is safe for concurrent use.
type Waits interface {
	// Waits calls f with each selected wait in no order until f returns an error. The wait is valid
	// until f returns.
	Waits(ctx context.Context, q WaitQuery, f func(*Wait) error) error
}
