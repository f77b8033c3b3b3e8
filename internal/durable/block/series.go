package block

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/encoding"
	"github.com/prometheus/prometheus/tsdb/index"
)

// Whole is a block reader for callers that read most of a block's series. Prometheus's reader decodes some sixteen symbols and copies one
// for each label. Whole maps the index itself and keeps all symbols in memory until it is closed.
type Whole struct {
	promtsdb.BlockReader
	Dir string
}

// Index implements promtsdb.BlockReader.
func (w Whole) Index() (promtsdb.IndexReader, error) {
	data, unmap, err := mapFile(filepath.Join(w.Dir, "index"))
	if err != nil {
		return nil, err
	}
	r := &wholeIndex{data: data, unmap: unmap}
	if err = r.readSymbols(); err == nil {
		r.IndexReader, err = w.BlockReader.Index()
	}
	if err != nil {
		unmap()
		return nil, fmt.Errorf("read the index of block %s: %w", w.Dir, err)
	}
	return r, nil
}

type wholeIndex struct {
	promtsdb.IndexReader
	data    byteSlice
	unmap   func()
	decoder index.Decoder
}

func (r *wholeIndex) readSymbols() error {
	toc, err := index.NewTOCFromByteSlice(r.data)
	if err != nil {
		return err
	}
	d := encoding.NewDecbufAt(r.data, int(toc.Symbols), castagnoli)
	symbols := make([]string, d.Be32())
	for i := range symbols {
		symbols[i] = d.UvarintStr()
	}
	r.decoder.LookupSymbol = func(_ context.Context, i uint32) (string, error) {
		if int(i) >= len(symbols) {
			return "", fmt.Errorf("there is no symbol %d", i)
		}
		return symbols[i], nil
	}
	return d.Err()
}

// Series implements promtsdb.IndexReader.
func (r *wholeIndex) Series(ref storage.SeriesRef, b *labels.ScratchBuilder, list *[]chunks.Meta) error {
	d := encoding.NewDecbufUvarintAt(r.data, int(ref*seriesAlign), castagnoli)
	if d.Err() != nil {
		return d.Err()
	}
	return r.decoder.Series(d.Get(), b, list)
}

// Close implements promtsdb.IndexReader.
func (r *wholeIndex) Close() error {
	r.unmap()
	return r.IndexReader.Close()
}
