package tsdb

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/internal/durable/block"
)

// In every query that overlaps a block, the database merges its memory with its blocks in label order and sorts all series in memory for
// that. This takes a quarter of a query over many series, although PromQL and most other readers require no order. Blocks are therefore
// excluded from the database's own querier when it is opened, and merged by the hash of labels.

// blockCollector collects the queriers of blocks while the database opens its own.
type blockCollector struct {
	mu     sync.Mutex
	open   bool // a querier is being opened with mu held
	read   *readBefore
	blocks []storage.Querier
}

// blockQuerier implements promtsdb.Options.BlockQuerierFunc. It sets blocks aside but not memory.
func (s *Store) blockQuerier(b promtsdb.BlockReader, mint, maxt int64) (storage.Querier, error) {
	if head, memory := b.(*promtsdb.RangeHead); memory {
		return newMemoryQuerier(head, mint, maxt)
	}
	if s.aside.open && s.aside.read != nil {
		if m := b.Meta(); m.MaxTime <= s.aside.read.until && s.recent.hadBlock(m.ULID, s.aside.read.mark) {
			return storage.NoopQuerier(), nil
		}
	}
	if s.bulk.Load() { // each block is read as a whole, a few times
		b = block.Whole{BlockReader: b, Dir: filepath.Join(s.opts.Dir, b.Meta().ULID.String())}
	}
	q, err := promtsdb.NewBlockQuerier(b, mint, maxt)
	if err != nil || !s.aside.open {
		return q, err
	}
	s.aside.blocks = append(s.aside.blocks, q)
	return storage.NoopQuerier(), nil
}

// querier opens memory and blocks.
func (s *Store) querier(db *promtsdb.DB, read *readBefore, mint, maxt int64) (storage.Querier, error) {
	s.aside.mu.Lock()
	s.aside.open, s.aside.read = true, read
	memory, err := db.Querier(mint, maxt)
	blocks := s.aside.blocks
	s.aside.open, s.aside.read, s.aside.blocks = false, nil, nil
	s.aside.mu.Unlock()
	if err != nil {
		for _, q := range blocks {
			err = errors.Join(err, q.Close())
		}
		return nil, err
	}
	if len(blocks) == 0 {
		return memory, nil
	}
	all := append([]storage.Querier{memory}, blocks...)
	return &unsortedQuerier{storage.NewMergeQuerier(all, nil, storage.ChainedSeriesMerge), memory, blocks,
			maxMergedSeries(db.Head().NumSeries())},
		nil
}

// unsortedQuerier merges without an order if none is requested.
type unsortedQuerier struct {
	storage.Querier // querier of all series, in the order of labels
	memory          storage.Querier
	blocks          []storage.Querier
	most            int // see maxMergedSeries
}

// Select implements storage.Querier.
func (q *unsortedQuerier) Select(ctx context.Context, sorted bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if sorted {
		return q.Querier.Select(ctx, true, h, ms...)
	}
	set := &unsortedSet{memory: q.memory.Select(ctx, false, h, ms...), blocks: map[uint64][][]storage.Series{},
		warnings: annotations.Annotations{}}
	for _, b := range q.blocks {
		if !set.readBlock(b.Select(ctx, false, h, ms...), q.most) {
			return q.Querier.Select(ctx, true, h, ms...)
		}
	}
	return set
}

// maxMergedSeries returns the number of series in blocks, about 400 bytes each, that a query may hold in memory to
// merge them. It grows with the number of series in memory, so that a small store takes little memory. If there are
// more series, they are sorted instead and read one by one.
func maxMergedSeries(inMemory uint64) int {
	return int(min(max(minMergedSeries, inMemory), mergedSeriesLimit))
}

const (
	minMergedSeries   = 50_000
	mergedSeriesLimit = 250_000
)

// unsortedSet returns first the series in memory, each merged with its parts in blocks, and then the series that are
// only in blocks. Before it returns the first series, it has read all series of the blocks, but no samples.
type unsortedSet struct {
	memory   storage.SeriesSet
	blocks   map[uint64][][]storage.Series // by the hash of labels, the parts of each series
	held     int                           // in blocks
	rest     [][]storage.Series            // of blocks only, once memory was read
	over     bool                          // memory was read
	at       storage.Series
	warnings annotations.Annotations
	err      error
}

// readBlock handles the series of one block. It returns false if there are more than maxSeries series in all blocks.
func (u *unsortedSet) readBlock(set storage.SeriesSet, maxSeries int) bool {
	for set.Next() {
		if u.held++; u.held > maxSeries {
			return false
		}
		s := set.At()
		hash := s.Labels().Hash()
		list := u.blocks[hash]
		if i := indexOfSeries(list, s.Labels()); i >= 0 {
			list[i] = append(list[i], s)
			continue
		}
		u.blocks[hash] = append(list, []storage.Series{s})
	}
	u.warnings.Merge(set.Warnings())
	u.err = errors.Join(u.err, set.Err())
	return true
}

// indexOfSeries returns the index of a series among those with the same hash, or -1.
func indexOfSeries(list [][]storage.Series, ls labels.Labels) int {
	return slices.IndexFunc(list, func(parts []storage.Series) bool { return labels.Equal(parts[0].Labels(), ls) })
}

// Next implements storage.SeriesSet.
func (u *unsortedSet) Next() bool {
	if u.err != nil {
		return false
	}
	if !u.over && u.memory.Next() {
		u.at = u.memory.At()
		if len(u.blocks) > 0 {
			u.at = u.mergeWithBlocks(u.at)
		}
		return true
	}
	if !u.over {
		u.over = true
		u.warnings.Merge(u.memory.Warnings())
		if u.err = u.memory.Err(); u.err != nil {
			return false
		}
		for _, list := range u.blocks {
			u.rest = append(u.rest, list...)
		}
		u.blocks = nil
	}
	if len(u.rest) == 0 {
		return false
	}
	u.at, u.rest = chainSeries(u.rest[0]), u.rest[1:]
	return true
}

// mergeWithBlocks returns a series in memory merged with its samples in blocks. It removes the parts in blocks from the list
// of series that are left.
func (u *unsortedSet) mergeWithBlocks(s storage.Series) storage.Series {
	hash := s.Labels().Hash()
	list := u.blocks[hash]
	i := indexOfSeries(list, s.Labels())
	if i < 0 {
		return s
	}
	parts := append([]storage.Series{s}, list[i]...)
	if len(list) == 1 {
		delete(u.blocks, hash)
	} else {
		u.blocks[hash] = slices.Delete(list, i, i+1)
	}
	return chainSeries(parts)
}

func chainSeries(parts []storage.Series) storage.Series {
	if len(parts) == 1 {
		return parts[0]
	}
	return storage.ChainedSeriesMerge(parts...)
}

// At implements storage.SeriesSet.
func (u *unsortedSet) At() storage.Series { return u.at }

// Err implements storage.SeriesSet.
func (u *unsortedSet) Err() error { return u.err }

// Warnings implements storage.SeriesSet.
func (u *unsortedSet) Warnings() annotations.Annotations { return u.warnings }
