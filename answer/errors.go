package answer

import "errors"

// Reasons why a query has no answer, for use with errors.Is.
var (
	// ErrInvalid: the question is malformed.
	ErrInvalid = errors.New("invalid question")
	// ErrNotFound: the subject of the question does not exist.
	ErrNotFound = errors.New("not found")
	// ErrBusy: the question can be answered later.
	ErrBusy = errors.New("busy")
)

// Error is an error with the reason why a query has no answer.
type Error struct {
	Reason error  // ErrInvalid, ErrNotFound or ErrBusy
	Hint   string // remedy; may be empty
	Err    error  // the cause, for people
}

// Error returns the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the reason and the cause.
func (e *Error) Unwrap() []error { return []error{e.Reason, e.Err} }

// Invalid returns the error for a malformed question.
func Invalid(hint string, err error) error { return &Error{ErrInvalid, hint, err} }

// NotFound returns the error for a question about something that does not exist.
func NotFound(hint string, err error) error { return &Error{ErrNotFound, hint, err} }

// Busy returns the error for a question that can be answered later.
func Busy(hint string, err error) error { return &Error{ErrBusy, hint, err} }
