// Package queue keeps records on disk in order of arrival, until the reader has taken
// them: for example an agent's samples while the network is down.
//
// The queue is a log in segments. A record is a header of 16 bytes (length, CRC-32C of
// the rest, time in milliseconds since the Unix epoch; little endian) and its bytes; a
// segment is a file of records after 8 bytes that identify the format. The reader's
// position is in a file of its own, with a checksum.
//
// It is limited in bytes and in age. When it is full the oldest segment is dropped, and
// its records are counted in [Stats]; new records are never refused for lack of space.
//
// A process that is killed loses nothing that Put returned for. A power cut loses what
// the kernel had not written: at most the records since the last [Queue.Sync]. A torn end
// of a segment is cut off, a damaged middle is skipped and counted, and an unreadable
// position repeats records, and never skips any.
//
// One process uses a directory at a time. A Queue is safe for concurrent use.
package queue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Errors of a queue, for errors.Is.
var (
	ErrEmpty  = errors.New("the queue is empty")
	ErrLocked = errors.New("another process uses the queue")
	ErrTooBig = errors.New("record is larger than the limit of the queue")
	ErrClosed = errors.New("the queue is closed")
)

// Options configure a queue.
type Options struct {
	Dir      string
	MaxBytes int64         // of all segments, default 256 MiB
	MaxAge   time.Duration // of a record, default 7 days; negative is unlimited
	// SegmentBytes is the size from which a new segment is started, and thus the amount dropped at
	// a time if the queue is full. The default is a sixteenth of MaxBytes, between 64 KiB and 4
	// MiB.
	SegmentBytes int64
	// Clock is time.Now by default; tests replace it.
	Clock func() time.Time
}

func (o *Options) defaults() {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 20
	}
	if o.MaxAge == 0 {
		o.MaxAge = 7 * 24 * time.Hour
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = min(max(o.MaxBytes/16, 64<<10), 4<<20)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

// Stats is the state of a queue. The counters start with the process.
type Stats struct {
	Records int       // waiting
	Bytes   int64     // on disk
	Oldest  time.Time // of the waiting records; zero when there are none
	// Dropped counts unread records dropped because the queue was full, Expired those that were too
	// old, and Damaged the bytes that could not be read back.
	Dropped, Expired uint64
	Damaged          uint64
}

// Queue is an open queue.
type Queue struct {
	o    Options
	lock *os.File

	mu       sync.Mutex
	segments []*segment // oldest first; the last one is written to
	at       position   // position of the next record to read
	cursor   *os.File
	synced   bool // everything written has reached the disk
	closed   bool
	head     [headerBytes]byte
	stats    Stats
	ready    chan struct{}
}

// position is a position in the log.
type position struct {
	segment uint64
	offset  int64
}

// Open opens or creates the queue in o.Dir, and repairs it after an unclean shutdown.
func Open(o Options) (*Queue, error) {
	o.defaults()
	if o.Dir == "" {
		return nil, errors.New("open queue: no directory given")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	q := &Queue{o: o, synced: true, ready: make(chan struct{}, 1)}
	if err := q.open(); err != nil {
		q.closeFiles()
		return nil, fmt.Errorf("open queue %s: %w", o.Dir, err)
	}
	if q.stats.Records > 0 {
		q.notifyReader()
	}
	return q, nil
}

func (q *Queue) open() error {
	var err error
	if q.lock, err = os.OpenFile(filepath.Join(q.o.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := syscall.Flock(int(q.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return ErrLocked
		}
		return fmt.Errorf("lock: %w", err)
	}
	if q.cursor, err = os.OpenFile(filepath.Join(q.o.Dir, "place"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(q.o.Dir, "*"+segmentSuffix))
	if err != nil {
		return err
	}
	slices.Sort(names)
	at := readPosition(q.cursor)
	for _, name := range names {
		id, ok := parseSegmentName(filepath.Base(name))
		if !ok {
			continue // not a segment
		}
		if id < at.segment {
			if err := os.Remove(name); err != nil { // was read to its end before
				return err
			}
			continue
		}
		s, damaged, err := openSegment(name, id)
		if err != nil {
			return err
		}
		q.stats.Damaged += uint64(damaged)
		q.segments = append(q.segments, s)
	}
	q.resume(at)
	return nil
}

// resume finds the position to continue reading from, and counts the records after it.
func (q *Queue) resume(at position) {
	if at.segment > 0 {
		q.at.segment = at.segment - 1 // with nothing left, the next segment is the one at the position
	}
	for i, s := range q.segments {
		from := int64(fileHeaderBytes)
		if s.id == at.segment && s.isBoundary(at.offset) {
			from = at.offset
		}
		if i == 0 {
			q.at = position{s.id, from}
		}
		s.waiting = s.countFrom(from)
		q.stats.Records += s.waiting
		q.stats.Bytes += s.size
	}
}

// Ready receives a value when a record was put, for a reader that found the queue empty.
func (q *Queue) Ready() <-chan struct{} { return q.ready }

func (q *Queue) notifyReader() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Sync waits until all records put have reached the disk.
func (q *Queue) Sync() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	if q.synced || len(q.segments) == 0 {
		return nil
	}
	if err := fdatasync(q.lastSegment().file); err != nil {
		return fmt.Errorf("sync queue %s: %w", q.o.Dir, err)
	}
	q.synced = true
	return nil
}

// Stats returns the state of the queue.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	if !q.closed && s.Records > 0 {
		if _, at, err := q.readHeader(); err == nil {
			s.Oldest = at
		}
	}
	return s
}

// Close syncs and frees the queue. Waiting records are available when it is opened again.
func (q *Queue) Close() error {
	err := q.Sync()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	return errors.Join(err, q.closeFiles())
}

func (q *Queue) closeFiles() error {
	var errs []error
	for _, s := range q.segments {
		errs = append(errs, s.file.Close())
	}
	if q.cursor != nil {
		errs = append(errs, q.cursor.Close())
	}
	if q.lock != nil {
		errs = append(errs, q.lock.Close()) // releases the lock too
	}
	return errors.Join(errs...)
}

func (q *Queue) lastSegment() *segment { return q.segments[len(q.segments)-1] }
