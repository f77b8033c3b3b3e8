// Package otelhttp is a stub for the package of this name, with which Prometheus and Alertmanager
// trace their requests: here nothing could receive a trace.
package otelhttp

import (
	"context"
	"net/http"
	"net/http/httptrace"
)

// An Option chooses what is traced.
type Option struct{}

// WithClientTrace chooses nothing.
func WithClientTrace(func(context.Context) *httptrace.ClientTrace) Option { return Option{} }

// WithSpanNameFormatter chooses nothing.
func WithSpanNameFormatter(func(string, *http.Request) string) Option { return Option{} }

// NewHandler returns h.
func NewHandler(h http.Handler, _ string, _ ...Option) http.Handler { return h }

// NewTransport returns t, or the default one where there is none.
func NewTransport(t http.RoundTripper, _ ...Option) http.RoundTripper {
	if t == nil {
		return http.DefaultTransport
	}
	return t
}
