package recording

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// Reader reads a recording from its beginning.
type Reader struct {
	meta   Meta
	tar    *tar.Reader
	limits Limits
	dec    decoder
	next   int
	err    error // permanent
}

// Open reads the description of a recording, with [DefaultLimits].
func Open(r io.Reader) (*Reader, error) { return OpenLimits(r, DefaultLimits()) }

// OpenLimits is Open with other limits.
func OpenLimits(r io.Reader, l Limits) (*Reader, error) {
	gz, err := gzip.NewReader(bufio.NewReader(r))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, unexpectedEOF(err))
	}
	rd := &Reader{tar: tar.NewReader(&limitedReader{gz, l.Total}), limits: l}
	h, err := rd.tar.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, unexpectedEOF(err))
	}
	if h.Name != "meta.json" {
		return nil, fmt.Errorf("%w: it begins with %q instead of meta.json", ErrFormat, h.Name)
	}
	data, err := rd.readData(h, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("%w: meta.json: %w", ErrFormat, err)
	}
	if err := json.Unmarshal(data, &rd.meta); err != nil {
		return nil, fmt.Errorf("%w: meta.json: %w", ErrFormat, err)
	}
	if v := rd.meta.Format; v < 1 || v > Version {
		return nil, fmt.Errorf("%w: it has format %d, this program reads 1 to %d", ErrFormat, v, Version)
	}
	return rd, nil
}

// Meta describes the recording.
func (r *Reader) Meta() Meta { return r.meta }

// Next returns the next pass of the recording. After the last one it returns [io.EOF]. If the recording is truncated,
// the error matches [io.ErrUnexpectedEOF].
func (r *Reader) Next() (*PassData, error) {
	if r.err != nil {
		return nil, r.err
	}
	p, err := r.readPass()
	if err != nil && err != io.EOF {
		err = fmt.Errorf("recording: pass %d: %w", r.next, err)
	}
	r.err = err
	r.next++
	return p, err
}

func (r *Reader) readPass() (*PassData, error) {
	prefix := fmt.Sprintf("pass/%04d/", r.next)
	var files []File
	total := int64(0)
	for {
		h, err := r.tar.Next()
		if err == io.EOF && len(files) == 0 {
			return nil, io.EOF
		}
		if err != nil {
			return nil, unexpectedEOF(err)
		}
		name, ok := strings.CutPrefix(h.Name, prefix)
		if !ok {
			return nil, fmt.Errorf("%w: %q does not belong here", ErrFormat, h.Name)
		}
		if name == "readings.json" {
			return r.decodeReadings(h, files)
		}
		f, err := r.readFile(h, name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		if total += int64(len(f.Data)); total > r.limits.Pass || len(files) > r.limits.Files {
			return nil, fmt.Errorf("%w: more than %d files or %d bytes", ErrFormat, r.limits.Files, r.limits.Pass)
		}
	}
}

func (r *Reader) decodeReadings(h *tar.Header, files []File) (*PassData, error) {
	data, err := r.readData(h, r.limits.Readings)
	if err != nil {
		return nil, fmt.Errorf("readings.json: %w", err)
	}
	p, err := r.dec.decodePass(data)
	if err != nil {
		return nil, fmt.Errorf("%w: readings.json: %w", ErrFormat, err)
	}
	p.Files = files
	return p, nil
}

func (r *Reader) readFile(h *tar.Header, name string) (File, error) {
	name, ok := strings.CutPrefix(name, "root/")
	if !ok || !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) {
		return File{}, fmt.Errorf("%w: bad name %s", ErrFormat, strconv.Quote(h.Name))
	}
	switch h.Typeflag {
	case tar.TypeReg:
		data, err := r.readData(h, r.limits.File)
		if err != nil {
			return File{}, fmt.Errorf("%s: %w", strconv.Quote(name), err)
		}
		return File{Path: name, Data: data}, nil
	case tar.TypeSymlink:
		if h.Linkname == "" || strings.ContainsRune(h.Linkname, 0) {
			return File{}, fmt.Errorf("%w: %s is a link to nothing", ErrFormat, strconv.Quote(name))
		}
		return File{Path: name, Link: h.Linkname}, nil
	}
	return File{}, fmt.Errorf("%w: %s is neither a file nor a link", ErrFormat, strconv.Quote(name))
}

// readData reads the contents of an entry. It does not trust the declared size.
func (r *Reader) readData(h *tar.Header, limit int64) ([]byte, error) {
	if h.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("%w: not a regular file", ErrFormat)
	}
	data, err := io.ReadAll(io.LimitReader(r.tar, limit+1))
	if err != nil {
		return nil, unexpectedEOF(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrFormat, limit)
	}
	return data, nil
}

// unexpectedEOF turns an unexpected end of the file into io.ErrUnexpectedEOF.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("cut off: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// limitedReader fails if the decompressed data exceeds a limit, as with a decompression bomb.
type limitedReader struct {
	r    io.Reader
	left int64
}

// Read reads from the reader underneath.
func (b *limitedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: it unpacks to more than the limit", ErrFormat)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
