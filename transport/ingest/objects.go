package ingest

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Limits of a request. A message of two bytes on the wire takes more than a hundred bytes in memory. With limits on
// bytes alone, a request of 1 MB could take gigabytes. Messages that are decoded as a whole are therefore counted
// first. Messages that are decoded in pieces have a limit per piece.
const (
	// maxObjectBytes is the maximum size in memory of the messages in an OTLP request, without their texts. A
	// collector's batch of 8,192 points with ten attributes each takes 7 MB.
	maxObjectBytes = 32 << 20
	// A request above one of these sizes counts as large. largeObjects is the size of its messages in memory,
	// largeSeries the size of a series, and largeSymbols the number of its remote write symbols.
	largeObjects, largeSeries, largeSymbols = 4 << 20, 256 << 10, 50_000
	// maxSymbols is the maximum number of symbols in a remote write 2.0 request. maxSeries is the maximum number of
	// series in any request. A valid series has at least 30 bytes.
	maxSymbols, maxSeries = 500_000, 2_000_000
	// maxLabels, maxSamples and maxHistograms limit one series of remote write 1.0.
	maxLabels, maxSamples, maxHistograms = 1_000, 1_000_000, 100_000
	// maxHistogramBytes is the maximum size of one histogram, because its counts take up to eight times as much.
	maxHistogramBytes = 1 << 20
	// maxExemplars is the maximum number of exemplars of one series. maxExemplarLabels is the maximum number of labels
	// of an exemplar, which may have 128 characters in total. maxExemplarBytes is the maximum size of an exemplar in
	// remote write 2.0, where labels are numbers.
	maxExemplars, maxExemplarLabels, maxExemplarBytes = 10_000, 128, 16 << 10
	// maxMetadata limits the descriptions of a request of remote write 1.0.
	maxMetadata = 100_000
)

// Numbers of fields, of prompb/remote.proto and types.proto.
const (
	req1Series, req1Metadata                               = 1, 3
	series1Labels, series1Samples, series1Ex, series1Histo = 1, 2, 3, 4
	exemplarLabels                                         = 1
)

var errEmptySeries = errors.New("it has an empty series")

var errTooManySeries = fmt.Errorf("it has more than %d series", maxSeries)

func tooManyObjects() error {
	return fmt.Errorf("its objects take more than %d MB of memory; send fewer metrics at a time", maxObjectBytes>>20)
}

