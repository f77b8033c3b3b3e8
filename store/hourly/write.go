package hourly

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"reckon/internal/durable/block"
)

// timeRange is a range of times in milliseconds. It does not include the time to.
type timeRange struct{ from, to int64 }

func (s timeRange) contains(t int64) bool         { return t >= s.from && t < s.to }
func (s timeRange) overlaps(other timeRange) bool { return s.from < other.to && other.from < s.to }
func (s timeRange) isInside(outer timeRange) bool { return s.from >= outer.from && s.to <= outer.to }
func blockRange(m tsdb.BlockMeta) timeRange       { return timeRange{m.MinTime, m.MaxTime} }
func enclosingRange(first timeRange, others ...timeRange) (c timeRange) {
	c = first
	for _, o := range others {
		c = timeRange{min(c.from, o.from), max(c.to, o.to)}
	}
	return c
}

// writeBlock writes a block for the time range at that replaces other blocks. It renames the block into place when it
// is complete. Without series it writes nothing and returns a zero id.
func writeBlock(ctx context.Context, dir string, at timeRange, replaces []tsdb.BlockDesc, set storage.SeriesSet) (id ulid.ULID, err error) {
	id = ulid.MustNew(ulid.Now(), rand.Reader)
	meta := tsdb.BlockMeta{ULID: id, Version: 1, MinTime: at.from, MaxTime: at.to}
	meta.Compaction.Level, meta.Compaction.Sources, meta.Compaction.Parents = 1, []ulid.ULID{id}, replaces
	var metas []chunks.Meta
	var it chunks.Iterator
	err = block.Write(ctx, dir, &meta, func(put func(labels.Labels, []chunks.Meta) error) error {
		for set.Next() {
			s := set.At()
			it = storage.NewSeriesToChunkEncoder(s).Iterator(it)
			metas = metas[:0]
			for it.Next() {
				c := it.At()
				c.Chunk.Compact()
				metas = append(metas, c)
			}
			if err := it.Err(); err != nil {
				return fmt.Errorf("%s: %w", s.Labels(), err)
			}
			if len(metas) == 0 {
				continue
			}
			if err := put(s.Labels(), metas); err != nil {
				return err
			}
		}
		return set.Err()
	})
	if meta.Stats.NumSeries == 0 {
		id = ulid.ULID{}
	}
	return id, err
}
