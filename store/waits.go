package store

import (
	"context"
	"time"
)

// Wait is what is known of how long a workload waited to begin, and for what.
type Wait struct {
	Site, Partition, Reason string
	Nodes                   []string  // that it began on
	Submit                  time.Time // never zero
	Start                   time.Time // zero while it waits
	End                     time.Time // or when it was last seen

	// What it asked for on all its nodes together; nil when nobody said.
	RequestCores, RequestMemoryBytes, RequestGPUs, RequestNodes *float64
}

// Range is an amount from Low to High, both included.
type Range struct{ Low, High float64 }

// WaitQuery selects waits that ended, or go on, between Since and Until.
type WaitQuery struct {
	Since, Until time.Time
	Begun        bool // only of workloads that have begun
	// Cores, MemoryBytes and GPUs, where not nil, are what the workload asked for.
	Cores, MemoryBytes, GPUs *Range
}

// Waits tells what workloads waited. It is safe for concurrent use.
type Waits interface {
	// Waits calls f with every wait that the query selects, in no order, until f returns
	// an error. The wait is only valid until f returns.
	Waits(ctx context.Context, q WaitQuery, f func(*Wait) error) error
}
