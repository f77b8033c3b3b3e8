package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"reckon/access"
	"reckon/answer"
	"reckon/store"
	"reckon/web/client"
)

// statusError is a response other than 200.
type statusError struct {
	status int
	body   client.Error
}

func (e *statusError) Error() string { return e.body.Error }

func newError(status int, hint, format string, args ...any) error {
	return &statusError{status, client.Error{Error: fmt.Sprintf(format, args...), Hint: hint}}
}

// toStatusError converts any error to a response. The response contains the text of internal errors too, because such texts
// come from the store and contain no secrets.
func toStatusError(err error) *statusError {
	var s *statusError
	if e, ok := refusalStatus(err); ok {
		return e
	}
	switch {
	case errors.As(err, &s):
		return s
	case errors.Is(err, store.ErrUnavailable):
		return &statusError{http.StatusServiceUnavailable,
			client.Error{Error: err.Error(), Hint: "it is retried automatically; try again in a while"}}
	case errors.Is(err, context.DeadlineExceeded):
		return &statusError{http.StatusGatewayTimeout,
			client.Error{Error: "the answer took too long: " + err.Error(),
				Hint: "ask for less: a shorter time, a coarser step, or a limit"}}
	case errors.Is(err, context.Canceled):
		return &statusError{499, client.Error{Error: "the client went away"}} // nginx's status for a closed connection
	default:
		return &statusError{http.StatusInternalServerError, client.Error{Error: err.Error(), Hint: "see the server log"}}
	}
}

// refusalStatus returns the response to an error of package answer or access, and false for other errors.
func refusalStatus(err error) (*statusError, bool) {
	for _, r := range []struct {
		reason error
		status int
	}{
		{access.ErrUnauthenticated, http.StatusUnauthorized}, {access.ErrForbidden, http.StatusForbidden},
		{access.ErrThrottled, http.StatusTooManyRequests}, {access.ErrUndecided, http.StatusInternalServerError},
		{answer.ErrInvalid, http.StatusBadRequest}, {answer.ErrNotFound, http.StatusNotFound},
		{answer.ErrBusy, http.StatusServiceUnavailable},
	} {
		if !errors.Is(err, r.reason) {
			continue
		}
		body := client.Error{Error: err.Error()}
		var e *answer.Error
		var refused *access.Refusal
		switch {
		case errors.As(err, &refused):
			body.Hint = refused.Hint
		case errors.As(err, &e):
			body.Hint = e.Hint
		}
		return &statusError{r.status, body}, true
	}
	return nil, false
}

// noWorkloadError returns the error for an id that does not exist or that the viewer may not see.
func noWorkloadError(id string) error {
	return answer.NotFound("", fmt.Errorf("%s: no such workload", id))
}

func writeError(w http.ResponseWriter, err error) int {
	s := toStatusError(err)
	if s.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	body := s.body
	body.Type, body.Title, body.Detail = "about:blank", cmp.Or(http.StatusText(s.status), "Client Closed Request"), body.Error
	writeBody(w, s.status, "application/problem+json", body)
	return s.status
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	writeBody(w, status, "application/json; charset=utf-8", v)
}

func writeBody(w http.ResponseWriter, status int, media string, v any) {
	body, err := json.Marshal(v)
	if err != nil { // NaN or Inf in a figure: a bug of the backend
		status = http.StatusInternalServerError
		body, _ = json.Marshal(client.Error{Error: "encode the answer: " + err.Error()})
	}
	body = append(body, '\n')
	if c, ok := w.(*conditional); ok && status == http.StatusOK && c.unchanged(body) {
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has disconnected
}
