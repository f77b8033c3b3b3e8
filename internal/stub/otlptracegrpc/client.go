// Package otlptracegrpc is a stub for the package of this name: see otlptrace.
package otlptracegrpc

import (
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"google.golang.org/grpc/credentials"
)

// Option is an option of a client.
type Option any

// NewClient returns a client that otlptrace.New refuses.
func NewClient(...Option) otlptrace.Client { return nil }

// WithEndpoint returns an option.
func WithEndpoint(string) Option { return nil }

// WithInsecure returns an option.
func WithInsecure() Option { return nil }

// WithHeaders returns an option.
func WithHeaders(map[string]string) Option { return nil }

// WithTimeout returns an option.
func WithTimeout(time.Duration) Option { return nil }

// WithTLSCredentials returns an option.
func WithTLSCredentials(credentials.TransportCredentials) Option { return nil }

// WithCompressor returns an option.
func WithCompressor(string) Option { return nil }
