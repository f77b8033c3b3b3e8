package block

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"reckon/internal/durable"
)

const (
	// Unfinished is the suffix of a block under way. The database removes such leftovers when it is opened.
	Unfinished = ".tmp-for-creation"
	// SegmentBytes is the largest size of a file of chunks. The writer takes that much of the disk for each at once.
	SegmentBytes = 32 << 20
)

// Words are the names and values of labels, with which an index begins.
type Words struct {
	all  map[string]struct{}
	last map[string]string // the value that a label had last: many series in a row have the same
}

// NewWords returns an empty set of words.
func NewWords() *Words {
	return &Words{map[string]struct{}{"": {}}, map[string]string{}}
}

// Add adds the labels of a series.
func (w *Words) Add(l labels.Labels) {
	l.Range(func(x labels.Label) {
		if v, ok := w.last[x.Name]; !ok || v != x.Value {
			w.last[x.Name], w.all[x.Name], w.all[x.Value] = x.Value, struct{}{}, struct{}{}
		}
	})
}

// Write creates the block of meta in a directory and sets its numbers of series, chunks and samples. series must call put for each series
// in label order. The block is renamed into place when it is complete; a block without series is not created.
func Write(ctx context.Context, dir string, meta *promtsdb.BlockMeta, words *Words,
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
	err = fill(ctx, cw, filepath.Join(tmp, "index"), meta, words, series)
	if err = errors.Join(err, cw.Close()); err != nil || meta.Stats.NumSeries == 0 {
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

func fill(ctx context.Context, cw *chunks.Writer, path string, meta *promtsdb.BlockMeta, words *Words,
	series func(put func(labels.Labels, []chunks.Meta) error) error) (err error) {
	iw, err := index.NewWriter(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iw.Close()) }()
	for _, w := range slices.Sorted(maps.Keys(words.all)) {
		if err := iw.AddSymbol(w); err != nil {
			return err
		}
	}
	return series(func(l labels.Labels, list []chunks.Meta) error {
		if err := errors.Join(ctx.Err(), cw.WriteChunks(list...)); err != nil {
			return err
		}
		if err := iw.AddSeries(storage.SeriesRef(meta.Stats.NumSeries), l, list...); err != nil {
			return fmt.Errorf("%s: %w", l, err)
		}
		meta.Stats.NumSeries++
		meta.Stats.NumChunks += uint64(len(list))
		for _, c := range list {
			meta.Stats.NumSamples += uint64(c.Chunk.NumSamples())
		}
		return nil
	})
}
