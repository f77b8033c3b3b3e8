// Package expose encodes batches of samples in the formats of Prometheus
// scrapes, and serves them over HTTP.
//
// Three formats, selected by the Accept header of the request:
//
//   - [Text], the Prometheus text format 0.0.4
//     (https://prometheus.io/docs/instrumenting/exposition_formats/);
//   - [OpenMetrics], OpenMetrics 1.0 text
//     (https://prometheus.io/docs/specs/om/open_metrics_spec/);
//   - [Protobuf], length-delimited io.prometheus.client.MetricFamily messages, the
//     only one with native histograms and the creation time of counters.
//
// In the text formats a native histogram is written as a classic one, with its
// buckets summed up at the powers of two that it covers. A counter whose name
// does not end in _total has type unknown in OpenMetrics, which would otherwise
// rename it: a series has the same name in every format.
//
// Label values may contain anything. Invalid UTF-8, and NUL, which
// Prometheus's own parser treats as the end of the page, become U+FFFD; the
// formats escape the rest. Names of metrics and labels are mapped to the classic
// character set. An empty label value is omitted, as Prometheus treats it the
// same. Samples have no timestamp, so that a series that ends is stale at once.
//
// An [Encoder] is not safe for concurrent use; [Handler] is.
// Encoding does not allocate once buffers have grown. Standard library only.
package expose

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"reckon/metric"
)

// Format is an exposition format.
type Format uint8

// Formats.
const (
	Text Format = iota
	OpenMetrics
	Protobuf
)

// ContentType returns the value of the Content-Type header for f.
func (f Format) ContentType() string {
	switch f {
	case OpenMetrics:
		return "application/openmetrics-text; version=1.0.0; charset=utf-8"
	case Protobuf:
		return "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
	default:
		return "text/plain; version=0.0.4; charset=utf-8"
	}
}

// Options configure the encoding. The zero value is ready to use.
type Options struct {
	// Labels are added to every series, such as site and node. The labels of a series take precedence.
	Labels map[string]string
	// Keep returns which series the sender of a request may see; nil, as the function or its result, is for all.
	Keep func(r *http.Request) func(*metric.Series) bool
	// Created adds a _created line for each counter and histogram to OpenMetrics text. It is off by
	// default, because Prometheus stores each as a separate series. The protobuf format has a field
	// for it and always includes it.
	Created bool
}

// Negotiate returns the supported format preferred by an Accept header (RFC 9110, section 12.5.1),
// or Text if there is none.
func Negotiate(accept string) Format {
	best, bestQ := Text, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		f, q, ok := parseAccept(part)
		if ok && q > bestQ {
			best, bestQ = f, q
		}
	}
	return best
}

// parseAccept parses one element of an Accept header.
func parseAccept(part string) (f Format, q float64, ok bool) {
	media, params, err := mime.ParseMediaType(part)
	if err != nil {
		return Text, 0, false
	}
	switch media {
	case "application/vnd.google.protobuf":
		f = Protobuf
		ok = params["proto"] == "io.prometheus.client.MetricFamily" && params["encoding"] == "delimited"
	case "application/openmetrics-text":
		f = OpenMetrics
		ok = isOneOf(params["version"], "", "1.0.0", "0.0.1")
	case "text/plain":
		ok = isOneOf(params["version"], "", "0.0.4")
	case "text/*", "*/*":
		ok = true
	}
	q = 1
	if s, given := params["q"]; given {
		if q, err = strconv.ParseFloat(s, 64); err != nil || !(q >= 0 && q <= 1) {
			return Text, 0, false
		}
	}
	return f, q, ok
}

func isOneOf(s string, list ...string) bool {
	for _, l := range list {
		if s == l {
			return true
		}
	}
	return false
}
