// Package otelhttptrace is a stub for the package of this name, which traces the steps of a request:
// here nothing could receive a trace.
package otelhttptrace

import (
	"context"
	"net/http/httptrace"
)

// An Option chooses what is traced.
type Option struct{}

// WithoutSubSpans chooses nothing.
func WithoutSubSpans() Option { return Option{} }

// NewClientTrace returns a trace that does nothing.
func NewClientTrace(context.Context, ...Option) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{}
}
