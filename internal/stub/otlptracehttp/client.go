// Package otlptracehttp is a stub for the package of this name: see otlptrace.
package otlptracehttp

import (
	"crypto/tls"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
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

// WithTLSClientConfig returns an option.
func WithTLSClientConfig(*tls.Config) Option { return nil }

// Compression is the compression of requests.
type Compression int

// GzipCompression is that of gzip.
const GzipCompression Compression = 1

// WithCompression returns an option.
func WithCompression(Compression) Option { return nil }
