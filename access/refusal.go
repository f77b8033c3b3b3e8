package access

import "errors"

// Reasons of a refusal, for errors.Is.
var (
	// ErrUnauthenticated means that the sender gave no credentials, or invalid ones.
	ErrUnauthenticated = errors.New("not signed in")
	// ErrForbidden means that the viewer may not perform the action or see the data.
	ErrForbidden = errors.New("forbidden")
	// ErrThrottled means that there were too many failed attempts. Later ones may succeed.
	ErrThrottled = errors.New("too many attempts")
	// ErrUndecided means that the server could not determine the sender's rights because of an internal error.
	ErrUndecided = errors.New("access is undecided")
)

// Refusal is the error of a denied request.
type Refusal struct {
	Reason error  // one of the errors above
	Hint   string // remedy; may be empty
	Err    error  // the cause, for people
}

// Refuse returns a [Refusal].
func Refuse(reason error, hint string, err error) error { return &Refusal{reason, hint, err} }

// Error returns the text of the cause.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the reason and the cause.
func (r *Refusal) Unwrap() []error { return []error{r.Reason, r.Err} }
