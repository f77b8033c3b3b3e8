package tsdb

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Series that ended leave memory early, by blocks of their own. Such a block is small, and
// there may be many in the two hours that one block of the head covers: they stay apart
// until that time is over, but for groups of a dozen, which are joined before. So each
// sample is written three times at most while its time lasts, not once a minute.
const (
	// evictEvery is the shortest time between two such blocks, unless memory asks for one.
	evictEvery = 15 * time.Minute
	// fewEnded is the number of ended series below which no block is worth its files.
	fewEnded = 4096
	// manyEnded is the number from which on memory asks for a block at once, about 25 MB of
	// them; where more series are alive it is a quarter of these.
	manyEnded = 12_288
	// joinEnded is how many small blocks of the present time are joined to one.
	joinEnded = 12
	// holdQueries is for how long a query waits for an eviction at most.
	holdQueries = 2 * time.Second
)

// evictEnded writes ended series to a block and drops them from memory, when that is due.
func (s *Store) evictEnded(db *promtsdb.DB) {
	now, ended, all := s.opts.Clock(), db.Head().NumStaleSeries(), db.Head().NumSeries()
	due := ended >= fewEnded && now.Sub(s.evicted) >= evictEvery
	if alive := all - min(ended, all); !due && ended < max(manyEnded, alive/4) {
		return
	}
	s.evicted = now
	s.evictNow(db)
}

// evictNow writes out and drops what ended.
func (s *Store) evictNow(db *promtsdb.DB) {
	// The database waits for the queries under way before it drops anything; one that begins
	// in the instant after would look for chunks that have gone. New ones wait, but not for
	// ever: a query under way may be a long one.
	s.starting.Lock()
	release := sync.OnceFunc(s.starting.Unlock)
	defer release()
	defer time.AfterFunc(holdQueries, release).Stop()
	if err := db.CompactStaleHead(); err != nil {
		s.log.Error("ended series could not be written out", "err", err)
	}
}

// compactor is the database's, with a plan of its own for blocks of ended series.
type compactor struct {
	promtsdb.Compactor
	recent func(*promtsdb.BlockMeta) bool
	newest func() int64 // of the samples in memory, milliseconds
}

func (s *Store) newCompactor(ctx context.Context, r prometheus.Registerer, l *slog.Logger, ranges []int64, pool chunkenc.Pool, o *promtsdb.Options) (promtsdb.Compactor, error) {
	c, err := promtsdb.NewLeveledCompactorWithOptions(ctx, r, l, ranges, pool, promtsdb.LeveledCompactorOptions{
		MaxBlockChunkSegmentSize: o.MaxBlockChunkSegmentSize, EnableOverlappingCompaction: true, BlockExcludeFilter: s.recentlyEnded,
	})
	return compactor{c, s.recentlyEnded, s.newest}, err
}

// newest is the time of the newest sample in memory, milliseconds; the largest number before the
// database is open.
func (s *Store) newest() int64 {
	if h := s.head.Load(); h != nil {
		return h.MaxTime()
	}
	return math.MaxInt64
}

// endedSlack is how much newer than the newest sample the end of a block of ended series is, since
// samples arrive while it is written.
const endedSlack = time.Minute

// Write writes a block of the head. One of ended series ends soon after the newest sample and not with its
// two hours: who asks what has been since then, as every step of the catalogue does, passes it by, and
// need not look through thousands of series that are over.
func (c compactor) Write(dest string, b promtsdb.BlockReader, mint, maxt int64, base *promtsdb.BlockMeta) ([]ulid.ULID, error) {
	if base != nil && base.Compaction.FromStaleSeries() {
		if newest := c.newest(); newest < maxt-endedSlack.Milliseconds() {
			maxt = max(mint+1, newest+endedSlack.Milliseconds())
		}
	}
	return c.Compactor.Write(dest, b, mint, maxt, base)
}

// recentlyEnded reports whether a block holds ended series of a time of which the head
// still has samples: more such blocks may come.
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

// Plan returns the blocks to be joined next. What the database plans comes first; it looks
// at the blocks in the order in which they were written, up to the first recent one, so
// that newer blocks wait for these, two or three hours.
func (c compactor) Plan(dir string) ([]string, error) {
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
		if m.Compaction.Level > 1 || !c.recent(&m) {
			continue
		}
		if small[m.MinTime] = append(small[m.MinTime], path); len(small[m.MinTime]) == joinEnded {
			return small[m.MinTime], nil
		}
	}
	return nil, nil
}
