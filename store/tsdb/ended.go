package tsdb

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/store"
)

// Series that have ended are removed from memory early and written to separate blocks. Such a block is small, and there
// may be many in the two hours that a head block covers. They stay separate until these two hours are over, unless
// there are so many that a dozen is joined. Each sample is thus written to a block once within the two hours, or twice
// with hundreds of thousands of ended series. It is written once more with the block of the two hours.
const (
	// minEvictInterval is the shortest time between two such blocks, unless memory is short.
	minEvictInterval = 15 * time.Minute
	// minEndedSeries is the number of ended series below which a block is not worth its files.
	minEndedSeries = 4096
	// maxEndedSeries is the number of ended series, about 16 MB, at which memory requires a block at once. If more series
	// than that are alive, the limit is a quarter of the live ones.
	maxEndedSeries = 8192
	// maxEndedBlocks is the maximum number of small blocks for the current two hours. Each has one or two megabytes. If
	// there are more, the oldest joinedEndedBlocks blocks are joined.
	maxEndedBlocks    = 48
	joinedEndedBlocks = 12
	// maxQueryPause is the longest time that new queries wait for an eviction. If running queries take longer, the
	// eviction is tried again after pauseRetryInterval, up to maxPauseTries times.
	maxQueryPause      = 2 * time.Second
	pauseRetryInterval = 5 * time.Second
	maxPauseTries      = 12
)

// evictEnded writes ended series to a block when due, and drops them from memory.
func (s *Store) evictEnded(db *promtsdb.DB) {
	if s.hasAbandoned() {
		return
	}
	now, ended, all := s.opts.Clock(), db.Head().NumStaleSeries(), db.Head().NumSeries()
	due := ended >= minEndedSeries && now.Sub(s.evicted) >= minEvictInterval
	if s.noRoom && now.Sub(s.evicted) < minEvictInterval {
		return
	}
	if alive := all - min(ended, all); !due && ended < max(maxEndedSeries, alive/4) {
		return
	}
	if s.evictNow(db) {
		s.evicted = now
		s.unmapEnded(db)
	}
}

// Evict writes ended series to a block now, as the store does by itself when there are many.
func (s *Store) Evict() error {
	db, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.gate.release()
	if !s.evictNow(db) {
		return errBusy
	}
	return nil
}

// evictNow writes and drops ended series. It returns false if it must be retried.
func (s *Store) evictNow(db *promtsdb.DB) (done bool) {
	s.evictMu.Lock()
	defer s.evictMu.Unlock()
	s.evicting = db.Head().MaxTime()
	defer s.resumeQueries()
	err := db.CompactStaleHead()
	switch {
	case errors.Is(err, errBusy):
		s.log.Debug("ended series stay in memory until the queries under way have ended", "err", err)
		return false
	case isDiskFull(err):
		if !s.noRoom {
			s.log.Error("series that ended stay in memory until the disk has room; logged once", "err", diskFullError(s.opts.Dir, err))
		}
		s.noRoom = true
		return true
	case err != nil:
		s.log.Error("ended series could not be written out", "err", err)
	}
	s.noRoom = false
	return true
}

var errStuck = errors.New("a query does not end: nothing that it may read leaves memory or the disk until the server is restarted")

// hasAbandoned reports whether abandoned queries still compute.
func (s *Store) hasAbandoned() bool { return s.opts.Stuck != nil && s.opts.Stuck() > 0 }

var errBusy = errors.New("queries under way take longer than an eviction waits for them")

// pauseQueries blocks new queries and waits until no query runs. A query that began while the database removes series from memory would
// look for chunks that no longer exist. Queries stay blocked until [Store.resumeQueries]. If running queries take longer than
// maxQueryPause, pauseQueries lets new queries run and tries again later. It returns an error after maxPauseTries attempts.
func (s *Store) pauseQueries() error {
	if s.held {
		return nil
	}
	for range maxPauseTries {
		s.starting.Lock()
		for wait := time.Duration(0); wait < maxQueryPause && !s.gate.isClosing(); wait += maxQueryPause / 200 {
			if s.queries.Load() == 0 {
				s.held = true
				return nil
			}
			time.Sleep(maxQueryPause / 200)
		}
		s.starting.Unlock()
		for wait := time.Duration(0); wait < pauseRetryInterval && !s.gate.isClosing(); wait += pauseRetryInterval / 20 {
			time.Sleep(pauseRetryInterval / 20)
		}
		if s.gate.isClosing() {
			return store.ErrClosed
		}
	}
	return errBusy
}

