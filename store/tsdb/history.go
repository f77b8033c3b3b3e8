package tsdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"reckon/figure/format"
	"reckon/internal/dirty"
	"reckon/internal/durable"
	"reckon/internal/durable/block"
	"reckon/internal/series"
	"reckon/metric"
	"reckon/store"
)

// HistoryRange is the time range of a block of imported samples, aligned to the Unix epoch. It is one of the database's
// compaction ranges, so that the database compacts these blocks as well.
const HistoryRange = 9 * blockRange

const historyRange = int64(HistoryRange / time.Millisecond)

// chunkSamples is the number of samples that a chunk holds, as in the database's own blocks.
const chunkSamples = 120

// History collects samples that are too old for Append and that [Store.ImportBlocks] writes. It takes about two bytes
// per sample and 300 per series. It is not safe for concurrent use.
type History struct{ series []*HistorySeries }

// HistorySeries is one series of a [History].
type HistorySeries struct {
	labels labels.Labels
	chunks []chunks.Meta
	app    chunkenc.Appender
}

// Series adds a series. A label set is added once.
func (h *History) Series(l labels.Labels) *HistorySeries {
	s := &HistorySeries{labels: l}
	h.series = append(h.series, s)
	return s
}

// Add appends a sample. It skips one that is not newer than the previous sample.
func (s *HistorySeries) Add(t int64, v float64) error {
	n := len(s.chunks)
	if n > 0 && t <= s.chunks[n-1].MaxTime {
		return nil
	}
	if n == 0 || s.chunks[n-1].Chunk.NumSamples() >= chunkSamples || historyBlockStart(s.chunks[n-1].MinTime) != historyBlockStart(t) {
		c, err := chunkenc.FromData(chunkenc.EncXOR, make([]byte, 2, 32)) // empty: most have a sample or two
		if err != nil {
			return err
		}
		app, err := c.Appender()
		if err != nil {
			return err
		}
		if n > 0 {
			s.chunks[n-1].Chunk.Compact()
		}
		s.chunks, s.app = append(s.chunks, chunks.Meta{Chunk: c, MinTime: t, MaxTime: t}), app
		n++
	}
	s.app.Append(0, t, v)
	s.chunks[n-1].MaxTime = t
	return nil
}

// AddHistogram appends a histogram at time t. It skips the histogram if t is not after the previous sample. A series
// has either numbers or histograms.
func (s *HistorySeries) AddHistogram(t int64, h *metric.Histogram) error {
	n := len(s.chunks)
	if n > 0 && t <= s.chunks[n-1].MaxTime {
		return nil
	}
	packed := series.ToNative(h)
	if n > 0 && s.chunks[n-1].Chunk.NumSamples() < chunkSamples && historyBlockStart(s.chunks[n-1].MinTime) == historyBlockStart(t) {
		// It is refused where its buckets do not fit the chunk's.
		if _, _, app, err := s.app.AppendHistogram(nil, 0, t, packed, true); err == nil {
			s.app, s.chunks[n-1].MaxTime = app, t
			return nil
		}
	}
	c := chunkenc.NewHistogramChunk()
	app, err := c.Appender()
	if err != nil {
		return err
	}
	if _, _, app, err = app.AppendHistogram(s.app, 0, t, packed, true); err != nil {
		return err
	}
	s.chunks, s.app = append(s.chunks, chunks.Meta{Chunk: c, MinTime: t, MaxTime: t}), app
	return nil
}

// Join moves the series of o into h. No label set is in both.
func (h *History) Join(o *History) {
	h.series = append(h.series, o.series...)
	o.series = nil
}

// historyBlockStart returns the start of the imported block that contains the time t.
func historyBlockStart(t int64) int64 { return dirty.Floor(t, historyRange) }

// chunksIn returns the chunks of the series in the block that starts at a time.
func (s *HistorySeries) chunksIn(at int64) []chunks.Meta {
	from := 0
	for from < len(s.chunks) && s.chunks[from].MinTime < at {
		from++
	}
	to := from
	for to < len(s.chunks) && s.chunks[to].MinTime < at+historyRange {
		to++
	}
	return s.chunks[from:to]
}

// sort sorts the series by labels. Series of one metric mostly are in order already.
func (h *History) sort() {
	by := map[string][]*HistorySeries{}
	for _, s := range h.series {
		name := s.labels.Get(model.MetricNameLabel)
		by[name] = append(by[name], s)
	}
	order := func(a, b *HistorySeries) int { return labels.Compare(a.labels, b.labels) }
	h.series = h.series[:0]
	inOrder := true
	for _, name := range slices.Sorted(maps.Keys(by)) {
		slices.SortFunc(by[name], order)
		if n := len(h.series); n > 0 && order(h.series[n-1], by[name][0]) > 0 {
			inOrder = false // capitalized label names sort before __name__
		}
		h.series = append(h.series, by[name]...)
	}
	if !inOrder {
		slices.SortFunc(h.series, order)
	}
}

// splitByBlock returns the hours with samples, and the series of each block by the start of the block.
func (h *History) splitByBlock() (hours *dirty.Late, blocks map[int64][]*HistorySeries) {
	seen, newest, parts := map[int64]bool{}, int64(-1), map[int64][]*HistorySeries{}
	for _, s := range h.series {
		before := int64(math.MinInt64)
		for i := range s.chunks {
			c := &s.chunks[i]
			if at := historyBlockStart(c.MinTime); at != before {
				parts[at], before = append(parts[at], s), at
			}
			for at := dirty.HourOf(c.MinTime); at <= c.MaxTime; at += time.Hour.Milliseconds() {
				if at != newest {
					seen[at], newest = true, at
				}
			}
		}
	}
	var late dirty.Late
	for _, at := range slices.Sorted(maps.Keys(seen)) {
		late.AddRange(at, at)
	}
	return &late, parts
}

