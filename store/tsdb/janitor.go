package tsdb

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/config"
	promtsdb "github.com/prometheus/prometheus/tsdb"

	"reckon/internal/durable"
	"reckon/internal/durable/block"
)

const (
	janitorEvery = time.Minute
	// endedEvery is the interval at which ended series are counted, because thousands may end in a minute.
	endedEvery     = 15 * time.Second
	tenantIdleTime = 30 * time.Minute
)

// janitor runs until Close. It evicts ended series ([Store.evictEnded]), verifies the blocks that were not verified at
// the start, and unmaps blocks of ended series ([Store.unmapEnded]).
func (s *Store) janitor() {
	defer s.done.Done()
	tick, ended := time.NewTicker(janitorEvery), time.NewTicker(endedEvery)
	defer tick.Stop()
	defer ended.Stop()
	checked := map[ulid.ULID]bool{}
	for {
		select {
		case <-s.stop:
			return
		case <-s.suspected:
			s.verifyAllBlocks()
		case <-ended.C:
			s.withDB(s.evictEnded)
			if s.bulk.Load() {
				s.withDB(s.unmapEnded)
			}
		case <-tick.C:
			s.dropIdleTenants(tenantIdleTime)
			s.keepBallast()
			s.withDB(func(db *promtsdb.DB) { s.verifyNextBlock(db, checked) })
			s.withDB(s.unmapEnded)
			s.withDB(s.noteSize)
			s.withDB(s.noteOpen)
		}
	}
}

// withDB calls f with the database, if it is open.
func (s *Store) withDB(f func(*promtsdb.DB)) {
	if db, err := s.acquire(); err == nil {
		defer s.gate.release()
		f(db)
	}
}

// verifyAllBlocks reads all blocks, the newest first.
func (s *Store) verifyAllBlocks() {
	s.withDB(func(db *promtsdb.DB) {
		for _, m := range slices.Backward(db.BlockMetas()) {
			if s.isStopped() {
				return
			}
			s.verifyBlock(db, m.ULID)
		}
	})
}

func (s *Store) isStopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// verifyNextBlock reads one block that was not checked before.
func (s *Store) verifyNextBlock(db *promtsdb.DB, checked map[ulid.ULID]bool) {
	for _, m := range db.BlockMetas() {
		if checked[m.ULID] {
			continue
		}
		checked[m.ULID] = true
		s.verifyBlock(db, m.ULID)
		return
	}
}

func (s *Store) verifyBlock(db *promtsdb.DB, id ulid.ULID) {
	path := filepath.Join(s.opts.Dir, id.String())
	if _, err := block.Verify(path); err != nil && isDamage(err) && durable.Exists(path) {
		s.excludeBlock(db, id, err)
	}
}

// excludeBlock moves a damaged block aside while the database is open.
func (s *Store) excludeBlock(db *promtsdb.DB, id ulid.ULID, cause error) {
	s.manifest.mu.Lock()
	err := s.setBlockAside(id, cause)
	s.manifest.mu.Unlock()
	if err == nil {
		// The database looks at its directory when it has written samples out of order, and once a minute.
		err = db.CompactOOOHead(context.Background())
	}
	if err != nil {
		s.log.Error("a damaged block could not be moved aside", "block", id, "err", err)
	}
}

// blocksToDelete returns the blocks that exceed the retention by age or size, and those that a larger block replaced.
// Age counts from the newest sample or the clock, whichever is older. A step of the clock or a sample from the future
// therefore deletes no history. Imported blocks are not deleted by age.
func (s *Store) blocksToDelete(blocks []*promtsdb.Block) map[ulid.ULID]struct{} {
	s.born.update(blocks)
	out := map[ulid.ULID]struct{}{}
	if s.hasAbandoned() {
		return out
	}
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
			if _, gone := out[b.Meta().ULID]; !gone && b.Meta().MaxTime < limit && !s.imported.contains(s.opts.Dir, b.Meta()) {
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
	if err := s.manifest.update(s.opts.Dir, blocks, out,
		func(m promtsdb.BlockMeta) bool { return s.imported.contains(s.opts.Dir, m) }); err != nil {
		s.log.Warn("the list of blocks could not be written", "err", err)
	}
	return out
}

// widenWindow extends the out-of-order window by ahead, the time that the newest sample is in the future. That happens if the
// clock jumped forward and back. Correct samples would otherwise be rejected until the clock has caught up. The next
// start uses the configured window again.
func (s *Store) widenWindow(ahead time.Duration) {
	// Round up, so that this happens once and not for every batch.
	need := (s.opts.OutOfOrder + ahead).Round(time.Hour) + time.Hour
	if s.ooo.Load() >= (s.opts.OutOfOrder + ahead).Milliseconds() {
		return
	}
	err := s.db.ApplyConfig(&config.Config{StorageConfig: config.StorageConfig{
		TSDBConfig:      &config.TSDBConfig{OutOfOrderTimeWindow: need.Milliseconds()},
		ExemplarsConfig: &config.ExemplarsConfig{MaxExemplars: maxExemplars},
	}})
	if err != nil {
		s.log.Error("out-of-order window could not be widened", "err", err)
		return
	}
	s.ooo.Store(need.Milliseconds())
	s.log.Warn(
		"the newest sample of the store lies in the future: a clock jumped; samples of the right time are taken out of order until it "+
			"is reached",
		"ahead", ahead.Round(time.Second), "window", need)
}
