package ingest

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A message of two bytes on the wire becomes a hundred and more in memory, so bounds on
// bytes alone let a request of 1 MB take gigabytes. What is decoded as a whole is counted
// first, and what is decoded piece by piece has a bound for each piece.
const (
	// maxObjects bounds the messages of an OTLP request: a collector's batch of 8,192
	// points with ten attributes each has 250,000.
	maxObjects = 1_000_000
	// maxSymbols bounds those of a request of remote write 2.0.
	maxSymbols = 500_000
	// maxLabels, maxSamples and maxHistograms bound one series of remote write 1.0.
	maxLabels, maxSamples, maxHistograms = 1_000, 1_000_000, 100_000
	// maxHistogramBytes bounds one histogram: its counts take up to eight times as much.
	maxHistogramBytes = 1 << 20
	// maxExemplars bounds those of one series, and maxExemplarLabels the labels of each, which
	// may hold 128 characters in all.
	maxExemplars, maxExemplarLabels = 10_000, 128
	// maxMetadata bounds the descriptions of a request of remote write 1.0.
	maxMetadata = 100_000
)

// Numbers of fields, of prompb/remote.proto and types.proto.
const (
	req1Series, req1Metadata                               = 1, 3
	series1Labels, series1Samples, series1Ex, series1Histo = 1, 2, 3, 4
	exemplarLabels                                         = 1
)

var errEmptySeries = errors.New("it has an empty series")

func tooManyObjects(n int) error {
	return fmt.Errorf("it has %d objects or more, at most %d are taken; send fewer metrics at a time", n, maxObjects)
}

// checkRequest1 reports whether a prometheus.WriteRequest can be decoded series by series
// in bounded memory.
func checkRequest1(b []byte) error {
	described := 0
	return eachField(b, func(num protowire.Number, f field) error {
		switch num {
		case reqSymbols, reqSeries:
			return errors.New("it is an io.prometheus.write.v2.Request of remote write 2.0")
		case req1Series:
			if f.kind != protowire.BytesType {
				return errKind
			}
			return checkSeries1(f.bytes)
		case req1Metadata:
			if f.kind != protowire.BytesType {
				return errKind
			}
			if len(f.bytes) == 0 {
				return errors.New("it has an empty description")
			}
			if described++; described > maxMetadata {
				return fmt.Errorf("it has more than %d descriptions", maxMetadata)
			}
		}
		return nil
	})
}

func checkSeries1(b []byte) error {
	if len(b) == 0 {
		return errEmptySeries
	}
	var labels, samples, histograms, exemplars int
	return eachField(b, func(num protowire.Number, f field) error {
		if num <= series1Histo && f.kind != protowire.BytesType {
			return errKind
		}
		switch num {
		case series1Labels:
			if labels++; labels > maxLabels {
				return fmt.Errorf("a series has more than %d labels", maxLabels)
			}
		case series1Ex:
			exemplars++
			return checkExemplar1(exemplars, f.bytes)
		case series1Samples:
			if samples++; samples > maxSamples {
				return fmt.Errorf("a series has more than %d samples", maxSamples)
			}
		case series1Histo:
			histograms++
			return checkHistogram(histograms, f.bytes)
		}
		return nil
	})
}

// checkExemplar1 bounds the number of exemplars of a series, of which b is one, and its labels.
func checkExemplar1(n int, b []byte) error {
	if n > maxExemplars {
		return fmt.Errorf("a series has more than %d exemplars", maxExemplars)
	}
	labels := 0
	return eachField(b, func(num protowire.Number, _ field) error {
		if num != exemplarLabels {
			return nil
		}
		if labels++; labels > maxExemplarLabels {
			return fmt.Errorf("an exemplar has more than %d labels", maxExemplarLabels)
		}
		return nil
	})
}

// checkHistogram bounds the number of histograms of a series, of which b is one.
func checkHistogram(n int, b []byte) error {
	switch {
	case n > maxHistograms:
		return fmt.Errorf("a series has more than %d histograms", maxHistograms)
	case len(b) > maxHistogramBytes:
		return fmt.Errorf("a histogram has more than %d bytes", maxHistogramBytes)
	}
	return nil
}

// shape names the fields of a message that are messages themselves.
type shape map[protowire.Number]*shape

// otlpShape is that of ExportMetricsServiceRequest (opentelemetry/proto/collector/metrics/v1
// and the messages below it).
func otlpShape() *shape {
	value := &shape{} // AnyValue: array_value, kvlist_value
	attribute := &shape{2: value}
	*value = shape{5: {1: value}, 6: {1: attribute}}
	exemplars := &shape{7: attribute}
	number := &shape{7: attribute, 5: exemplars}
	histogram := &shape{9: attribute, 8: exemplars}
	buckets := &shape{bucketCounts: nil}
	exponential := &shape{1: attribute, 8: buckets, 9: buckets, 11: exemplars}
	summary := &shape{7: attribute, 6: {}}
	metric := &shape{5: {1: number}, 7: {1: number}, 9: {1: histogram}, 10: {1: exponential}, 11: {1: summary}, 12: attribute}
	return &shape{1: {1: {1: attribute, 3: {}}, 2: {1: {3: attribute}, 2: metric}}}
}

// bucketCounts is the field of ExponentialHistogramDataPoint.Buckets that repeats.
const bucketCounts = 2

// maxNesting bounds arrays within arrays.
const maxNesting = 64

// checkOTLP counts the messages of a request.
func checkOTLP(b []byte) error {
	n := 0
	return count(b, otlpShape(), &n, 0)
}

func count(b []byte, s *shape, n *int, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("its values are nested more than %d deep", maxNesting)
	}
	return eachField(b, func(num protowire.Number, f field) error {
		below, is := (*s)[num]
		if !is || f.kind != protowire.BytesType {
			return nil
		}
		*n++
		if below == nil {
			*n += len(f.bytes) / 8 // packed: a count of one byte takes eight in memory
		}
		if *n > maxObjects {
			return tooManyObjects(*n)
		}
		if below == nil || len(*below) == 0 || len(f.bytes) == 0 {
			return nil
		}
		return count(f.bytes, below, n, depth+1)
	})
}
