package tsdb

import (
	"fmt"
	"math"

	"reckon/internal/dirty"
	"reckon/store"
)

// dirtyFile is the journal of hours that got samples late. It is no file of the database.
const dirtyFile = "dirty.json"

// lateBefore returns the time before which samples are late when the newest one is of the given time.
func lateBefore(newest int64) int64 {
	if newest == math.MinInt64 {
		return newest
	}
	return newest - store.LateAfter.Milliseconds()
}

// Dirty implements [store.Series].
func (s *Store) Dirty() (store.DirtyHours, error) { return s.dirty.Snapshot() }

// Clean implements [store.Series].
func (s *Store) Clean(d store.DirtyHours) error { return s.dirty.Clean(d) }

// noteLate marks hours before writing to them. If it succeeds, end must be called afterwards.
func (s *Store) noteLate(l *dirty.Late) (end func(), err error) {
	end, err = s.dirty.Begin(l)
	if err != nil && isDiskFull(err) {
		return nil, fullDisk(s.opts.Dir, err)
	}
	return end, err
}

// fullDisk returns an error about a full disk with the remedy.
func fullDisk(dir string, err error) error {
	return fmt.Errorf("%w: %w (free space on the disk of %s)", store.ErrFull, err, dir)
}
