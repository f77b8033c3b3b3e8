// Package otlptrace is a stub for the package of this name, with which an Alertmanager sends traces
// of itself: this one has none.
package otlptrace

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/sdk/trace"
)

// ErrNotBuilt is the error of everything here.
var ErrNotBuilt = errors.New("otlptrace: sending traces is not built into this program")

// Client sends spans.
type Client any

// Exporter exports nothing.
type Exporter struct{}

// New returns ErrNotBuilt.
func New(context.Context, Client) (*Exporter, error) { return nil, ErrNotBuilt }

// ExportSpans returns ErrNotBuilt.
func (*Exporter) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return ErrNotBuilt }

// Shutdown does nothing.
func (*Exporter) Shutdown(context.Context) error { return nil }
