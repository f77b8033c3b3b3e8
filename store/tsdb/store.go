// Package tsdb keeps series in the embedded time-series database of Prometheus (https://prometheus.io/docs/prometheus/latest/storage/): a
// write-ahead log, a head in memory, and blocks on disk that Prometheus, promtool and Thanos read.
//
// Samples that [Store.Append] has acknowledged are in the page cache of the kernel. Killing the process loses none of them, and a power
// cut at most the last seconds. Samples of a batch become visible to queries together.
//
// On opening, leftovers of an interrupted compaction are removed and a torn end of the write-ahead log is cut off. A block or a part of
// the log that fails a checksum, is cut off or is missing is left out and kept in the folder corrupt/. The time range of the missing
// samples is logged, stored ([Store.Gaps]) and added as a warning to each query of that time. No readable data is deleted. One process at
// a time may open a directory.
//
// A Store is safe for concurrent use. Internal times are milliseconds since the Unix epoch; values are stored unchanged.
package tsdb

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/compression"

	"reckon/figure/format"
	"reckon/internal/dirty"
	"reckon/internal/durable/block"
	"reckon/store"
)

// Options configures the storage of series. The zero value of each field but Dir is a good choice for one node.
type Options struct {
	// Dir is the directory, made if it is not there.
	Dir string
	// Retention is for how long samples are kept; 0 is 90 days, below 0 forever.
	Retention time.Duration
	// MaxBytes bounds the blocks on disk: the oldest go first. 0 is no bound.
	MaxBytes int64
	// Beside returns the bytes that something else takes of MaxBytes; nil is none.
	Beside func() int64
	// OutOfOrder is the maximum age of a sample relative to the newest one of the store; 0 is 24 h, below 0 none.
	OutOfOrder time.Duration
	// Ahead is the time that a sample may be ahead of the clock; 0 means 10 min, a negative value no
	// limit. Otherwise one node with a wrong clock would make the samples of all others too old.
	Ahead time.Duration
	// Reserve is the free disk space in bytes below which samples are refused, before the
	// write-ahead log is torn. 0 means 32 MiB, a negative value no reserve.
	Reserve int64
	// Series is the number of live series that are expected; 0 is a few thousand. It sizes tables only and bounds nothing.
	Series int
	// Stuck returns the number of abandoned queries that still compute; it may be nil. Data that
	// they may read stays in memory and on disk meanwhile.
	Stuck func() int
	// Logger receives other events; nil discards them.
	Logger *slog.Logger
	// Clock is time.Now unless a test states otherwise.
	Clock func() time.Time
}

// blockRange is the time range of one block of the head. A new series may begin up to half of it in the past without being out of order.
const blockRange = 2 * time.Hour

