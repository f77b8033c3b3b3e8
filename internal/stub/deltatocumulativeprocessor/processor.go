// Package deltatocumulativeprocessor is a stub for the package of this name: deltas are
// refused before they would reach it.
package deltatocumulativeprocessor

import "go.opentelemetry.io/collector/processor"

// NewFactory returns nil.
func NewFactory() processor.Factory { return nil }
