package tsdb

import (
	"io/fs"
	"math"
	"path/filepath"
	"time"

	promtsdb "github.com/prometheus/prometheus/tsdb"
)

// Status are the figures of a store.
type Status struct {
	// Series are the series in memory, Stale the ones that ended.
	Series, Stale uint64
	// Appended and Refused count samples since opening.
	Appended, Refused uint64
	// Blocks is the number of blocks on disk.
	Blocks int
	// Bytes is the size of the directory on disk, log and blocks together.
	Bytes int64
	// Oldest and Newest are the times of the first and last sample; zero when empty.
	Oldest, Newest time.Time
	// Replay is the time that opening took, which is reading the write-ahead log.
	Replay time.Duration
	// Torn means that the store waits for its repair after a failed write.
	Torn bool
}

// Status returns the current state of the store. It walks the directory, so call it every few seconds at most.
func (s *Store) Status() (Status, error) {
	st := Status{
		Appended: s.appended.Load(), Refused: s.refused.Load(),
		Replay: time.Duration(s.replay.Load()), Torn: s.torn.Load(),
	}
	db, err := s.acquire()
	if err != nil {
		return st, err
	}
	defer s.gate.release()
	h := db.Head()
	st.Series, st.Stale = h.NumSeries(), h.NumStaleSeries()
	st.Blocks = len(db.BlockMetas())
	oldest, newest := extent(db)
	if newest != math.MinInt64 {
		st.Oldest, st.Newest = time.UnixMilli(oldest), time.UnixMilli(newest)
	}
	st.Bytes, err = dirBytes(s.opts.Dir)
	return st, err
}

// Ready reports whether samples can be taken, for a health check.
func (s *Store) Ready() error {
	if _, err := s.acquire(); err != nil {
		return err
	}
	s.gate.release()
	return nil
}

func dirBytes(dir string) (int64, error) {
	var n int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // a file that a compaction removes meanwhile counts nothing
		}
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n, err
}

// Oldest returns the time of the oldest sample, and false if there is none.
func (s *Store) Oldest() (time.Time, bool) {
	db, err := s.acquire()
	if err != nil {
		return time.Time{}, false
	}
	defer s.gate.release()
	oldest, newest := extent(db)
	return time.UnixMilli(oldest), newest != math.MinInt64
}

// extent returns the times of the oldest and newest sample; newest is math.MinInt64 if there is none.
func extent(db *promtsdb.DB) (oldest, newest int64) {
	h := db.Head()
	oldest, newest = h.MinTime(), h.MaxTime()
	if ooo := h.MinOOOTime(); ooo != math.MaxInt64 {
		oldest = min(oldest, ooo)
	}
	for _, m := range db.BlockMetas() {
		oldest, newest = min(oldest, m.MinTime), max(newest, m.MaxTime-1)
	}
	return oldest, newest
}

// LogBytes returns the size of the write-ahead logs on disk.
func (s *Store) LogBytes() (n int64) {
	for _, name := range []string{"wal", "wbl"} {
		if bytes, err := dirBytes(filepath.Join(s.opts.Dir, name)); err == nil {
			n += bytes
		}
	}
	return n
}

// LiveSeries returns the number of series that are in memory, those that ended and wait to leave it included.
func (s *Store) LiveSeries() int {
	if h := s.head.Load(); h != nil {
		return int(h.NumSeries())
	}
	return 0
}
