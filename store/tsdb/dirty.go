package tsdb

import (
	"fmt"
	"math"

	"reckon/internal/dirty"
	"reckon/store"
)

// dirtyFile is our journal of hours with late samples. It does not belong to the database.
const dirtyFile = "dirty.json"

// lateBefore returns the time before which samples are late, if the newest sample has the given time.
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
		return nil, diskFullError(s.opts.Dir, err)
	}
	return end, err
}

// diskFullError returns an error that says that the disk is full and what to do.
func diskFullError(dir string, err error) error {
	return fmt.Errorf("%w: %w (free space on the disk of %s)", store.ErrFull, err, dir)
}
