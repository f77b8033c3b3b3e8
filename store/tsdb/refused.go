package tsdb

import (
	"errors"
	"fmt"
	"strings"

	"reckon/metric"
	"reckon/store"
)

// AppendError names the refused samples of a batch; the others are stored.
type AppendError struct {
	Stored, Refused int
	// Causes holds one error for each reason, with the first series it befell.
	Causes []Cause
}

// Cause is one reason for refusing samples.
type Cause struct {
	Err    error // matches one of the errors of package store
	Series string
	Count  int
}

var refusalReasons = []error{store.ErrTooOld, store.ErrConflict, store.ErrInvalid}

func (e *AppendError) add(s *metric.Series, err error) {
	e.Refused++
	for i := range e.Causes {
		for _, r := range refusalReasons {
			if errors.Is(err, r) && errors.Is(e.Causes[i].Err, r) {
				e.Causes[i].Count++
				return
			}
		}
	}
	e.Causes = append(e.Causes, Cause{Err: err, Series: describeSeries(s), Count: 1})
}

// Error names the number, the reasons and the first series of each.
func (e *AppendError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d samples refused", e.Refused, e.Refused+e.Stored)
	for _, c := range e.Causes {
		fmt.Fprintf(&b, "; %d: %v (first: %s)", c.Count, c.Err, c.Series)
	}
	return b.String()
}

// Unwrap makes the reasons visible to errors.Is.
func (e *AppendError) Unwrap() []error {
	errs := make([]error, len(e.Causes))
	for i := range e.Causes {
		errs[i] = e.Causes[i].Err
	}
	return errs
}

func describeSeries(s *metric.Series) string {
	var b strings.Builder
	b.WriteString(s.Desc.Name)
	for i, v := range s.Values {
		sep := ", "
		if i == 0 {
			sep = "{"
		}
		fmt.Fprintf(&b, "%s%s=%q", sep, s.Desc.Labels[i], v)
	}
	if len(s.Values) > 0 {
		b.WriteByte('}')
	}
	return b.String()
}
