package access

// Refusal is an error that says how a request is refused: with which HTTP status, why,
// and what the caller can do about it.
type Refusal struct {
	Status int    // an HTTP status of 400 and above
	Hint   string // what to do; may be empty
	Err    error
}

// Refuse returns a [Refusal].
func Refuse(status int, hint string, err error) error { return &Refusal{status, hint, err} }

func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap gives the cause.
func (r *Refusal) Unwrap() error { return r.Err }
