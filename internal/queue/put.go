package queue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Put appends a record. It returns ErrTooBig for a record larger than the maximum segment or the whole queue.
func (q *Queue) Put(data []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	need := int64(headerBytes + len(data))
	if len(data) == 0 || len(data) > maxRecord || need+fileHeaderBytes > q.o.MaxBytes {
		return fmt.Errorf("put %d bytes into queue %s: %w", len(data), q.o.Dir, ErrTooBig)
	}
	now := q.o.Clock()
	if err := q.expire(now); err != nil {
		return q.putError(err)
	}
	if len(q.segments) == 0 || q.lastSegment().size >= q.o.SegmentBytes || q.stats.Bytes+need > q.o.MaxBytes {
		if err := q.startSegment(); err != nil {
			return q.putError(err)
		}
	}
	for q.stats.Bytes+need > q.o.MaxBytes && len(q.segments) > 1 {
		q.stats.Dropped += uint64(q.segments[0].waiting)
		if err := q.dropFirst(); err != nil {
			return q.putError(err)
		}
	}
	if err := q.lastSegment().appendRecord(now, data); err != nil {
		return q.putError(err)
	}
	q.stats.Bytes += need
	q.stats.Records++
	q.synced = false
	q.notifyReader()
	return nil
}

func (q *Queue) putError(err error) error { return fmt.Errorf("put into queue %s: %w", q.o.Dir, err) }

// startSegment starts a new last segment, unless the last one is empty.
func (q *Queue) startSegment() error {
	id := q.at.segment + 1 // segments before the position are never made again
	if len(q.segments) > 0 {
		last := q.lastSegment()
		if last.size == fileHeaderBytes {
			return nil
		}
		if !q.synced {
			if err := fdatasync(last.file); err != nil {
				return err
			}
			q.synced = true
		}
		id = last.id + 1
	}
	s, err := newSegment(filepath.Join(q.o.Dir, segmentName(id)), id)
	if err != nil {
		return err
	}
	q.segments = append(q.segments, s)
	q.stats.Bytes += s.size
	if len(q.segments) == 1 {
		return q.storePosition(position{id, fileHeaderBytes})
	}
	return nil
}

// expire drops segments with only expired records.
func (q *Queue) expire(now time.Time) error {
	if q.o.MaxAge < 0 {
		return nil
	}
	limit := now.Add(-q.o.MaxAge).UnixMilli()
	for len(q.segments) > 1 && q.segments[0].newest < limit {
		q.stats.Expired += uint64(q.segments[0].waiting)
		if err := q.dropFirst(); err != nil {
			return err
		}
	}
	return nil
}

// dropFirst removes the oldest segment of two or more. It first stores a read position in the next segment, so that
// opening the queue can finish the removal after a crash.
func (q *Queue) dropFirst() error {
	s := q.segments[0]
	if q.at.segment == s.id {
		if err := q.storePosition(position{q.segments[1].id, fileHeaderBytes}); err != nil {
			return err
		}
	}
	q.segments = q.segments[1:]
	q.stats.Records -= s.waiting
	q.stats.Bytes -= s.size
	return errors.Join(s.file.Close(), os.Remove(s.name))
}
