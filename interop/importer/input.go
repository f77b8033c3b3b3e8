package importer

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
)

// open unpacks an input. Input recognised as that of another program is not read further.
func (im *Importer) open(in io.Reader) (*bufio.Reader, error) {
	in, err := Plain(in)
	if err != nil {
		return nil, err
	}
	br := bufio.NewReaderSize(in, foreignHead)
	head, err := br.Peek(foreignHead)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	if system := foreign(head); system != "" {
		im.bad(
			0, fmt.Errorf(
				"this is an accounting log of %s, which is not supported: import the accounting of Slurm (sacct) or the files of sonar",
				system))
		return bufio.NewReader(strings.NewReader("")), nil
	}
	return br, nil
}

// Plain unpacks gzip, recognised by its first bytes, and returns other input unchanged.
func Plain(in io.Reader) (io.Reader, error) {
	var head [2]byte
	n, err := io.ReadFull(in, head[:])
	if errors.Is(err, io.EOF) {
		return in, nil
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	whole := io.MultiReader(&prefix{head[:n]}, in)
	if n == 2 && head[0] == 0x1f && head[1] == 0x8b {
		return &unpacked{in: &watched{r: whole}}, nil
	}
	return whole, nil
}

// ErrDamaged means truncated or corrupt gzip: the data before the damage is used.
var ErrDamaged = errors.New("the compressed file is truncated or corrupt; the data before that is imported")

// unpacked is a gzip stream. It keeps its own errors separate from those of the
// underlying reader.
type unpacked struct {
	in  *watched
	z   *gzip.Reader
	err error // the first error, which persists
}

func (u *unpacked) Read(b []byte) (n int, err error) {
	if u.err != nil {
		return 0, u.err
	}
	defer func() { u.err = err }()
	if u.z == nil {
		u.z, err = gzip.NewReader(u.in)
	}
	if err == nil {
		n, err = u.z.Read(b)
	}
	switch {
	case err == nil, u.in.err == nil && u.z != nil && errors.Is(err, io.EOF):
	case u.in.err != nil:
		err = u.in.err
	default:
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return n, err
}

// watched records the error of a reader, except for io.EOF.
type watched struct {
	r   io.Reader
	err error
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

type prefix struct{ rest []byte }

func (p *prefix) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}
