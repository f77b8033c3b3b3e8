package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"time"
)

// Record is one record of the queue.
type Record struct {
	Time time.Time // when it was put
	Data []byte

	at position
}

// Peek returns the oldest record, or ErrEmpty if there is none. The record stays in the queue until [Queue.Done]. Peek
// stores the data in buf if buf is large enough, and otherwise allocates.
func (q *Queue) Peek(buf []byte) (Record, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return Record{}, ErrClosed
	}
	for {
		n, t, err := q.readHeader()
		if err == nil && q.isExpired(t) {
			q.stats.Expired++
			if err := q.advance(n); err != nil {
				return Record{}, err
			}
			continue
		}
		if err == nil {
			buf = slices.Grow(buf[:0], n)[:n]
			if err = q.readAt(buf, q.at.offset+headerBytes); err == nil && q.recordChecksum(buf) != binary.LittleEndian.Uint32(q.head[4:]) {
				err = errDamaged
			}
		}
		switch {
		case err == nil:
			return Record{Time: t, Data: buf, at: q.at}, nil
		case errors.Is(err, errDamaged):
			if err := q.skipDamaged(); err != nil {
				return Record{}, err
			}
		default:
			return Record{}, err
		}
	}
}

// Done removes the record, which is the oldest unless it was dropped meanwhile.
func (q *Queue) Done(r Record) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	if r.at != q.at || len(q.segments) == 0 {
		return nil // the queue was full and dropped it
	}
	return q.advance(len(r.Data))
}

func (q *Queue) isExpired(t time.Time) bool {
	return q.o.MaxAge >= 0 && q.o.Clock().Sub(t) > q.o.MaxAge
}

// readHeader reads the header of the next record into q.head and continues with the next segment at the end of one.
func (q *Queue) readHeader() (n int, t time.Time, err error) {
	for len(q.segments) > 0 && q.at.offset >= q.segments[0].size {
		if len(q.segments) == 1 {
			return 0, time.Time{}, ErrEmpty
		}
		if err := q.dropFirst(); err != nil {
			return 0, time.Time{}, err
		}
	}
	if len(q.segments) == 0 {
		return 0, time.Time{}, ErrEmpty
	}
	if err := q.readAt(q.head[:], q.at.offset); err != nil {
		return 0, time.Time{}, err
	}
	length := int64(binary.LittleEndian.Uint32(q.head[:]))
	if length == 0 || length > maxRecord || q.at.offset+headerBytes+length > q.segments[0].size {
		return 0, time.Time{}, errDamaged
	}
	return int(length), time.UnixMilli(int64(binary.LittleEndian.Uint64(q.head[8:]))), nil
}

func (q *Queue) readAt(b []byte, at int64) error {
	n, err := q.segments[0].file.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if n < len(b) && isEOF(err) {
		return errDamaged // the file was truncated
	}
	return fmt.Errorf("read queue %s: %w", q.segments[0].name, err)
}

func (q *Queue) recordChecksum(data []byte) uint32 {
	return crc32.Update(crc32.Checksum(q.head[8:], castagnoli), castagnoli, data)
}

// advance moves the read position past a record with n bytes of data. After the last record it also removes the segment,
// so that the queue of an agent with a good connection takes no disk space.
func (q *Queue) advance(n int) error {
	s := q.segments[0]
	s.waiting--
	q.stats.Records--
	if err := q.storePosition(position{s.id, q.at.offset + headerBytes + int64(n)}); err != nil {
		return err
	}
	if len(q.segments) > 1 || q.at.offset < s.size {
		return nil
	}
	return q.removeLastSegment()
}

// removeLastSegment removes the only segment after it was read to its end.
func (q *Queue) removeLastSegment() error {
	s := q.segments[0]
	if err := q.storePosition(position{s.id + 1, fileHeaderBytes}); err != nil {
		return err
	}
	q.at.segment = s.id // the next segment made is the one at the position
	q.segments = q.segments[:0]
	q.stats.Bytes -= s.size
	q.stats.Records -= s.waiting
	q.synced = true
	return errors.Join(s.file.Close(), os.Remove(s.name))
}

// skipDamaged skips the rest of a damaged segment, because the boundaries of its records are unknown.
func (q *Queue) skipDamaged() error {
	s := q.segments[0]
	q.stats.Damaged += uint64(s.size - q.at.offset)
	if len(q.segments) > 1 {
		return q.dropFirst()
	}
	return q.removeLastSegment()
}

// storePosition stores the reader's position.
func (q *Queue) storePosition(to position) error {
	if err := writePosition(q.cursor, to); err != nil {
		return fmt.Errorf("write the place in queue %s: %w", q.o.Dir, err)
	}
	q.at = to
	return nil
}
