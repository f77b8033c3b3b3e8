package server

import (
	"bytes"
	"io"
	"net/http"

	"reckon/access"
)

// InProcessClient returns an HTTP client that calls this server in the same process with the rights of an admin. It
// needs no authentication, because it does not use the network.
func (s *Server) InProcessClient() *http.Client { return &http.Client{Transport: inside{s}} }

type inside struct{ s *Server }

// RoundTrip implements http.RoundTripper.
func (t inside) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := access.With(r.Context(), access.Viewer{Role: access.Admin})
	return serveInProcess(t.s.http.Handler, r.Clone(ctx)), nil
}

// serveInProcess returns the answer of a handler within the process.
func serveInProcess(h http.Handler, r *http.Request) *http.Response {
	w := &recorded{header: http.Header{}, code: http.StatusOK}
	h.ServeHTTP(w, r)
	return &http.Response{
		Status: http.StatusText(w.code), StatusCode: w.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}
}

// recorded keeps the response of a handler.
type recorded struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *recorded) Header() http.Header         { return a.header }
func (a *recorded) WriteHeader(code int)        { a.code = code }
func (a *recorded) Write(p []byte) (int, error) { return a.body.Write(p) }
