package store

import "errors"

// What a [Writer] refuses or can not do, for errors.Is. A sender repeats a batch
// later on ErrFull and ErrDamaged, and never on the others: the store will not
// take those samples, however often they come.
var (
	// ErrTooOld: the sample is older than the store still takes.
	ErrTooOld = errors.New("sample too old")
	// ErrFuture: the time of the batch lies too far ahead of the store's clock.
	ErrFuture = errors.New("sample lies in the future")
	// ErrConflict: the series has another value at the same time.
	ErrConflict = errors.New("another value is stored for the same time")
	// ErrInvalid: a sample that says nothing, such as a histogram that does not add up.
	ErrInvalid = errors.New("invalid sample")
	// ErrFull: the disk is full.
	ErrFull = errors.New("no space left for the store")
	// ErrDamaged: the store waits to repair itself.
	ErrDamaged = errors.New("store needs repair")
	// ErrLocked: another process uses the directory.
	ErrLocked = errors.New("store is in use")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
)
