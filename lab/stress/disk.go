package stress

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DiskMode determines how bytes reach the storage.
type DiskMode string

// Modes of the disk load.
const (
	DiskAuto   DiskMode = "auto"   // direct if the file system supports it, else sync
	DiskDirect DiskMode = "direct" // O_DIRECT: past the page cache
	DiskSync   DiskMode = "sync"   // through the page cache, fdatasync after each piece
	DiskCached DiskMode = "cached" // into the page cache; the kernel decides when to write
)

// diskLoad reads from and writes to one file at a rate.
type diskLoad struct {
	dir  string
	keep bool
	size int64
	mode DiskMode // after open: the mode in use

	file          *os.File
	buf           []byte
	read, written atomic.Int64
}

const (
	blockSize     = 4096 // O_DIRECT requires multiples of the block size of the device
	pieceSize     = 1 << 20
	writeInterval = 10 * time.Millisecond // how often bytes are due
)

// openFile creates the file. Unless the file is to be kept, it is unlinked at once or created without a name, so that
// nothing remains if the program is killed.
func (d *diskLoad) openFile(needsRead bool, stop *atomic.Bool) error {
	if d.dir == "" {
		d.dir = "."
	}
	if d.size < pieceSize {
		return fmt.Errorf("a file of %d bytes for the disk load: give %d or more", d.size, pieceSize)
	}
	d.size = d.size / pieceSize * pieceSize
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		return fmt.Errorf("disk load in %s: %w", d.dir, err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < d.size+d.size/10 {
		return fmt.Errorf("%w: the disk load needs a file of %d bytes, and %s has %d bytes free; give --dir or a smaller --disk-size",
			ErrUnavailable, d.size, d.dir, free)
	}
	var err error
	if d.buf, err = unix.Mmap(-1, 0, pieceSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		return fmt.Errorf("disk load: buffer: %w", err)
	}
	seed := uint64(time.Now().UnixNano()) | 1 // random content, against compression and deduplication
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(d.buf))), len(d.buf)/8)
	for i := range words {
		seed ^= seed << 13
		seed ^= seed >> 7
		seed ^= seed << 17
		words[i] = seed
	}
	if d.mode == DiskAuto || d.mode == "" {
		if d.file, err = d.createFile(unix.O_DIRECT); err == nil {
			// Some file systems open with O_DIRECT and then refuse to write.
			if _, err = d.file.WriteAt(d.buf[:blockSize], 0); err == nil {
				d.mode = DiskDirect
				return d.fillFile(needsRead, stop)
			}
			d.file.Close()
		}
		d.mode = DiskSync
	}
	flags := 0
	if d.mode == DiskDirect {
		flags = unix.O_DIRECT
	}
	if d.file, err = d.createFile(flags); err != nil {
		return fmt.Errorf("disk load: %w", err)
	}
	return d.fillFile(needsRead, stop)
}

func (d *diskLoad) createFile(flags int) (*os.File, error) {
	if !d.keep {
		fd, err := unix.Open(d.dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC|flags, 0o600)
		if err == nil {
			return os.NewFile(uintptr(fd), filepath.Join(d.dir, "(unnamed)")), nil
		}
	}
	name := filepath.Join(d.dir, fmt.Sprintf("reckon-stress-%d", os.Getpid()))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|flags, 0o600)
	if errors.Is(err, fs.ErrExist) && d.keep {
		return nil, fmt.Errorf("%w: remove it first", err)
	}
	if err != nil {
		return nil, err
	}
	if !d.keep {
		if err := os.Remove(name); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// fillFile fills the file once if it is to be read.
func (d *diskLoad) fillFile(needsRead bool, stop *atomic.Bool) error {
	if !needsRead {
		return nil
	}
	for at := int64(0); at < d.size && !stop.Load(); at += pieceSize {
		if _, err := d.file.WriteAt(d.buf, at); err != nil {
			return fmt.Errorf("disk load: lay the file to read from: %w", err)
		}
	}
	if err := d.file.Sync(); err != nil {
		return fmt.Errorf("disk load: lay the file to read from: %w", err)
	}
	return nil
}

func (d *diskLoad) close() error {
	var err error
	if d.file != nil {
		err = d.file.Close()
	}
	if d.buf != nil {
		err = errors.Join(err, unix.Munmap(d.buf))
	}
	if err != nil {
		return fmt.Errorf("disk load: close: %w", err)
	}
	return nil
}

// byteStream transfers bytes at the rate of a curve by calling move with the number of bytes. That number is a multiple of
// unit and no more than max. stream ends with the program, when stop is set, or after an error.
type byteStream struct {
	clock    programClock
	curve    *targetCurve
	unit     int
	max      int
	done     *atomic.Int64
	interval time.Duration
	move     func(n int) (int, error)
}

func (s *byteStream) run(stop *atomic.Bool, wait func(time.Duration) bool) error {
	p := pacer{targetCurve: s.curve}
	end := s.curve.end()
	for next := time.Duration(0); ; next += s.interval {
		now := s.clock.elapsed()
		next = max(next, now/s.interval*s.interval) // missed intervals are skipped
		at := min(next, end)
		if !wait(at) {
			return nil
		}
		for !stop.Load() {
			owed := p.amountDue(at, float64(s.done.Load())*1e9) / 1e9
			n := min(int(owed), s.max) / s.unit * s.unit
			if n <= 0 {
				break
			}
			n, err := s.move(n)
			s.done.Add(int64(n))
			if err != nil {
				return err
			}
			if s.clock.elapsed() >= end {
				return nil // do not write the remaining deficit after the end
			}
		}
		if stop.Load() || at >= end {
			return nil
		}
	}
}

// writer returns the step of a stream that writes around the file.
func (d *diskLoad) writer() func(int) (int, error) {
	var at int64
	return func(n int) (int, error) {
		if at+int64(n) > d.size {
			at = 0
		}
		got, err := d.file.WriteAt(d.buf[:n], at)
		at += int64(got)
		if err == nil && d.mode == DiskSync {
			err = unix.Fdatasync(int(d.file.Fd()))
		}
		if err != nil {
			return got, fmt.Errorf("write to the disk in %s: %w", d.dir, err)
		}
		return got, nil
	}
}

// reader returns the step of a stream that reads around the file.
func (d *diskLoad) reader() (func(int) (int, error), error) {
	buf, err := unix.Mmap(-1, 0, pieceSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("disk load: buffer: %w", err)
	}
	var at int64
	return func(n int) (int, error) {
		if at+int64(n) > d.size {
			at = 0
		}
		if d.mode != DiskCached && d.mode != DiskDirect {
			// Data in the page cache would not be read from the storage.
			_ = unix.Fadvise(int(d.file.Fd()), at, int64(n), unix.FADV_DONTNEED)
		}
		got, err := d.file.ReadAt(buf[:n], at)
		at += int64(got)
		if err != nil {
			return got, fmt.Errorf("read from the disk in %s: %w", d.dir, err)
		}
		return got, nil
	}, nil
}
