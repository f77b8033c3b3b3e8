package graphapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"reckon/access"
	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/graph/sparql"
	"reckon/web/client"
)

// httpError is a response with a status other than 2xx.
type httpError struct {
	status int
	body   client.Error
}

func (e *httpError) Error() string { return e.body.Error }

func newProblem(status int, hint, format string, args ...any) error {
	return &httpError{status, client.Error{Error: fmt.Sprintf(format, args...), Hint: hint}}
}

func isNotFound(err error) bool { return errors.Is(err, graph.ErrNotFound) }

func toHTTP(err error) *httpError {
	var e *httpError
	var version *graph.VersionError
	var syntax *graph.SyntaxError
	var unsupported *sparql.UnsupportedError
	var body *http.MaxBytesError
	at := func(status int, hint string) *httpError {
		return &httpError{status, client.Error{Error: err.Error(), Hint: hint}}
	}
	switch {
	case errors.As(err, &e):
		return e
	case isNotFound(err):
		return at(http.StatusNotFound, "GET /graph/list names all that you may see")
	case errors.As(err, &version):
		return at(http.StatusPreconditionFailed, "GET it, change it, and send it with the new ETag in If-Match")
	case errors.As(err, &body), errors.Is(err, graph.ErrTooLarge):
		return at(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("a document has at most %d MiB and %d statements, and a literal %d KiB", maxBody>>20, maxQuads, maxLiteral>>10))
	case errors.As(err, &unsupported):
		return at(http.StatusNotImplemented, "`reckon docs graph` lists what the embedded store answers")
	case errors.As(err, &syntax), errors.Is(err, graph.ErrTooSymmetric), errors.Is(err, embedded.ErrNoGraph):
		return at(http.StatusBadRequest, "")
	case errors.Is(err, sparql.ErrTooMuch):
		return at(http.StatusUnprocessableEntity, "name a graph, add a pattern that selects less, or LIMIT a sub-SELECT")
	case errors.Is(err, graph.ErrUnavailable):
		return at(http.StatusServiceUnavailable, "it is retried automatically; try again in a while")
	case errors.Is(err, access.ErrUnauthenticated):
		return at(http.StatusUnauthorized, "")
	case errors.Is(err, context.DeadlineExceeded):
		return at(http.StatusGatewayTimeout, "ask for less")
	case errors.Is(err, context.Canceled):
		return at(499, "")
	}
	return at(http.StatusInternalServerError, "see the server log")
}

func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := toHTTP(err)
	if e.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if e.status == http.StatusInternalServerError {
		s.Logger.ErrorContext(r.Context(), "request to the knowledge graph failed", "path", r.URL.Path, "error", err)
	}
	_ = writeJSON(w, e.status, e.body) // an error means that the client went away
}
