package importer

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"reckon/interop/batchlog"
	"reckon/interop/sacct"
)

// formatHead is the number of bytes of an input that are inspected.
const formatHead = 16 << 10

// open unpacks an input, and imports it if it is the accounting of another batch system than Slurm: then there is nothing more to read.
func (im *Importer) open(ctx context.Context, in io.Reader) (*bufio.Reader, error) {
	in, err := Unpack(in)
	if err != nil {
		return nil, err
	}
	br := bufio.NewReaderSize(in, formatHead)
	head, err := br.Peek(formatHead)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	if kind := batchlog.Format(head); kind != "" {
		return bufio.NewReader(strings.NewReader("")), im.countDamaged(
			batchlog.Read(br, kind, func(j *sacct.Job) error { return im.readJob(ctx, j) }, im.addError))
	}
	return br, nil
}

// Unpack unpacks gzip, recognised by its first bytes, and returns other input unchanged.
func Unpack(in io.Reader) (io.Reader, error) {
	br := bufio.NewReader(in)
	head, err := br.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return &unpacked{in: br}, nil
	}
	return br, nil
}

// ErrDamaged means truncated or corrupt gzip: the data before the damage is used.
var ErrDamaged = errors.New("the compressed file is truncated or corrupt; the data before that is imported")

// unpacked is a gzip stream that distinguishes its own errors from the underlying reader's.
type unpacked struct {
	in  *bufio.Reader
	z   *gzip.Reader
	err error // the first error, which persists
}

func (u *unpacked) Read(b []byte) (n int, err error) {
	if u.z == nil && u.err == nil {
		u.z, u.err = gzip.NewReader(u.in)
	}
	if u.err == nil {
		n, u.err = u.z.Read(b)
	}
	var corrupt flate.CorruptInputError
	if u.z == nil && errors.Is(u.err, io.EOF) || errors.Is(u.err, gzip.ErrHeader) || errors.Is(u.err, gzip.ErrChecksum) ||
		errors.Is(u.err, io.ErrUnexpectedEOF) || errors.As(u.err, &corrupt) {
		u.err = fmt.Errorf("%w: %w", ErrDamaged, u.err)
	}
	return n, u.err
}
