// Package brotli is a stub for the package of this name, a compression that Parquet files may have:
// the files written here use another one, and none are read.
package brotli

import (
	"errors"
	"io"
)

// ErrNotBuilt is the error of everything here.
var ErrNotBuilt = errors.New("brotli: this compression is not built into this program")

// WriterOptions are the options of a Writer.
type WriterOptions struct{ Quality, LGWin int }

// Writer refuses to compress.
type Writer struct{}

// NewWriterOptions returns a Writer.
func NewWriterOptions(io.Writer, WriterOptions) *Writer { return &Writer{} }

// Write returns ErrNotBuilt.
func (*Writer) Write([]byte) (int, error) { return 0, ErrNotBuilt }

// Close returns ErrNotBuilt.
func (*Writer) Close() error { return ErrNotBuilt }

// Reset does nothing.
func (*Writer) Reset(io.Writer) {}

// Reader refuses to decompress.
type Reader struct{}

// NewReader returns a Reader.
func NewReader(io.Reader) *Reader { return &Reader{} }

// Read returns ErrNotBuilt.
func (*Reader) Read([]byte) (int, error) { return 0, ErrNotBuilt }

// Reset does nothing.
func (*Reader) Reset(io.Reader) error { return nil }
