package push

import (
	"math"
	"slices"
	"strconv"

	"reckon/metric"
	"reckon/metric/expose"
)

// v1Converter converts the remote write 2.0 requests of [Encoder] to 1.0. It drops data that 1.0 has no fields for: the
// start times of counters, and the descriptions of metrics.
type v1Converter struct {
	// native keeps native histograms. Otherwise they become classic ones, with buckets at the powers of two.
	native bool

	symbols [][]byte
	labels  []byte // the labels of the series, encoded
	name    []byte
	out     []byte
	series  []byte
	hist    []byte
	samples []byte
	classic map[string]*classicSeries
	order   []*classicSeries
}

// classicSeries is one series of a classic histogram.
type classicSeries struct {
	suffix, le string
	samples    []byte
}

// convert returns the request as 1.0. It is valid until the next call.
func (l *v1Converter) convert(request []byte) ([]byte, error) {
	l.out = l.out[:0]
	if err := readSymbols(&l.symbols, request); err != nil {
		return nil, err
	}
	f := fieldReader{rest: request}
	for f.next() {
		if f.tag == reqSeries {
			if err := l.convertSeries(f.data); err != nil {
				return nil, err
			}
		}
	}
	return l.out, nil
}

func (l *v1Converter) convertSeries(series []byte) error {
	l.labels, l.name, l.samples = l.labels[:0], nil, l.samples[:0]
	var last metric.Histogram // The histogram before a staleness marker determines which buckets end.
	histograms := false
	f := fieldReader{rest: series}
	for f.next() {
		var err error
		switch f.tag {
		case seriesRefs:
			err = l.readLabels(f.data)
		case seriesSample:
			l.hist, err = copyWithoutField(l.hist[:0], f.data, sampleStart)
			l.samples = appendBytes(l.samples, series1Sample, l.hist)
		case seriesHistogram:
			histograms = true
			if l.native {
				l.hist, err = copyWithoutField(l.hist[:0], f.data, histStartTail)
				l.samples = appendBytes(l.samples, series1Histogram, l.hist)
			} else {
				err = l.addClassic(f.data, &last)
			}
		}
		if err != nil {
			return err
		}
	}
	if f.err != nil {
		return f.err
	}
	if histograms && !l.native {
		l.emitClassic()
		return nil
	}
	l.emitSeries("", "", l.samples)
	return nil
}

// readLabels reads the labels of a series and puts the metric name first.
func (l *v1Converter) readLabels(refs []byte) error {
	f := fieldReader{rest: refs}
	for len(f.rest) > 0 {
		n, v := f.uvarint(), f.uvarint()
		if f.err != nil || n >= uint64(len(l.symbols)) || v >= uint64(len(l.symbols)) {
			return errMalformed
		}
		if string(l.symbols[n]) == "__name__" {
			l.name = l.symbols[v]
		}
		l.labels = appendLabel(l.labels, l.symbols[n], l.symbols[v])
	}
	return nil
}

func appendLabel(dst, name, value []byte) []byte {
	n := 2 + uvarintLen(len(name)) + len(name) + uvarintLen(len(value)) + len(value)
	dst = appendUint(dst, series1Label, uint64(n))
	dst = appendBytes(dst, labelName, name)
	return appendBytes(dst, labelValue, value)
}

func uvarintLen(n int) int {
	l := 1
	for ; n >= 0x80; n >>= 7 {
		l++
	}
	return l
}

// copyWithoutField copies a message to dst without one field.
func copyWithoutField(dst, message []byte, field uint64) ([]byte, error) {
	f := fieldReader{rest: message}
	for {
		before := f.rest
		if !f.next() {
			return dst, f.err
		}
		if f.tag != field {
			dst = append(dst, before[:len(before)-len(f.rest)]...)
		}
	}
}

