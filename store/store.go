// Package store is the contract of the storage layer: a time-series store for samples,
// and a catalogue for facts about workloads.
//
// A store does not interpret the numbers. Its implementations are in the folders below
// and pass the suites of store/storetest; consumers see only this package and the
// interfaces of github.com/prometheus/prometheus/storage that it embeds.
package store

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"

	"reckon/figure"
	"reckon/metric"
)

// Default retention.
const (
	// DefaultRetention is the retention of samples.
	DefaultRetention = 90 * 24 * time.Hour
	// DefaultHourlyRetention is the retention of hourly values.
	DefaultHourlyRetention = 5 * 365 * 24 * time.Hour
)

// Writer accepts samples.
type Writer interface {
	// Append stores a batch with the given external labels, such as site and node. It is safe for
	// concurrent use for different nodes. The error names samples that could not be stored; the
	// others are stored. Appending the same batch twice stores it once.
	Append(ctx context.Context, external map[string]string, b *metric.Batch) error
}

// Series is a local or remote time series store. It has all methods that the server requires. [Reachable], [Local], and
// interfaces that importers and status pages declare are optional, and found by type assertion. storetest.Series tests
// an implementation. It is safe for concurrent use. Every method except Close may return ErrClosed or [ErrUnavailable].
type Series interface {
	Writer
	storage.SampleAndChunkQueryable
	// ExemplarQuerier returns nothing in a store that keeps no exemplars.
	storage.ExemplarQueryable
	// AppendableV2 is for rules, scraping and remote write.
	storage.AppendableV2

	// Describe stores the description of a metric. Metadata returns all descriptions by metric
	// name; the map belongs to the caller.
	Describe(name string, m metadata.Metadata) error
	Metadata() map[string]metadata.Metadata
	// Ready returns an error with the reason if samples cannot be written and queried at present; nil if they can.
	Ready() error

	// Oldest returns a time before which there are no samples; false for an empty store.
	Oldest() (time.Time, bool)
	// Dirty returns the hours that received imported history, or samples more than [LateAfter]
	// behind the newest, and were not cleaned since. It survives restarts.
	Dirty() (DirtyHours, error)
	// Clean confirms that all data derived from these hours was recomputed from series read after
	// the call of Dirty, and is durable. Hours written since remain dirty.
	Clean(DirtyHours) error

	// Close waits for writes under way.
	Close() error
}

// Local is a store in the data directory, which a backup copies.
type Local interface {
	// Backup writes a copy to dir, which must not exist yet. It holds at least the
	// samples acknowledged before the call.
	Backup(ctx context.Context, dir string) error
}

// Workload is the catalogue row of one workload, which summarizes its series over all nodes and parts.
type Workload = figure.Run

// Share is the part of a user in a process group of several.
type Share = figure.Share

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
	Running      *bool     // false selects ended and pending workloads
	Accounts     []string
	Partitions   []string
	States       []string
	Sites        []string
	Command      string // shell pattern on the program's name
	Within       bool   // only workloads that began at or after Since and ended before Until; running ones end in 1<<53-1 ms

	Sort   string // a field in snake_case as in the HTTP API; prefix "-" for descending
	Limit  int    // 0 is unlimited
	Offset int
}

// RunQuery selects runs and their fields. It ignores ids, family, order and limit of the filter.
type RunQuery struct {
	Filter  Filter
	Figures []string // keys
	// Held excludes runs without allocated or requested cores if that saves time, because a machine
	// with many short commands has few runs with them.
	Held bool
}

// Run identifies one start-to-end run of a workload id. A zero Start stands for all runs of the id.
type Run struct {
	Site, ID string
	Start    time.Time
}

// Catalogue stores facts about workloads. They are derived from the series, so a catalogue can be dropped and rebuilt.
// It is safe for concurrent use.
type Catalogue interface {
	// Upsert writes rows, each replacing the stored row of the workload.
	Upsert(ctx context.Context, rows []Workload) error
	// Workloads returns the workloads that the filter selects, and their number without the limit.
	Workloads(ctx context.Context, f Filter) ([]Workload, int, error)
	// Watermark is the time up to which the series have been processed; zero if they never were.
	Watermark(ctx context.Context) (time.Time, error)
	SetWatermark(ctx context.Context, t time.Time) error
	// Drop empties the catalogue, to be rebuilt.
	Drop(ctx context.Context) error
	Close() error
}

// EndedGroups are process groups of an owner on the same nodes, summed up.
type EndedGroups struct {
	Site, Owner string
	Nodes       []string
	Count       int
	CPUSeconds  float64   // CPU time of the jobs for which it is known
	WallSeconds float64   // run times, added up
	First, Last time.Time // the first start and the last end
}

// GroupMinimum is the minimum age or use of a listed process group.
type GroupMinimum struct {
	// Ran is for how long it ran until it ended or, if it runs, until now.
	Ran time.Duration
	// CPUSeconds and MemoryPeakBytes are alternative minimums; a workload that used a GPU needs
	// neither. Unmeasured use counts as large.
	CPUSeconds, MemoryPeakBytes float64
}

// Facts is a database that stores everything except the series. storetest.Facts tests an implementation. It is safe for
// concurrent use.
type Facts interface {
	Catalogue
	Rollups
	Waits
	Steps
	Findings
	Forecasts
	MetricRuns

	// SetState stores a few bytes for the catalogue builder under a key, and State returns them, or
	// nil for an unknown key. Drop and DropSince remove all of them.
	State(ctx context.Context, key string) ([]byte, error)
	SetState(ctx context.Context, key string, value []byte) error

	// Lasting returns the workloads that existed in [since, until), latest start first; a zero
	// until is open. It includes only process groups that reach the minimum in groups, because a
	// machine that builds programs has thousands of others an hour.
	Lasting(ctx context.Context, since, until, now time.Time, groups GroupMinimum) ([]Workload, error)
	// EachRun calls next for the selected runs in no order. Only these fields are set: site, kind, name, owner, account, partition,
	// command, state, QOS, nodes, times, exactness and the figures of the query. The run and its references are reused after next
	// returns. A million runs take some tenths of a second. next must not use the store.
	EachRun(ctx context.Context, q RunQuery, next func(*Workload)) error
	// Passed sums up the process groups that existed between two times and ended in less than group, by site, owner and nodes.
	Passed(ctx context.Context, since, until time.Time, group time.Duration) ([]EndedGroups, error)

	// Forget removes the rows of single runs.
	Forget(ctx context.Context, runs []Run) error
	// DropSince is Drop, but keeps workloads last seen before t, and hours that began before it.
	DropSince(ctx context.Context, t time.Time) error
	// Trim removes ended workloads and hours from before the month of t, and returns the number of
	// removed workloads. It keeps findings.
	Trim(ctx context.Context, t time.Time) (int, error)
}
