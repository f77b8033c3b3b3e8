// Package hourly keeps one value per hour of every series for years, beside a store that keeps all
// samples for weeks.
//
// Once a day is over and its samples are in blocks, it reads the day and writes the reduced samples
// to a block of the Prometheus time-series database
// (https://prometheus.io/docs/prometheus/latest/storage/) in a directory of its own. For a counter
// that is the last sample of each hour, both samples around each reset and the first of each run,
// so that differences are preserved; for a gauge the mean over the hour; for dates and facts the
// last sample. Blocks are compacted into larger ones as they age: a day, 8 days, 64 days. No two
// blocks contain the same day.
//
// Backfilled and imported samples are detected by the origins of the blocks of the store
// ([store.Origin]); the days that they cover are computed again, and hours that the store has
// deleted since are kept. A crash loses nothing, because a block gets its name when it is complete,
// and the list of days to compute is written first.
//
// [Store.Querier] reads both as one. It uses the hourly values if steps and ranges are hours or
// longer, and where the store no longer has samples; the answer then carries an info annotation of
// the Prometheus API. Without queries nothing runs and nearly nothing is in memory: blocks are
// mapped files.
//
// A Store is safe for concurrent use. Internal times are milliseconds since the Unix epoch, days
// and hours are in UTC. The directory belongs to the process that has the store open.
package hourly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"

	"reckon/store"
)

// Raw is a store that keeps all samples, as store/tsdb does.
type Raw interface {
	storage.SampleAndChunkQueryable
	// Metadata describes metrics by their names.
	Metadata() map[string]metadata.Metadata
	// Origins returns the origins of the samples on disk.
	Origins() ([]store.Origin, error)
	// Sealed returns the time before which all in-order samples are included in the origins.
	Sealed() (time.Time, bool)
	// Oldest returns the time of the oldest sample, Since the time from which all received samples
	// are present. Imported samples may be older.
	Oldest() (time.Time, bool)
	Since() (time.Time, bool)
}

// Options configure a Store.
type Options struct {
	Dir string // created if it does not exist
	Raw Raw
	// Stuck returns the number of abandoned queries that still compute; it may be nil. No pass runs
	// meanwhile, because it has to wait for the readers of the blocks that it replaces.
	Stuck func() int
	// Retention is the time that hours are kept; 0 is for ever.
	Retention time.Duration
	// MaxBytes limits their size on disk: the oldest are removed first. 0 is no limit.
	MaxBytes int64
	// Reserve is the free disk space in bytes below which nothing is written; 0 means 64 MiB, and a
	// negative value disables the check.
	Reserve int64
	// Logger receives log messages; nil discards them.
	Logger *slog.Logger
	// Clock is time.Now by default; tests replace it.
	Clock func() time.Time
}

// Store keeps hourly values.
type Store struct {
	opts Options
	log  *slog.Logger
	raw  Raw

	ladder  []int64 // lengths of compacted blocks, the longest first
	settled int64   // how long blocks of a day are left alone: samples come late

	making sync.Mutex // one pass, or backup, at a time
	blocks blocks

	mu    sync.RWMutex
	state state
}

// Open opens the directory and repairs the results of an unclean shutdown.
func Open(o Options) (*Store, error) {
	if o.Dir == "" || o.Raw == nil {
		return nil, errors.New("open the store of hours: no directory or no store given")
	}
	if o.Reserve == 0 {
		o.Reserve = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("open the store of hours: %w", err)
	}
	s := &Store{opts: o, log: o.Logger, raw: o.Raw, ladder: []int64{64 * day, 8 * day}, settled: 8 * day}
	var found bool
	s.state, found = loadState(o.Dir, s.log)
	lost, err := s.blocks.open(o.Dir, s.state.Blocks, o.Clock())
	if err != nil {
		return nil, fmt.Errorf("open the store of hours: %w", err)
	}
	lost = slices.DeleteFunc(lost, func(g store.Gap) bool { // after a crash while old blocks were removed
		return g.Kept == "" && o.Retention > 0 && g.To.UnixMilli() <= s.state.Through-o.Retention.Milliseconds()
	})
	if !found && len(s.blocks.all()) > 0 {
		s.log.Warn(
			"the progress of the hourly store is missing; hours are rebuilt from the existing samples, and a block that is missing now "+
				"is not noticed", "file", filepath.Join(o.Dir, stateFile))
	} else if was := loadExtent(o.Dir); !found && was.From < was.To {
		lost = append(lost, store.Gap{From: time.UnixMilli(was.From), To: time.UnixMilli(was.To), File: filepath.Base(o.Dir),
			Why: "it is missing", Noticed: o.Clock()})
	}
	for _, gap := range lost {
		s.log.Error("hourly values are damaged and are rebuilt where samples exist", "file", gap.File, "why", gap.Why,
			"from", gap.From.UTC().Format(time.RFC3339), "to", gap.To.UTC().Format(time.RFC3339), "kept", gap.Kept)
	}
	if len(lost) > 0 {
		s.state.Known = nil // compute the days of the gap that the store still has again
		if err := s.saveState(func(n *state) { n.Gaps = append(slices.Clone(n.Gaps), lost...) }); err != nil {
			s.log.Warn("could not save the list of missing hours", "err", err)
		}
	}
	if s.state.Through == 0 && len(s.blocks.all()) > 0 {
		s.state.Lost = true
	}
	return s, nil
}

// Gaps returns the hours in a time range that were lost through file damage and cannot be computed again, because they
// precede the first samples of the store.
func (s *Store) Gaps(from, to time.Time) (out []store.Gap) {
	s.mu.RLock()
	gaps := s.state.Gaps
	s.mu.RUnlock()
	if len(gaps) == 0 {
		return nil
	}
	gone := s.lostBefore()
	for _, g := range gaps {
		if g.To.UnixMilli() > gone {
			g.To = time.UnixMilli(gone)
		}
		if g.From.Before(g.To) && g.From.Before(to) && g.To.After(from) {
			out = append(out, g)
		}
	}
	return out
}

// Close waits for readers. Before, the caller must end a running [Store.Pass] by its context.
func (s *Store) Close() error {
	s.making.Lock()
	defer s.making.Unlock()
	return s.blocks.close()
}

const (
	firstPass = 2 * time.Minute
	passEvery = time.Hour
)

// Run computes the hours of each past day, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	return store.Repeat(ctx, firstPass, passEvery, 0, func(ctx context.Context) error {
		if s.opts.Stuck != nil && s.opts.Stuck() > 0 {
			return nil
		}
		return s.Pass(ctx)
	}, func(err error) {
		s.log.Error("hours of past days could not be made; it is tried again every hour", "err", err)
	})
}

// Through returns the end of the last computed hour; zero if there are none.
func (s *Store) Through() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state.Through == 0 {
		return time.Time{}
	}
	return time.UnixMilli(s.state.Through)
}

// Bytes returns the size of the blocks on disk.
func (s *Store) Bytes() int64 { return s.blocks.totalBytes() }

// Oldest returns the beginning of the oldest day, and false if there is none.
func (s *Store) Oldest() (day time.Time, ok bool) {
	t, ok := s.blocks.oldest()
	return time.UnixMilli(t), ok
}