// addClassic adds a native histogram to the series of the classic histogram.
func (l *v1Converter) addClassic(data []byte, last *metric.Histogram) error {
	h, t, stale, err := decodeHistogram(data)
	if err != nil {
		return err
	}
	if !stale {
		*last = h
	}
	add := func(suffix, le string, v float64) {
		bits := math.Float64bits(v)
		if stale {
			bits = staleNaN
		}
		if l.classic == nil {
			l.classic = make(map[string]*classicSeries)
		}
		c := l.classic[suffix+le]
		if c == nil {
			c = &classicSeries{suffix: suffix, le: le}
			l.classic[suffix+le] = c
		}
		if len(c.samples) == 0 {
			l.order = append(l.order, c)
		}
		l.hist = appendSample(l.hist[:0], bits, t, 0)
		c.samples = appendBytes(c.samples, series1Sample, l.hist)
	}
	expose.ClassicBuckets(last, func(bound float64, n uint64) {
		le := "+Inf"
		if !math.IsInf(bound, 1) {
			le = strconv.FormatFloat(bound, 'g', -1, 64)
		}
		add("_bucket", le, float64(n))
	})
	add("_sum", "", last.Sum)
	add("_count", "", float64(last.Count))
	return nil
}

func (l *v1Converter) emitClassic() {
	for _, c := range l.order {
		l.emitSeries(c.suffix, c.le, c.samples)
		c.samples = c.samples[:0]
	}
	l.order = l.order[:0]
	if len(l.classic) > 4096 {
		clear(l.classic)
	}
}

// emitSeries writes a series with the current labels, a suffix to the name, and le.
func (l *v1Converter) emitSeries(suffix, le string, samples []byte) {
	l.series = l.series[:0]
	if suffix == "" {
		l.series = append(l.series, l.labels...)
	} else {
		l.writeLabels(suffix, le)
	}
	l.series = append(l.series, samples...)
	l.out = appendBytes(l.out, req1Series, l.series)
}

// writeLabels writes the labels with another name, and with le in alphabetical order.
func (l *v1Converter) writeLabels(suffix, le string) {
	put := le == ""
	f := fieldReader{rest: l.labels}
	for {
		before := f.rest
		if !f.next() {
			break
		}
		name, _ := splitLabel(f.data)
		if !put && string(name) > "le" {
			l.series = appendLabel(l.series, []byte("le"), []byte(le))
			put = true
		}
		switch string(name) {
		case "__name__":
			l.series = appendLabel(l.series, name, append(slices.Clone(l.name), suffix...))
		case "le":
			if le == "" {
				l.series = append(l.series, before[:len(before)-len(f.rest)]...)
			}
		default:
			l.series = append(l.series, before[:len(before)-len(f.rest)]...)
		}
	}
	if !put {
		l.series = appendLabel(l.series, []byte("le"), []byte(le))
	}
}

func splitLabel(label []byte) (name, value []byte) {
	f := fieldReader{rest: label}
	for f.next() {
		switch f.tag {
		case labelName:
			name = f.data
		case labelValue:
			value = f.data
		}
	}
	return name, value
}

// decodeHistogram decodes a histogram with at most one span of positive buckets, as the encoder writes them.
func decodeHistogram(data []byte) (h metric.Histogram, t int64, stale bool, err error) {
	f := fieldReader{rest: data}
	spans := 0
	for f.next() {
		switch f.tag {
		case histCount:
			h.Count = f.num
		case histSum:
			h.Sum, stale = decodeFloat(f.num), f.num == staleNaN
		case histZeroCount:
			h.ZeroCount = f.num
		case histTime:
			t = int64(f.num)
		case histSpan:
			spans++
			for s := (fieldReader{rest: f.data}); s.next(); {
				if s.tag == spanOffset {
					h.Offset = int32(unzigzag(s.num))
				}
			}
		case histDelta:
			prev := uint64(0)
			for d := (fieldReader{rest: f.data}); len(d.rest) > 0; {
				prev += uint64(unzigzag(d.uvarint()))
				if d.err != nil || len(h.Buckets) > maxBuckets {
					return h, t, stale, errMalformed
				}
				h.Buckets = append(h.Buckets, prev)
			}
		}
	}
	if spans > 1 || h.Offset < -maxBuckets || h.Offset > maxBuckets {
		return h, t, stale, errMalformed
	}
	return h, t, stale, f.err
}

// maxBuckets is the maximum number of buckets, because other programs may have written to the queue.
const maxBuckets = 4096
