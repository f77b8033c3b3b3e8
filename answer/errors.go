package answer

import "errors"

// Why a question has no answer, for errors.Is.
var (
	// ErrInvalid: it can not be answered as it was put.
	ErrInvalid = errors.New("invalid question")
	// ErrNotFound: what it is about does not exist.
	ErrNotFound = errors.New("not found")
	// ErrBusy: it can be answered later.
	ErrBusy = errors.New("busy")
)

// Error is why a question has no answer.
type Error struct {
	Reason error  // ErrInvalid, ErrNotFound or ErrBusy
	Hint   string // what to do; may be empty
	Err    error  // the cause, for people
}

// Error is the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the reason and the cause.
func (e *Error) Unwrap() []error { return []error{e.Reason, e.Err} }

// Invalid refuses a question that can not be answered as it was put.
func Invalid(hint string, err error) error { return &Error{ErrInvalid, hint, err} }

// NotFound refuses a question about what does not exist.
func NotFound(hint string, err error) error { return &Error{ErrNotFound, hint, err} }

// Busy refuses a question for now.
func Busy(hint string, err error) error { return &Error{ErrBusy, hint, err} }
