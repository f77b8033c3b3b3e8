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

	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"

	"reckon/figure"
	"reckon/metric"
)

// For how long is kept what nobody says otherwise of.
const (
	// DefaultRetention is that of samples.
	DefaultRetention = 90 * 24 * time.Hour
	// DefaultHourlyRetention is that of one figure an hour of every series.
	DefaultHourlyRetention = 5 * 365 * 24 * time.Hour
)

// Writer takes samples.
type Writer interface {
	// Append stores a batch with the given external labels (site, node and the like).
	// It may be called from several goroutines, for different nodes. What it could
	// not store is named in the error; the rest is stored. Appending the same batch
	// twice stores it once.
	Append(ctx context.Context, external map[string]string, b *metric.Batch) error
}

// Series is the contract of a store of time series, in the data directory or elsewhere. It is
// all that the server needs to run on a store; [Reachable], [Local] and what importers and
// status pages declare are found by assertion and may be missing. storetest.Series is its
// suite. It is safe for concurrent use; every method but Close may fail with ErrClosed or
// [ErrUnavailable].
type Series interface {
	Writer
	storage.SampleAndChunkQueryable
	// ExemplarQuerier finds nothing in a store that keeps no exemplars.
	storage.ExemplarQueryable
	// AppendableV2 is how rules, scraping and remote write append.
	storage.AppendableV2

	// Describe keeps the description of a metric, and Metadata returns those of all, by name.
	// The map is the caller's.
	Describe(name string, m metadata.Metadata) error
	Metadata() map[string]metadata.Metadata
	// Ready says why samples can not be taken and queried now; nil when they can.
	Ready() error

	// Oldest is a time before which there are no samples; false for an empty store.
	Oldest() (time.Time, bool)
	// Dirty returns the hours of which samples were written more than [LateAfter] behind the
	// newest, or as imported history, and that were not cleaned since. It survives restarts.
	Dirty() (DirtyHours, error)
	// Clean says that everything derived from these hours was made again from series read
	// after Dirty was called, and is safe. Hours written since stay dirty.
	Clean(DirtyHours) error

	// Close waits for writes under way.
	Close() error
}

// Local is a store in the data directory, which a backup copies.
type Local interface {
	// Backup writes a copy to dir, which does not exist yet. It holds at least what was
	// acknowledged before the call.
	Backup(ctx context.Context, dir string) error
}

// Workload is what the catalogue knows of one workload: a summary of its series,
// all nodes and parts together.
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
	// EndedBy is who or what ended it, if not itself: user, time_limit, deadline, out_of_memory,
	// node_failure, preempted or scheduler; EndedByUser is the user who cancelled it. QOS is the
	// quality of service. Empty when nobody said.
	EndedBy, EndedByUser, QOS string

	Nodes []string
	// Submit is when it was handed in; zero when unknown.
	Submit time.Time
	// Start is the first moment the workload is known to have existed, and Seen the
	// last sample of it. End is zero while it runs. Of one that waits ([Workload.Waits]) Start
	// is when it was handed in.
	Start, Seen, End time.Time
	// Lost says that the scheduler fell silent about a run that had not ended, and no node saw its
	// end: End is then when it was last heard of.
	Lost bool
	// PreviousStarts are other starts under which the row was written before: an upsert
	// deletes those rows. They are not read back.
	PreviousStarts []time.Time
	ExitCode       *int
	// Steps are those that the batch system accounts for; an upsert with any puts them in the
	// place of all that were kept of the run. They are not read back: see [Steps].
	Steps []Step

	figure.Row
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
	IDs          []string // full ids
	Family       string   // id of an array or a heterogeneous job: itself, its tasks and components
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

// Facts is the contract of a database of facts: everything that the server keeps beside the
// series. storetest.Facts is its suite. It is safe for concurrent use.
type Facts interface {
	Catalogue
	Rollups
	Waits
	Steps
	Findings
	Forecasts
	MetricRuns

	// SetState keeps a few bytes for the builder of the catalogue under a key, and State
	// returns them, nil for an unknown key. Drop and DropSince remove all of them.
	State(ctx context.Context, key string) ([]byte, error)
	SetState(ctx context.Context, key string, value []byte) error

	// Forget removes the rows of single runs.
	Forget(ctx context.Context, runs []Run) error
	// DropSince is Drop, but keeps workloads last seen before t, and hours that began before it.
	DropSince(ctx context.Context, t time.Time) error
	// Trim removes the workloads that ended, and the hours, before the month that t lies in, and
	// returns how many workloads. Findings stay.
	Trim(ctx context.Context, t time.Time) (int, error)
}