// StartBulk disables compaction until the store is reopened, and removes the pages of blocks from the resident memory.
// With compaction, a long import would rewrite its earlier blocks again and again.
func (s *Store) StartBulk() {
	s.bulk.Store(true)
	s.db.DisableCompactions()
}

// ImportBlocks writes a history to separate blocks, which may overlap existing blocks. A sample in several blocks is
// read once. Retention by age does not delete imported blocks, because they were imported on purpose, but the size
// limit does. Queries see the blocks when ImportBlocks returns. If it fails, complete blocks remain, and the import can
// be repeated.
func (s *Store) ImportBlocks(ctx context.Context, h *History) error {
	if len(h.series) == 0 {
		return nil
	}
	if free, err := freeBytes(s.opts.Dir); err == nil && s.opts.Reserve > 0 && free < uint64(s.opts.Reserve) {
		return fmt.Errorf("%w: %s free on the disk of %s; free space and import again", store.ErrFull, format.Bytes(float64(free)),
			s.opts.Dir)
	}
	db, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.gate.release()
	h.sort()
	late, parts := h.splitByBlock()
	noted, err := s.noteLate(late)
	if err != nil {
		return err
	}
	defer noted()
	var made []ulid.ULID
	for _, at := range slices.Sorted(maps.Keys(parts)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		id := ulid.MustNew(ulid.Now(), rand.Reader)
		if err := s.imported.add(s.opts.Dir, id); err != nil {
			return err
		}
		if err := writeBlock(ctx, s.opts.Dir, id, parts[at], at); err != nil {
			if isDiskFull(err) {
				err = diskFullError(s.opts.Dir, err)
			}
			return fmt.Errorf("write block %s: %w", id, err)
		}
		made = append(made, id)
	}
	// The database looks at its directory when it has written samples out of order, and once a minute.
	if err := db.CompactOOOHead(ctx); err != nil {
		return fmt.Errorf("load imported blocks: %w", err)
	}
	metas := db.BlockMetas()
	for _, id := range made {
		if !slices.ContainsFunc(metas, func(m promtsdb.BlockMeta) bool { return slices.Contains(m.Compaction.Sources, id) }) {
			return fmt.Errorf("imported block %s is written and is read within a minute; it is not yet (is the setting out-of-order 0?)",
				id)
		}
	}
	return nil
}

// writeBlock makes the block of a range. It appears under its name when it is whole.
func writeBlock(ctx context.Context, dir string, id ulid.ULID, list []*HistorySeries, at int64) error {
	meta := promtsdb.BlockMeta{ULID: id, Version: 1, MinTime: math.MaxInt64}
	meta.Compaction.Level, meta.Compaction.Sources = 1, []ulid.ULID{id}
	meta.Compaction.SetOutOfOrder() // so that the head keeps its samples of the same time
	return block.Write(ctx, dir, &meta, func(put func(labels.Labels, []chunks.Meta) error) error {
		for _, s := range list {
			c := s.chunksIn(at)
			meta.MinTime, meta.MaxTime = min(meta.MinTime, c[0].MinTime), max(meta.MaxTime, c[len(c)-1].MaxTime+1)
			if err := put(s.labels, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// ensureTombstones creates an empty file of deletions if it is missing, because a backup expects one in each block.
func ensureTombstones(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, tombstones.TombstonesFilename)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err := tombstones.WriteFile(slog.New(slog.DiscardHandler), dir, tombstones.NewMemTombstones())
	return err
}

const importedFile = "imported.json"

// importedSet holds the ids of the blocks that ImportBlocks wrote, in the file imported.json. A block that was
// compacted from such blocks is recognised by the sources in its metadata.
type importedSet struct {
	mu     sync.Mutex
	loaded bool
	ids    map[ulid.ULID]bool
}

func (i *importedSet) load(dir string) error {
	if i.loaded {
		return nil
	}
	var list []ulid.ULID
	if err := durable.ReadJSON(filepath.Join(dir, importedFile), &list); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", filepath.Join(dir, importedFile), err)
	}
	i.loaded, i.ids = true, make(map[ulid.ULID]bool, len(list))
	for _, id := range list {
		i.ids[id] = true
	}
	return nil
}

func (i *importedSet) add(dir string, id ulid.ULID) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.load(dir); err != nil {
		return err
	}
	i.ids[id] = true
	return i.save(dir)
}

// replace replaces the list by one with these blocks.
func (i *importedSet) replace(dir string, ids []ulid.ULID) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.loaded, i.ids = true, map[ulid.ULID]bool{}
	for _, id := range ids {
		i.ids[id] = true
	}
	return i.save(dir)
}

func (i *importedSet) save(dir string) error {
	list := make([]ulid.ULID, 0, len(i.ids))
	for id := range i.ids {
		list = append(list, id)
	}
	slices.SortFunc(list, func(a, b ulid.ULID) int { return a.Compare(b) })
	return durable.WriteJSON(filepath.Join(dir, importedFile), list, 0o666)
}

// contains reports whether a block is an imported block or was compacted from one. If the list of imported blocks
// cannot be read, it returns true, so that no block is deleted because of its age.
func (i *importedSet) contains(dir string, m promtsdb.BlockMeta) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.load(dir); err != nil {
		return true
	}
	return slices.ContainsFunc(m.Compaction.Sources, func(id ulid.ULID) bool { return i.ids[id] })
}
