package access

import "errors"

// Why a request is refused, for errors.Is.
var (
	// ErrUnauthenticated: the sender must say who it is, or said so wrongly.
	ErrUnauthenticated = errors.New("not signed in")
	// ErrForbidden: the viewer may not do or see that.
	ErrForbidden = errors.New("forbidden")
	// ErrThrottled: too many failed attempts; later ones may succeed.
	ErrThrottled = errors.New("too many attempts")
	// ErrUndecided: the server can not tell what the sender may do, by a fault of its own.
	ErrUndecided = errors.New("access is undecided")
)

// Refusal is why a request is refused.
type Refusal struct {
	Reason error  // one of the errors above
	Hint   string // what to do; may be empty
	Err    error  // the cause, for people
}

// Refuse returns a [Refusal].
func Refuse(reason error, hint string, err error) error { return &Refusal{reason, hint, err} }

// Error is the text of the cause.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap gives the reason and the cause.
func (r *Refusal) Unwrap() []error { return []error{r.Reason, r.Err} }
