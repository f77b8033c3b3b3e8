package hourly

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"reckon/internal/durable"
)

// span is a time range; to is exclusive.
type span struct{ from, to int64 }

func (s span) holds(t int64) bool   { return t >= s.from && t < s.to }
func (s span) overlaps(o span) bool { return s.from < o.to && o.from < s.to }
func (s span) within(o span) bool   { return s.from >= o.from && s.to <= o.to }
func spanOf(m tsdb.BlockMeta) span  { return span{m.MinTime, m.MaxTime} }
func enclosing(a span, b ...span) (c span) {
	c = a
	for _, o := range b {
		c = span{min(c.from, o.from), max(c.to, o.to)}
	}
	return c
}

// segmentBytes is the maximum size of a chunk file. The writer preallocates that much
// disk space for each.
const segmentBytes = 32 << 20

// source returns the series of a new block, sorted; with labelsOnly their samples are not needed.
type source func(labelsOnly bool) (storage.SeriesSet, error)

// writeBlock writes a block for a time range that replaces others. It appears under its
// name when it is complete; a block without series is not written, and its id is zero.
func writeBlock(ctx context.Context, dir string, at span, replaces []tsdb.BlockDesc, from source) (id ulid.ULID, err error) {
	id = ulid.MustNew(ulid.Now(), rand.Reader)
	final := filepath.Join(dir, id.String())
	tmp := final + tmpSuffix
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	cw, err := chunks.NewWriter(filepath.Join(tmp, "chunks"), chunks.WithSegmentSize(segmentBytes))
	if err != nil {
		return id, err
	}
	meta := tsdb.BlockMeta{ULID: id, Version: 1, MinTime: at.from, MaxTime: at.to}
	meta.Compaction.Level, meta.Compaction.Sources, meta.Compaction.Parents = 1, []ulid.ULID{id}, replaces
	err = fill(ctx, cw, filepath.Join(tmp, "index"), &meta, from)
	if err = errors.Join(err, cw.Close()); err != nil {
		return id, err
	}
	if meta.Stats.NumSeries == 0 {
		return ulid.ULID{}, os.RemoveAll(tmp)
	}
	raw, err := json.MarshalIndent(meta, "", "\t")
	if err != nil {
		return id, err
	}
	if err := durable.Write(filepath.Join(tmp, "meta.json"), raw, 0o666); err != nil {
		return id, err
	}
	if _, err := tombstones.WriteFile(slog.New(slog.DiscardHandler), tmp, tombstones.NewMemTombstones()); err != nil {
		return id, err // nothing is deleted, but a copy needs the file
	}
	if err := os.Rename(tmp, final); err != nil {
		return id, err
	}
	return id, syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// fill reads the source twice: an index begins with all its symbols.
func fill(ctx context.Context, cw *chunks.Writer, path string, meta *tsdb.BlockMeta, from source) (err error) {
	words, err := wordsOf(ctx, from)
	if err != nil {
		return err
	}
	iw, err := index.NewWriter(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iw.Close()) }()
	for _, w := range words {
		if err := iw.AddSymbol(w); err != nil {
			return err
		}
	}
	set, err := from(false)
	if err != nil {
		return err
	}
	var metas []chunks.Meta
	var it chunks.Iterator
	for set.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := set.At()
		it = storage.NewSeriesToChunkEncoder(s).Iterator(it)
		metas = metas[:0]
		for it.Next() {
			c := it.At()
			c.Chunk.Compact()
			metas = append(metas, c)
			meta.Stats.NumSamples += uint64(c.Chunk.NumSamples())
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("%s: %w", s.Labels(), err)
		}
		if len(metas) == 0 {
			continue
		}
		if err := cw.WriteChunks(metas...); err != nil {
			return err
		}
		if err := iw.AddSeries(storage.SeriesRef(meta.Stats.NumSeries), s.Labels(), metas...); err != nil {
			return fmt.Errorf("%s: %w", s.Labels(), err)
		}
		meta.Stats.NumSeries++
		meta.Stats.NumChunks += uint64(len(metas))
	}
	return set.Err()
}

func wordsOf(ctx context.Context, from source) ([]string, error) {
	set, err := from(true)
	if err != nil {
		return nil, err
	}
	seen := map[string]struct{}{"": {}}
	for set.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		set.At().Labels().Range(func(l labels.Label) {
			seen[l.Name], seen[l.Value] = struct{}{}, struct{}{}
		})
	}
	if err := set.Err(); err != nil {
		return nil, err
	}
	words := make([]string, 0, len(seen))
	for w := range seen {
		words = append(words, w)
	}
	slices.Sort(words)
	return words, nil
}