// notEvicting is the newest sample while no eviction is under way.
const notEvicting = 0

// resumeQueries allows queries to begin again.
func (s *Store) resumeQueries() {
	s.evicting = notEvicting
	if s.held {
		s.held = false
		s.starting.Unlock()
	}
}

// compactor is the compactor of the database. Its plan also includes blocks of ended series.
type compactor struct {
	promtsdb.Compactor
	s *Store
}

func (s *Store) newCompactor(ctx context.Context, r prometheus.Registerer, l *slog.Logger, ranges []int64, pool chunkenc.Pool,
	o *promtsdb.Options) (promtsdb.Compactor, error) {
	c, err := promtsdb.NewLeveledCompactorWithOptions(ctx, r, l, ranges, pool, promtsdb.LeveledCompactorOptions{
		MaxBlockChunkSegmentSize: o.MaxBlockChunkSegmentSize, EnableOverlappingCompaction: true, BlockExcludeFilter: s.recentlyEnded,
	})
	return compactor{c, s}, err
}

// newestTime returns the time of the newest sample in memory, milliseconds; the largest number before the database is open.
func (s *Store) newestTime() int64 {
	if h := s.head.Load(); h != nil {
		return h.MaxTime()
	}
	return math.MaxInt64
}

// Write writes the samples of b from mint to maxt into a block in the directory dest, and returns the id of the block. If
// base marks a block of ended series, the block ends with its newest sample instead of at maxt, so that queries for later
// times skip its thousands of series. A series that has new samples stays in memory. The database removes the others from
// memory after the last block; see [Store.pauseQueries].
func (c compactor) Write(dest string, b promtsdb.BlockReader, mint, maxt int64, base *promtsdb.BlockMeta) ([]ulid.ULID, error) {
	if c.s.hasAbandoned() { // the database would wait for its readers for ever when the block is written
		return nil, errStuck
	}
	if base == nil || !base.Compaction.FromStaleSeries() {
		return c.Compactor.Write(dest, b, mint, maxt, base)
	}
	end := maxt
	if newest := c.s.newestTime(); newest < maxt {
		end = max(mint, newest) + 1
	}
	ids, err := c.Compactor.Write(dest, b, mint, end, base)
	if err != nil || c.s.evicting == notEvicting || maxt <= c.s.evicting {
		return ids, err
	}
	if err := c.s.pauseQueries(); err != nil {
		for _, id := range ids {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dest, id.String())))
		}
		return nil, err
	}
	return ids, nil
}

// recentlyEnded reports whether a block holds ended series from a time that the head still covers. More such blocks may come.
func (s *Store) recentlyEnded(m *promtsdb.BlockMeta) bool {
	if !m.Compaction.FromStaleSeries() {
		return false
	}
	headFrom := int64(math.MinInt64) // not known before the database is open: none is joined
	if h := s.head.Load(); h != nil {
		headFrom = h.MinTime()
	}
	return m.MaxTime > headFrom
}

// Plan returns the blocks to compact next. It uses the plan of the database if that is not empty. Otherwise it returns
// small blocks of ended series. The database considers blocks in order of writing up to the first recent one, so its
// plan would not include them for two or three hours.
func (c compactor) Plan(dir string) ([]string, error) {
	if c.s.hasAbandoned() {
		return nil, nil
	}
	plan, err := c.Compactor.Plan(dir)
	if err != nil || len(plan) > 0 {
		return plan, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	small := map[int64][]string{} // by the begin of their time
	for _, e := range entries {
		if _, err := ulid.ParseStrict(e.Name()); err != nil {
			continue
		}
		path := filepath.Join(dir, e.Name())
		var m promtsdb.BlockMeta
		raw, err := os.ReadFile(filepath.Join(path, "meta.json"))
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil {
			return nil, err
		}
		if m.Compaction.Level > 1 || !c.s.recentlyEnded(&m) {
			continue
		}
		if small[m.MinTime] = append(small[m.MinTime], path); len(small[m.MinTime]) > maxEndedBlocks {
			return small[m.MinTime][:joinedEndedBlocks], nil
		}
	}
	return nil, nil
}
