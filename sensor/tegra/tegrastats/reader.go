package tegrastats

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// Reader follows a file or named pipe that tegrastats writes to, such as FILE in `tegrastats
// --interval 1000 --logfile FILE`. It never blocks. It reads a truncated or replaced file from the
// start.
//
// It returns nothing if there was no line for [Stale], so that the figures of a program that died
// are absent instead of frozen.
type Reader struct {
	path   string
	fd     int
	inode  uint64
	offset int64
	fifo   bool
	buf    [8192]byte
	n      int // length of the incomplete line in buf
	skip   bool
	parser Parser
	stats  Stats // of the newest line
	next   Stats // of the line under construction
	seen   time.Time
	looked time.Time // when the path was last compared with the open file
}

// Stale is the maximum age of the last line: three of the longest intervals in use.
const Stale = 15 * time.Second

// reopenInterval is the interval at which the reader checks whether the file was replaced.
const reopenInterval = 2 * time.Second

// NewReader returns a reader of path, which need not exist yet.
func NewReader(path string) *Reader { return &Reader{path: path, fd: -1} }

// Read returns the figures of the newest complete line, or an error with the reason why there is none.
func (r *Reader) Read(now time.Time) (*Stats, error) {
	if r.fd < 0 || now.Sub(r.looked) >= reopenInterval {
		r.looked = now
		if err := r.reopen(); err != nil {
			return nil, fmt.Errorf("follow tegrastats: open %s: %w; start `tegrastats --interval 1000 --logfile %s`", r.path, err, r.path)
		}
	}
	for range 64 { // at most half a megabyte at once
		var n int
		var err error
		if r.fifo {
			n, err = unix.Read(r.fd, r.buf[r.n:])
		} else {
			n, err = unix.Pread(r.fd, r.buf[r.n:], r.offset)
		}
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || (err == nil && n == 0) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", r.path, err)
		}
		r.offset += int64(n)
		r.n += n
		r.parseLines(now)
	}
	if r.seen.IsZero() {
		return nil, fmt.Errorf("read %s: no line of tegrastats yet; is it running?", r.path)
	}
	if now.Sub(r.seen) > Stale {
		return nil, fmt.Errorf("read %s: tegrastats has written nothing for more than %v; start it again", r.path, Stale)
	}
	return &r.stats, nil
}

// parseLines parses the complete lines in the buffer and keeps the rest.
func (r *Reader) parseLines(now time.Time) {
	b := r.buf[:r.n]
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		if !r.skip && r.parser.Parse(b[:i], &r.next) {
			r.stats, r.next = r.next, r.stats
			r.seen = now
		}
		r.skip = false
		b = b[i+1:]
	}
	if len(b) == len(r.buf) { // no line of tegrastats is that long
		b, r.skip = b[:0], true
	}
	r.n = copy(r.buf[:], b)
}

// reopen opens the file, also after another file has replaced it.
func (r *Reader) reopen() error {
	var st unix.Stat_t
	if err := unix.Stat(r.path, &st); err != nil {
		if errors.Is(err, fs.ErrNotExist) && r.fd >= 0 {
			return nil // The file was removed while open; later lines can still be read.
		}
		return err
	}
	if r.fd >= 0 && st.Ino == r.inode {
		if !r.fifo && st.Size < r.offset {
			r.offset, r.n, r.skip = 0, 0, false
		}
		return nil
	}
	first := r.fd < 0 && r.inode == 0
	fd, err := unix.Open(r.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_ = r.Close()
	r.fd, r.inode, r.fifo = fd, st.Ino, st.Mode&unix.S_IFMT == unix.S_IFIFO
	r.offset, r.n, r.skip = 0, 0, false
	if tail := st.Size - 4096; !r.fifo && first && tail > 0 {
		r.offset, r.skip = tail, true // start with the last lines of the existing content
	}
	if !r.fifo && first {
		return r.skipFinished(&st)
	}
	return nil
}

// skipFinished skips a file that was finished before: its lines are outdated.
func (r *Reader) skipFinished(st *unix.Stat_t) error {
	if time.Since(time.Unix(st.Mtim.Unix())) > Stale {
		r.offset, r.skip = st.Size, false
	}
	return nil
}

// Close closes the file. Calling it again does nothing.
func (r *Reader) Close() error {
	if r.fd < 0 {
		return nil
	}
	err := unix.Close(r.fd)
	r.fd = -1
	return err
}
