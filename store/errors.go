package store

import (
	"errors"
	"fmt"
)

// What a [Writer] refuses or can not do, for errors.Is. A sender repeats a batch
// later on ErrFull, ErrDamaged and ErrUnavailable, and never on the others: the store will not
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
	// ErrUnavailable: the store is elsewhere and can not be reached now, or can not do it now.
	ErrUnavailable = errors.New("store is not available")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
)

// RefusedError says which samples of a write will never be taken; the others were stored.
type RefusedError struct {
	Refused, Stored int
	Reasons         []error // of some of them
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("%d samples refused, %d stored", e.Refused, e.Stored)
	if len(e.Reasons) > 0 {
		text += ": " + errors.Join(e.Reasons...).Error()
	}
	return text
}

func (e *RefusedError) Unwrap() []error { return e.Reasons }

// Reachable is a store that is elsewhere.
type Reachable interface {
	// Down says since when and why the store can not be asked; nil when it can.
	Down() error
}
