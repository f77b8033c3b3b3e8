// Package store is the contract of what keeps the numbers: a time-series store for
// samples, and a catalogue for facts about workloads.
//
// A store does not know what a number means. Its implementations live in the
// folders below and pass the suites of store/storetest; consumers see only this
// package and the interfaces of github.com/prometheus/prometheus/storage that
// it embeds.
package store

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/storage"

	"reckon/metric"
)

// Writer takes samples.
type Writer interface {
	// Append stores a batch with the given external labels (site, node and the like).
	// It may be called from several goroutines, for different nodes. What it could
	// not store is named in the error; the rest is stored. Appending the same batch
	// twice stores it once.
	Append(ctx context.Context, external map[string]string, b *metric.Batch) error
}

// Series is a store of time series.
type Series interface {
	Writer
	storage.Queryable
	// Close waits for writes under way.
	Close() error
}

// Workload is what the catalogue knows of one workload: a summary of its series,
// all nodes and parts together. A figure that was never measured is nil.
type Workload struct {
	Site  string
	ID    string // kind/name
	Kind  string
	Name  string // facts: what the owner calls it; else the name in the id
	Owner string

	Account, Partition, Command string

	// State is the batch system's word for it in lower case: pending, running, completed,
	// failed, cancelled, timeout, out_of_memory, node_fail, preempted and the like; empty
	// when nobody said. Reason is why it waits, or why it is in that state.
	State, Reason string

	Nodes []string
	// Submit is when it was handed in; zero when unknown.
	Submit time.Time
	// Start is the first moment the workload is known to have existed, and Seen the
	// last sample of it. End is zero while it runs. Of one that waits ([Workload.Waits]) Start
	// is when it was handed in.
	Start, Seen, End time.Time
	// PreviousStarts are other starts under which the row was written before: an upsert
	// deletes those rows. They are not read back.
	PreviousStarts []time.Time
	ExitCode       *int

	CPUSeconds        *float64 // user and system
	CPUUserSeconds    *float64
	CPUSystemSeconds  *float64
	CPUWaitSeconds    *float64
	CoresMean         *float64 // CPU seconds by wall seconds
	CoresP50          *float64
	CoresP95          *float64
	CoresMax          *float64
	MemoryBytes       *float64 // last
	MemoryPeakBytes   *float64 // sum over nodes of the true maximum
	MemoryByteSeconds *float64
	MemoryMeanBytes   *float64 // over the time in which it was watched
	ReadBytes         *float64
	WriteBytes        *float64
	NetworkBytes      *float64
	GPUSeconds        *float64
	GPUMemoryPeak     *float64
	EnergyJoules      *float64
	Processes         *float64 // processes started
	Threads           *float64 // last

	RequestCores       *float64
	RequestMemoryBytes *float64
	RequestGPUs        *float64
	RequestSeconds     *float64
	RequestNodes       *float64

	OOMKills         *float64 // processes killed for lack of memory
	ThrottledSeconds *float64 // held back by its CPU quota
	MajorFaults      *float64 // pages read from disk because they were not in memory
	SwapBytes        *float64 // sum over nodes and parts of the most that was swapped out
}

// Waits reports whether the workload has not begun: the batch system has it, no node.
func (w *Workload) Waits() bool {
	if !w.End.IsZero() || w.Submit.IsZero() || !w.Start.Equal(w.Submit) {
		return false
	}
	switch w.State {
	case "pending", "requeue_hold", "requeue_fed", "special_exit", "resv_del_hold":
		return true
	}
	return false
}

// Filter selects workloads of the catalogue. Zero fields select everything.
type Filter struct {
	ID           string
	Kinds        []string
	Owners       []string
	Nodes        []string
	Name         string    // shell pattern on the name
	Since, Until time.Time // workloads that existed in this interval
	MinCPU       float64   // CPU seconds, at least
	Running      *bool     // false is what ended or still waits
	Accounts     []string
	Partitions   []string
	States       []string
	Sites        []string
	Command      string // shell pattern on the program's name

	Sort   string // a field in snake_case as in the HTTP API; "-" in front for descending
	Limit  int    // 0 is unlimited
	Offset int
}

// Run names one run of a workload: one start-to-end of its id. The zero Start stands for all
// runs of the id.
type Run struct {
	Site, ID string
	Start    time.Time
}

// Catalogue keeps facts. It is a view of the series and can be dropped and rebuilt.
// It is safe for concurrent use.
type Catalogue interface {
	// Upsert writes rows, each replacing what was known of the workload.
	Upsert(ctx context.Context, rows []Workload) error
	// Workloads returns what the filter selects, and how many there are without limit.
	Workloads(ctx context.Context, f Filter) ([]Workload, int, error)
	// Watermark is the time up to which the series were taken in; zero when never.
	Watermark(ctx context.Context) (time.Time, error)
	SetWatermark(ctx context.Context, t time.Time) error
	// Drop empties the catalogue, to be rebuilt.
	Drop(ctx context.Context) error
	Close() error
}
