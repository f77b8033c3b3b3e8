// Package metric defines the vocabulary of every figure that reckon measures: the name and unit of
// a series, and the meaning of its samples.
//
// Samples are self-describing: each points at its [Series], and the series at its [Desc] with name,
// unit, kind and help. A new sensor therefore reaches the exposition, the store, the reference
// documentation and the user interface without changes to any of them.
//
// Names and units follow the Prometheus conventions (https://prometheus.io/docs/practices/naming/):
// SI base units, counters end in _total, and cumulative values are counters.
//
// The package imports only the standard library. Unless stated otherwise, its types are not safe
// for concurrent use.
package metric

import (
	"fmt"
	"math"
	"time"
)

// Kind is the behaviour of a series' value over time.
type Kind uint8

// Kinds of series.
const (
	// Gauge is a value that goes up and down.
	Gauge Kind = iota + 1
	// Counter is a value that only grows; a decrease is a reset.
	Counter
	// NativeHistogram is a distribution with exponential buckets; see [Histogram].
	NativeHistogram
)

// String returns the name of the kind in Prometheus metadata.
func (k Kind) String() string {
	switch k {
	case Gauge:
		return "gauge"
	case Counter:
		return "counter"
	case NativeHistogram:
		return "histogram"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Unit is an SI base unit in the plural, as in the Prometheus naming conventions. The empty unit stands for a plain
// number or, if the name ends in _info, for a fact.
type Unit string

// Units in use. A sensor that needs another one adds it here.
const (
	None        Unit = ""
	Seconds     Unit = "seconds"
	Bytes       Unit = "bytes"
	ByteSeconds Unit = "byte_seconds"
	Joules      Unit = "joules"
	Watts       Unit = "watts"
	Volts       Unit = "volts"
	Amperes     Unit = "amperes"
	Hertz       Unit = "hertz"
	Celsius     Unit = "celsius"
	Ratio       Unit = "ratio"
	Cores       Unit = "cores"
)

// Desc describes a family of series. It is created once, as a package-level variable of its
// producer, and must not be modified.
type Desc struct {
	// Name is the full metric name, with unit and, for counters, _total.
	Name string
	// Help is one sentence for users about the quantity, its scope and its source.
	Help string
	Kind Kind
	Unit Unit
	// Labels are the names of the variable labels, in the order of Series.Values.
	Labels []string
}

// NewDesc returns a description; labels are the names of its variable labels, nil for none.
func NewDesc(name string, kind Kind, unit Unit, labels []string, help string) *Desc {
	return &Desc{Name: name, Help: help, Kind: kind, Unit: unit, Labels: labels}
}

// Series is one time series: a description and its label values. Producers create it once and keep
// the pointer for its lifetime, so that consumers may key caches by it. Its fields must not change
// after creation.
type Series struct {
	Desc *Desc
	// Values are the label values, one per label in Desc.Labels. An empty value is the same as an absent label.
	Values []string
	// Created is the time when a counter was zero, in milliseconds since the Unix epoch, or 0 if
	// unknown. If it is set, consumers count the whole first sample as an increase.
	Created int64
}

// NewSeries returns a series of d. It panics if the number of values differs from the number of
// labels, because that is a programming error.
func NewSeries(d *Desc, values ...string) *Series {
	if len(values) != len(d.Labels) {
		panic(fmt.Sprintf("metric %s has %d labels, got %d values", d.Name, len(d.Labels), len(values)))
	}
	return &Series{Desc: d, Values: values}
}

// Sample is the value of a series at the time of its batch.
type Sample struct {
	Series *Series
	Value  float64
	// Histogram is set instead of Value for series of kind NativeHistogram. It is
	// valid until the producer's next read.
	Histogram *Histogram
	// Last is true if the series ends with this sample. A store then writes a staleness marker and
	// drops its cache entry.
	Last bool
}

// Batch is a set of samples taken at one time. Its memory is reused, so consumers must copy samples
// that they keep beyond the call.
type Batch struct {
	Time    time.Time
	Samples []Sample
}

// Reset empties b and sets its time, keeping its memory.
func (b *Batch) Reset(t time.Time) {
	b.Time = t
	clear(b.Samples)
	b.Samples = b.Samples[:0]
}

// OwnHistograms replaces the histograms of the samples by copies, so that the producers may change the originals. It
// stores the copies in own, which is the result of an earlier call, and returns the extended slice.
func (b *Batch) OwnHistograms(own []Histogram) []Histogram {
	n := 0
	for i := range b.Samples {
		h := b.Samples[i].Histogram
		if h == nil {
			continue
		}
		if n == len(own) {
			own = append(own, Histogram{})
		}
		buckets := append(own[n].Buckets[:0], h.Buckets...)
		own[n] = *h
		own[n].Buckets = buckets
		n++
	}
	n = 0
	for i := range b.Samples { // after the last append, so that no pointer moves
		if b.Samples[i].Histogram != nil {
			b.Samples[i].Histogram = &own[n]
			n++
		}
	}
	return own
}

// Label returns the value of a label, or "" if the series does not have it.
func (s *Series) Label(name string) string {
	for i, l := range s.Desc.Labels {
		if l == name {
			return s.Values[i]
		}
	}
	return ""
}

// Add appends the value of s.
func (b *Batch) Add(s *Series, value float64) {
	b.Samples = append(b.Samples, Sample{Series: s, Value: value})
}

// staleNaN is Prometheus's staleness marker (model/value of prometheus).
const staleNaN = 0x7ff0000000000002

// End adds a sample that marks the end of s at the time of the batch. A store writes a staleness marker for it, and an
// exposition omits it.
func (b *Batch) End(s *Series) {
	b.Samples = append(b.Samples, Sample{Series: s, Value: math.Float64frombits(staleNaN), Last: true})
}

// Ended reports whether the sample was added by [Batch.End].
func (s *Sample) Ended() bool {
	return s.Last && s.Histogram == nil && math.Float64bits(s.Value) == staleNaN
}

// AddHistogram appends the distribution h of s.
func (b *Batch) AddHistogram(s *Series, h *Histogram) {
	b.Samples = append(b.Samples, Sample{Series: s, Histogram: h})
}
