package recording

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"time"
)

// Writer writes a recording as it happens.
type Writer struct {
	gz   *gzip.Writer
	tar  *tar.Writer
	pass int
	err  error // the first one; nothing is written after it
}

// NewWriter starts a recording. It sets the format version and, if it is zero, the time.
func NewWriter(w io.Writer, m Meta) (*Writer, error) {
	m.Format = Version
	if m.Recorded.IsZero() {
		m.Recorded = time.Now()
	}
	m.Recorded = m.Recorded.UTC()
	data, err := json.MarshalIndent(&m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	gz := gzip.NewWriter(w)
	wr := &Writer{gz: gz, tar: tar.NewWriter(gz)}
	wr.writeFile("meta.json", append(data, '\n'), m.Recorded)
	return wr, wr.flush()
}

// Pass appends one pass to the recording. It writes the files first and the readings last. A pass without readings is
// therefore known to be truncated.
func (w *Writer) Pass(d PassData) error {
	if w.err != nil {
		return w.err
	}
	readings, err := encodePass(&d)
	if err != nil {
		return fmt.Errorf("recording: pass %d: %w", w.pass, err)
	}
	dir := fmt.Sprintf("pass/%04d/", w.pass)
	for _, f := range d.Files {
		name := dir + "root/" + path.Clean(f.Path)
		if f.Link != "" {
			w.writeEntry(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: f.Link, Mode: 0o777, ModTime: d.Time}, nil)
		} else {
			w.writeFile(name, f.Data, d.Time)
		}
	}
	w.writeFile(dir+"readings.json", readings, d.Time)
	w.pass++
	return w.flush()
}

// Close ends the recording. It does not close the writer underneath.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	w.err = cmp.Or(w.tar.Close(), w.gz.Close())
	if w.err != nil {
		return fmt.Errorf("recording: %w", w.err)
	}
	w.err = fmt.Errorf("recording: %w", io.ErrClosedPipe)
	return nil
}

func (w *Writer) writeFile(name string, data []byte, t time.Time) {
	w.writeEntry(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o444, ModTime: t}, data)
}

func (w *Writer) writeEntry(h *tar.Header, data []byte) {
	if w.err != nil {
		return
	}
	h.Format = tar.FormatPAX // names of any length
	h.ModTime = h.ModTime.UTC().Truncate(time.Second)
	if w.err = w.tar.WriteHeader(h); w.err == nil {
		_, w.err = io.Copy(w.tar, bytes.NewReader(data))
	}
	if w.err != nil {
		w.err = fmt.Errorf("recording: write %s: %w", h.Name, w.err)
	}
}

// flush writes all buffered bytes, so that a recorder that is killed leaves complete passes.
func (w *Writer) flush() error {
	if w.err == nil {
		w.err = cmp.Or(w.tar.Flush(), w.gz.Flush())
	}
	return w.err
}