// checkRequestV1 checks that a prometheus.WriteRequest can be decoded series by series with limited memory. large
// reports whether any of its series is large.
func checkRequestV1(b []byte) (large bool, err error) {
	described, series := 0, 0
	err = eachField(b, func(num protowire.Number, f protoField) error {
		switch num {
		case reqSymbols, reqSeries:
			return errors.New("it is an io.prometheus.write.v2.Request of remote write 2.0")
		case req1Series:
			if f.kind != protowire.BytesType {
				return errFieldType
			}
			if series++; series > maxSeries {
				return errTooManySeries
			}
			large = large || len(f.bytes) > largeSeries
			return checkSeriesV1(f.bytes)
		case req1Metadata:
			if f.kind != protowire.BytesType {
				return errFieldType
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
	return large, err
}

func checkSeriesV1(b []byte) error {
	if len(b) == 0 {
		return errEmptySeries
	}
	var labels, samples, histograms, exemplars int
	return eachField(b, func(num protowire.Number, f protoField) error {
		if num <= series1Histo && f.kind != protowire.BytesType {
			return errFieldType
		}
		switch num {
		case series1Labels:
			if labels++; labels > maxLabels {
				return fmt.Errorf("a series has more than %d labels", maxLabels)
			}
		case series1Ex:
			exemplars++
			return checkExemplarV1(exemplars, f.bytes)
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

// seriesPartsV1 is a series of remote write 1.0, split into parts. Histograms and exemplars are decoded one by one,
// because each takes many times its encoded size.
type seriesPartsV1 struct {
	plain                 []byte // without them
	histograms, exemplars [][]byte
	samples               int // how many there are
	scratch               []byte
}

func (p *seriesPartsV1) split(b []byte) error {
	p.plain, p.histograms, p.exemplars, p.samples, p.scratch = b, p.histograms[:0], p.exemplars[:0], 0, p.scratch[:0]
	err := eachField(b, func(num protowire.Number, f protoField) error {
		switch num {
		case series1Histo:
			p.histograms = append(p.histograms, f.bytes)
		case series1Ex:
			p.exemplars = append(p.exemplars, f.bytes)
		case series1Samples:
			p.samples++
		}
		return nil
	})
	if err != nil || len(p.histograms)+len(p.exemplars) == 0 {
		return err
	}
	err = eachField(b, func(num protowire.Number, f protoField) error {
		if num == series1Labels || num == series1Samples {
			p.scratch = protowire.AppendTag(p.scratch, num, protowire.BytesType)
			p.scratch = protowire.AppendBytes(p.scratch, f.bytes)
		}
		return nil
	})
	p.plain = p.scratch
	return err
}

// checkExemplarV1 checks the number of exemplars so far and the labels of exemplar b of a series.
func checkExemplarV1(n int, b []byte) error {
	if n > maxExemplars {
		return fmt.Errorf("a series has more than %d exemplars", maxExemplars)
	}
	labels := 0
	return eachField(b, func(num protowire.Number, _ protoField) error {
		if num != exemplarLabels {
			return nil
		}
		if labels++; labels > maxExemplarLabels {
			return fmt.Errorf("an exemplar has more than %d labels", maxExemplarLabels)
		}
		return nil
	})
}

// checkHistogram checks the number of histograms so far and the size of histogram b of a series.
func checkHistogram(n int, b []byte) error {
	switch {
	case n > maxHistograms:
		return fmt.Errorf("a series has more than %d histograms", maxHistograms)
	case len(b) > maxHistogramBytes:
		return fmt.Errorf("a histogram has more than %d bytes", maxHistogramBytes)
	}
	return nil
}

// messageShape describes a type of protobuf message: its size in memory with the pointer to it, and its fields that
// are messages.
type messageShape struct {
	size   int
	fields map[protowire.Number]*messageShape
	packed bool // a list of numbers, of one byte each or more, that take eight in memory
}

// otlpMessageShape returns the shape of ExportMetricsServiceRequest (opentelemetry/proto/collector/metrics/v1 and nested
// messages). TestObjectSizes compares its sizes with the decoder.
func otlpMessageShape() *messageShape {
	type fields = map[protowire.Number]*messageShape
	value := &messageShape{size: 48} // AnyValue: array_value, kvlist_value
	attribute := &messageShape{48, fields{2: value}, false}
	value.fields = fields{5: {48, fields{1: value}, false}, 6: {48, fields{1: attribute}, false}}
	exemplar := &messageShape{128, fields{7: attribute}, false}
	number := &messageShape{144, fields{7: attribute, 5: exemplar}, false}
	histogram := &messageShape{224, fields{9: attribute, 8: exemplar}, false}
	buckets := &messageShape{48, fields{bucketCounts: {packed: true}}, false}
	exponential := &messageShape{272, fields{1: attribute, 8: buckets, 9: buckets, 11: exemplar}, false}
	summary := &messageShape{144, fields{7: attribute, 6: {size: 32}}, false}
	points := func(of *messageShape) *messageShape { return &messageShape{64, fields{1: of}, false} }
	metric := &messageShape{
		144, fields{5: points(number), 7: points(number), 9: points(histogram), 10: points(exponential), 11: points(summary),
			12: attribute}, false}
	scope := &messageShape{160, fields{1: {96, fields{3: attribute}, false}, 2: metric}, false}
	resource := &messageShape{160, fields{1: {96, fields{1: attribute, 3: {size: 96}}, false}, 2: scope}, false}
	return &messageShape{0, fields{1: resource}, false}
}

// bucketCounts is the repeated field of ExponentialHistogramDataPoint.Buckets.
const bucketCounts = 2

// jsonObjectBytes is the memory of an object or a list of a request in JSON.
const jsonObjectBytes = 96

// maxNesting limits the nesting of arrays.
const maxNesting = 64

// checkOTLP returns the memory in bytes that the messages of a request take, and an error if it exceeds the limit.
func checkOTLP(b []byte) (bytes int, err error) {
	err = addObjectBytes(b, otlpMessageShape(), &bytes, 0)
	return bytes, err
}

func addObjectBytes(b []byte, s *messageShape, total *int, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("its values are nested more than %d deep", maxNesting)
	}
	return eachField(b, func(num protowire.Number, f protoField) error {
		below := s.fields[num]
		if below == nil || f.kind != protowire.BytesType {
			return nil
		}
		*total += below.size
		if below.packed {
			*total += 8 * len(f.bytes)
		}
		if *total > maxObjectBytes {
			return tooManyObjects()
		}
		if len(below.fields) == 0 || len(f.bytes) == 0 {
			return nil
		}
		return addObjectBytes(f.bytes, below, total, depth+1)
	})
}
