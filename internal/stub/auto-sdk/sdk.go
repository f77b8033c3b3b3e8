// Package sdk is a stub for the package of this name, whose spans another process that has attached
// probes to this one would read: here nothing is traced.
package sdk

import (
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// TracerProvider returns one that records nothing.
func TracerProvider() trace.TracerProvider { return noop.NewTracerProvider() }
