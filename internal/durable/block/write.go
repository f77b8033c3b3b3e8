package block

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/model/labels"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"reckon/internal/durable"
)

const (
	// Unfinished is the suffix of a block under way. The database removes such leftovers when it is opened.
	Unfinished = ".tmp-for-creation"
	// SegmentBytes is the largest size of a file of chunks. The writer reserves that much disk space for each at once.
	SegmentBytes = 32 << 20
)

// Write creates a block in dir and sets the numbers of series, chunks and samples in meta. The callback series must
// call put once for each series, in label order. The block is renamed into place when it is complete. A block without
// series is not created.
func Write(ctx context.Context, dir string, meta *promtsdb.BlockMeta,
	series func(put func(l labels.Labels, list []chunks.Meta) error) error) (err error) {
	final := filepath.Join(dir, meta.ULID.String())
	tmp := final + Unfinished
	defer func() {
		if err != nil || meta.Stats.NumSeries == 0 {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	cw, err := chunks.NewWriter(filepath.Join(tmp, "chunks"), chunks.WithSegmentSize(SegmentBytes))
	if err != nil {
		return err
	}
	x := &indexWriter{places: map[labels.Label]uint32{}}
	err = series(func(l labels.Labels, list []chunks.Meta) error {
		if err := errors.Join(ctx.Err(), cw.WriteChunks(list...)); err != nil {
			return err
		}
		if err := x.addSeries(l, list); err != nil {
			return fmt.Errorf("%s: %w", l, err)
		}
		meta.Stats.NumSeries++
		meta.Stats.NumChunks += uint64(len(list))
		for _, c := range list {
			meta.Stats.NumSamples += uint64(c.Chunk.NumSamples())
		}
		return nil
	})
	if err = errors.Join(err, cw.Close()); err != nil || meta.Stats.NumSeries == 0 {
		return err
	}
	if err := x.writeFile(filepath.Join(tmp, "index")); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(meta, "", "\t")
	if err == nil {
		err = durable.Write(filepath.Join(tmp, "meta.json"), raw, 0o666)
	}
	if err == nil { // nothing is deleted, but a copy needs the file
		_, err = tombstones.WriteFile(slog.New(slog.DiscardHandler), tmp, tombstones.NewMemTombstones())
	}
	if err == nil {
		err = os.Rename(tmp, final)
	}
	if err != nil {
		return err
	}
	return durable.Sync(dir)
}
