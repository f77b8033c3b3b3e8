package store

import (
	"errors"
	"fmt"
)

// Errors of a [Writer], for errors.Is. A sender retries a batch on ErrFull, ErrDamaged and ErrUnavailable. It never
// retries on the others, because the store would refuse those samples again.
var (
	// ErrTooOld: the sample is older than the store accepts.
	ErrTooOld = errors.New("sample too old")
	// ErrFuture: the time of the batch is too far ahead of the store's clock.
	ErrFuture = errors.New("sample is in the future")
	// ErrConflict means that the series has another value at the same time.
	ErrConflict = errors.New("another value is stored for the same time")
	// ErrInvalid: a malformed sample, such as a histogram that does not add up.
	ErrInvalid = errors.New("invalid sample")
	// ErrFull: the disk is full.
	ErrFull = errors.New("no space left for the store")
	// ErrDamaged: the store waits to repair itself.
	ErrDamaged = errors.New("store needs repair")
	// ErrLocked: another process uses the directory.
	ErrLocked = errors.New("store is in use")
	// ErrUnavailable: the store is remote and cannot be reached, or cannot serve the request at present.
	ErrUnavailable = errors.New("store is not available")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
)

// RefusedError names the samples of a write that will never be accepted. The other samples were stored.
type RefusedError struct {
	Refused, Stored int
	Reasons         []error // errors of some of the refused samples
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("%d samples refused, %d stored", e.Refused, e.Stored)
	if len(e.Reasons) > 0 {
		text += ": " + errors.Join(e.Reasons...).Error()
	}
	return text
}

func (e *RefusedError) Unwrap() []error { return e.Reasons }

// Reachable is a remote store.
type Reachable interface {
	// Down returns an error with the time and cause since which the store is unreachable; nil when it is reachable.
	Down() error
}
