package tsdb

import (
	"math"
	"path/filepath"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/config"
	promtsdb "github.com/prometheus/prometheus/tsdb"
)

const (
	janitorEvery = time.Minute
	idleTenant   = 30 * time.Minute
)

// janitor runs until Close. Series that ended leave memory, see [Store.evictEnded]; blocks
// not checked at opening are checked one at a time.
func (s *Store) janitor() {
	defer s.done.Done()
	tick := time.NewTicker(janitorEvery)
	defer tick.Stop()
	checked := map[ulid.ULID]bool{}
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		s.dropIdle(idleTenant)
		db, err := s.use()
		if err != nil {
			continue
		}
		s.evictEnded(db)
		s.verifyOne(db, checked)
		s.gate.leave()
	}
}

// verifyOne checks the chunks of one block that was not checked before.
func (s *Store) verifyOne(db *promtsdb.DB, checked map[ulid.ULID]bool) {
	for _, m := range db.BlockMetas() {
		if checked[m.ULID] {
			continue
		}
		checked[m.ULID] = true
		name := m.ULID.String()
		if _, err := verifyChunks(filepath.Join(s.opts.Dir, name)); err != nil && unreadable(err) && exists(filepath.Join(s.opts.Dir, name)) {
			// The database forgets the block when it looks at its directory next, within a minute.
			if err := setAside(s.opts.Dir, name, err, s.log); err != nil {
				s.log.Error("corrupt block could not be moved aside", "block", name, "err", err)
			}
		}
		return
	}
}

// blocksToDelete applies retention by age and by size, and deletes what a larger
// block has replaced. Age is measured against the newest sample or the clock,
// whichever is older: neither a clock that jumped nor a sample from the future may
// throw history away. What was imported is spared by age.
func (s *Store) blocksToDelete(blocks []*promtsdb.Block) map[ulid.ULID]struct{} {
	s.born.see(blocks)
	out := map[ulid.ULID]struct{}{}
	newest, bytes := int64(math.MinInt64), int64(0)
	if s.opts.Beside != nil {
		bytes = s.opts.Beside()
	}
	for _, b := range blocks {
		m := b.Meta()
		newest = max(newest, m.MaxTime)
		if m.Compaction.Deletable {
			out[m.ULID] = struct{}{}
			continue
		}
		bytes += b.Size()
	}
	if s.opts.Retention > 0 {
		limit := min(newest, s.opts.Clock().UnixMilli()) - s.opts.Retention.Milliseconds()
		for _, b := range blocks {
			if _, gone := out[b.Meta().ULID]; !gone && b.Meta().MaxTime < limit && !s.imported.holds(s.opts.Dir, b.Meta()) {
				out[b.Meta().ULID] = struct{}{}
				bytes -= b.Size()
			}
		}
	}
	for s.opts.MaxBytes > 0 && bytes > s.opts.MaxBytes {
		var oldest *promtsdb.Block
		for _, b := range blocks {
			if _, gone := out[b.Meta().ULID]; !gone && (oldest == nil || b.Meta().MaxTime < oldest.Meta().MaxTime) {
				oldest = b
			}
		}
		if oldest == nil {
			break
		}
		out[oldest.Meta().ULID] = struct{}{}
		bytes -= oldest.Size()
	}
	return out
}

// widen opens the out-of-order window by the time that the newest sample lies ahead,
// after a clock jumped forward and back: samples of the right time are else refused
// until it has caught up. The window is as configured again after the next start.
func (s *Store) widen(ahead time.Duration) {
	// Round up, so that this happens once and not for every batch.
	need := (s.opts.OutOfOrder + ahead).Round(time.Hour) + time.Hour
	if s.ooo.Load() >= (s.opts.OutOfOrder + ahead).Milliseconds() {
		return
	}
	err := s.db.ApplyConfig(&config.Config{StorageConfig: config.StorageConfig{
		TSDBConfig: &config.TSDBConfig{OutOfOrderTimeWindow: need.Milliseconds()},
	}})
	if err != nil {
		s.log.Error("out-of-order window could not be widened", "err", err)
		return
	}
	s.ooo.Store(need.Milliseconds())
	s.log.Warn("the newest sample of the store lies in the future: a clock jumped; samples of the right time are taken out of order until it is reached",
		"ahead", ahead.Round(time.Second), "window", need)
}

// lateness remembers the oldest sample that came long after its time.
type lateness struct {
	mu     sync.Mutex
	oldest int64
}

const lateAfter = 2 * time.Minute

func (l *lateness) note(t, headMax int64) {
	if headMax == math.MinInt64 || t >= headMax-lateAfter.Milliseconds() {
		return
	}
	l.mu.Lock()
	if l.oldest == 0 || t < l.oldest {
		l.oldest = t
	}
	l.mu.Unlock()
}

// Late returns the time of the oldest sample that came more than two minutes behind
// the newest since the last call, and false when there was none. Views that were made
// before it came are made again from there.
func (s *Store) Late() (time.Time, bool) {
	s.late.mu.Lock()
	defer s.late.mu.Unlock()
	t := s.late.oldest
	s.late.oldest = 0
	return time.UnixMilli(t), t != 0
}