func (o *Options) defaults() {
	pick := func(v *time.Duration, def time.Duration) {
		switch {
		case *v == 0:
			*v = def
		case *v < 0:
			*v = 0
		}
	}
	pick(&o.Retention, store.DefaultRetention)
	pick(&o.OutOfOrder, 24*time.Hour)
	if o.Ahead == 0 {
		o.Ahead = 10 * time.Minute
	}
	if o.Reserve == 0 {
		o.Reserve = 32 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

// Store is a time-series database in a directory.
type Store struct {
	opts Options
	log  *slog.Logger
	lock *dirLock
	meta metadataTable

	gate gate         // guards db: uses enter it, repair and Close shut it
	db   *promtsdb.DB // nil while a repair has not succeeded
	wal  *promtsdb.DBStats
	own  *prometheus.Registry // the database's metrics; a new one for each opening
	torn atomic.Bool          // the write-ahead log failed; nothing may be written before a repair
	ooo  atomic.Int64         // out-of-order window in force, milliseconds
	stop chan struct{}        // ends the janitor
	done sync.WaitGroup

	bulk       atomic.Bool   // see StartBulk
	generation atomic.Uint64 // how often the database was opened

	tenantsMu sync.Mutex
	tenants   map[uint64][]*tenant

	replay   atomic.Int64 // nanoseconds that opening took
	size     int          // series in memory as noted; see noteSize
	appended atomic.Uint64
	refused  atomic.Uint64
	dirty    *dirty.Hours
	recent   recentAppends
	imported importedSet
	born     blockTimes
	manifest manifest
	gaps     gaps
	// suspected means that a query could not read an index.
	suspected chan struct{}

	aside    blockCollector
	head     atomic.Pointer[promtsdb.Head] // of db
	starting sync.RWMutex                  // locked while no query may begin
	queries  atomic.Int64                  // under way
	evicted  time.Time                     // when ended series last left memory; the janitor's
	evictMu  sync.Mutex                    // held by the eviction under way
	noRoom   bool                          // the last one found the disk full
	evicting int64                         // the newest sample when it began
	held     bool                          // it has locked starting
	noted    map[string]int64              // sizes of the logs as last noted; the janitor's
	lost     bool                          // parts of the log were lost when it was opened
}

var (
	_ store.Series = (*Store)(nil)
	_ store.Local  = (*Store)(nil)
)

// Open opens the store in o.Dir and repairs the results of an unclean shutdown.
func Open(o Options) (*Store, error) {
	o.defaults()
	if o.Dir == "" {
		return nil, errors.New("open series store: no directory given")
	}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("open series store: %w", err)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open series store: %w", err)
	}
	killed := lock.died
	s := &Store{opts: o, log: o.Logger, lock: lock, stop: make(chan struct{}), suspected: make(chan struct{}, 1),
		tenants: map[uint64][]*tenant{}}
	s.gate.init()
	s.dirty = dirty.New(dirty.File(filepath.Join(s.opts.Dir, dirtyFile)))
	s.meta.load(filepath.Join(o.Dir, "metadata.json"), s.log)
	if err := s.checkFiles(); err != nil {
		lock.release()
		return nil, fmt.Errorf("open series store: %w", err)
	}
	if err := s.makeRoom(); err != nil {
		lock.release()
		return nil, fmt.Errorf("open series store: %w", err)
	}
	if err := s.openDB(lock.died); err != nil {
		lock.release()
		return nil, fmt.Errorf("open series store %s: %w", o.Dir, err)
	}
	if killed {
		s.reportKill()
	}
	s.keepBallast()
	s.noteOpen(s.db)
	s.done.Add(1)
	go s.janitor()
	return s, nil
}

// reportKill logs the time without samples after a kill, because a lost end of the log cannot be detected.
func (s *Store) reportKill() {
	_, newest := extent(s.db)
	now := s.opts.Clock()
	if last := time.UnixMilli(newest); newest > math.MinInt64 && last.Before(now) {
		s.log.Warn(
			"the program that had the series open was killed, or the machine lost power: samples of this time were not taken, or are lost",
			"from", formatTime(last), "to", formatTime(now))
	}
}

// maxExemplars is the number of exemplars in memory, at about 100 bytes each. New ones replace the oldest.
const maxExemplars = 20_000

func (s *Store) dbOptions() *promtsdb.Options {
	o := promtsdb.DefaultOptions()
	o.NoLockfile = true // our lock is the same file, and reports which process holds it
	o.RetentionDuration = s.opts.Retention.Milliseconds()
	o.MaxBytes = s.opts.MaxBytes
	o.OutOfOrderTimeWindow = s.opts.OutOfOrder.Milliseconds()
	o.WALCompression = compression.Snappy
	o.MinBlockDuration = blockRange.Milliseconds()
	o.MaxBlockDuration = min(31*24*time.Hour, max(blockRange, s.opts.Retention/10)).Milliseconds()
	if s.opts.Retention == 0 {
		o.MaxBlockDuration = (31 * 24 * time.Hour).Milliseconds()
	}
	o.WALReplayConcurrency = min(4, runtime.GOMAXPROCS(0))
	o.BlocksToDelete = s.blocksToDelete
	o.NewCompactorFunc = s.newCompactor
	o.BlockQuerierFunc = s.blockQuerier
	// Sized for thousands of series: a node with few must not pay for a fleet.
	o.WALSegmentSize = 16 << 20
	o.HeadChunksWriteBufferSize = 64 << 10
	o.MaxBlockChunkSegmentSize = block.SegmentBytes // it is taken on disk before it is filled
	o.EnableExemplarStorage, o.MaxExemplars = true, maxExemplars
	o.StripeSize = stripeCount(max(s.opts.Series, s.size))
	if s.opts.Series > 1_000_000 {
		o.WALSegmentSize = 128 << 20
		o.HeadChunksWriteBufferSize = 4 << 20
		o.MaxBlockChunkSegmentSize = 8 * block.SegmentBytes
	}
	return o
}

// closeWait is the time that Close waits for running appends and queries. With all other steps, stopping the server
// takes less than 20 s.
const closeWait = 8 * time.Second

// Close waits up to 8 s for running appends and queries and then closes the store. If some still run, Close only writes
// the logs. The database then stays open until the process ends, because they read mapped memory.
func (s *Store) Close() error {
	first, inside := s.gate.close(closeWait)
	if !first {
		return nil
	}
	close(s.stop)
	if inside == 0 {
		s.done.Wait()
	} else {
		s.log.Error("queries or writes do not end; the series are safe and are closed without them", "under way", inside)
	}
	err := s.meta.save()
	if s.db != nil {
		s.noteSize(s.db)
		_, newest := extent(s.db)
		oldestOOO := s.db.Head().MinOOOTime()
		var closed error
		if inside == 0 {
			closed = s.db.Close()
		} else {
			closed = syncLogs(s.opts.Dir)
		}
		err = errors.Join(err, closed)
		if noted := s.noteLogs(newest, oldestOOO, false); closed == nil && noted != nil {
			s.log.Warn("what the logs are could not be noted: one that is cut off now is not noticed", "err", noted)
		}
	}
	return errors.Join(err, s.lock.release())
}

// InUse reports whether the store was closed during queries or writes that may still read it.
func (s *Store) InUse() bool {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	return s.gate.closed && s.gate.users > 0
}

// repair reopens the database after a write to the log has failed, as soon as the disk has space. It does not wait for
// queries. If a query runs, repair does nothing.
func (s *Store) repair() error {
	if free, err := freeBytes(s.opts.Dir); err == nil && free < 1<<20 {
		return fmt.Errorf("%w: %s free on the disk of %s; free space, or lower the retention", store.ErrFull, format.Bytes(float64(free)),
			s.opts.Dir)
	}
	if !s.gate.tryShut() {
		return fmt.Errorf("%w: %s: the write-ahead log could not be written; it is repaired when the queries under way have ended",
			store.ErrDamaged, s.opts.Dir)
	}
	defer s.gate.open()
	if !s.torn.Load() {
		return nil // another goroutine was faster
	}
	if s.db != nil {
		if err := s.db.Close(); err != nil {
			s.log.Warn("closing the database before its repair", "err", err)
		}
		s.db = nil
	}
	s.tenantsMu.Lock()
	clear(s.tenants) // series have other references after the repair
	s.tenantsMu.Unlock()
	if err := s.openDB(true); err != nil {
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	s.torn.Store(false)
	s.log.Info("series store repaired", "dir", s.opts.Dir)
	return nil
}

// acquire enters the gate. It returns the database and the function to call afterwards.
func (s *Store) acquire() (*promtsdb.DB, error) {
	if err := s.gate.acquire(); err != nil {
		return nil, err
	}
	if s.db == nil {
		s.gate.release()
		return nil, fmt.Errorf("%w: %s", store.ErrDamaged, s.opts.Dir)
	}
	return s.db, nil
}
