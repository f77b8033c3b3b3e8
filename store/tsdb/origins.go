package tsdb

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	promtsdb "github.com/prometheus/prometheus/tsdb"

	"reckon/store"
)

// blockTimes holds the time range of each block that was written since the store was opened. A block later becomes part
// of larger blocks, which record only its id.
type blockTimes struct {
	mu    sync.Mutex
	spans map[ulid.ULID][2]int64
}

// update is called with all blocks after each change.
func (b *blockTimes) update(blocks []*promtsdb.Block) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spans == nil {
		b.spans = map[ulid.ULID][2]int64{}
	}
	for _, block := range blocks {
		if m := block.Meta(); len(m.Compaction.Sources) == 1 && m.Compaction.Sources[0] == m.ULID {
			b.spans[m.ULID] = [2]int64{m.MinTime, m.MaxTime}
		}
	}
}

// Origins returns the origins of the blocks on disk, sorted by name.
func (s *Store) Origins() ([]store.Origin, error) {
	db, err := s.acquire()
	if err != nil {
		return nil, err
	}
	metas := db.BlockMetas()
	s.gate.release()
	spans := map[ulid.ULID][2]int64{}
	for _, m := range metas {
		for _, id := range m.Compaction.Sources {
			if have, ok := spans[id]; ok { // a block that was cut in parts
				spans[id] = [2]int64{min(have[0], m.MinTime), max(have[1], m.MaxTime)}
				continue
			}
			spans[id] = [2]int64{m.MinTime, m.MaxTime}
		}
	}
	s.born.mu.Lock()
	defer s.born.mu.Unlock()
	out := make([]store.Origin, 0, len(spans))
	for id, span := range spans {
		if first, ok := s.born.spans[id]; ok {
			span = first
		}
		out = append(out, store.Origin{ID: id.String(), From: time.UnixMilli(span[0]), To: time.UnixMilli(span[1])})
	}
	for id := range s.born.spans {
		if _, ok := spans[id]; !ok {
			delete(s.born.spans, id) // its block was deleted
		}
	}
	slices.SortFunc(out, func(a, b store.Origin) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return out, nil
}

// Sealed returns the time before which all samples that came in order are in blocks, and false if there is none.
func (s *Store) Sealed() (until time.Time, ok bool) {
	db, err := s.acquire()
	if err != nil {
		return time.Time{}, false
	}
	defer s.gate.release()
	if t := db.Head().MinTime(); t != math.MaxInt64 {
		return time.UnixMilli(t), true
	}
	newest := int64(math.MinInt64)
	for _, m := range db.BlockMetas() {
		newest = max(newest, m.MaxTime)
	}
	return time.UnixMilli(newest), newest != math.MinInt64
}

// Since returns the earliest time of the data that the store has received and should still have. It returns false if
// the store is empty. Imported data may be older.
func (s *Store) Since() (start time.Time, ok bool) {
	db, err := s.acquire()
	if err != nil {
		return time.Time{}, false
	}
	defer s.gate.release()
	oldest := db.Head().MinTime()
	for _, m := range db.BlockMetas() {
		if m.MinTime < oldest && !s.imported.contains(s.opts.Dir, m) {
			oldest = m.MinTime
		}
	}
	return time.UnixMilli(oldest), oldest != math.MaxInt64
}
