package expose

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"

	"reckon/metric"
)

// Field numbers of io/prometheus/client/metrics.proto as tags (number << 3 | wire type). Wire
// types: 0 varint, 1 eight bytes, 2 length and bytes.
const (
	familyName, familyHelp, familyType, familyMetric, familyUnit = 1<<3 | 2, 2<<3 | 2, 3 << 3, 4<<3 | 2, 5<<3 | 2

	metricLabel, metricGauge, metricCounter, metricHistogram = 1<<3 | 2, 2<<3 | 2, 3<<3 | 2, 7<<3 | 2

	labelName, labelValue = 1<<3 | 2, 2<<3 | 2

	valueDouble    = 1<<3 | 1 // Gauge.value, Counter.value
	counterCreated = 3<<3 | 2

	histCount, histSum, histBucket, histSchema = 1 << 3, 2<<3 | 1, 3<<3 | 2, 5 << 3
	histZeroThreshold, histZeroCount           = 6<<3 | 1, 7 << 3
	histSpan, histDelta, histCreated           = 12<<3 | 2, 13<<3 | 2, 15<<3 | 2

	bucketCount, bucketBound = 1 << 3, 2<<3 | 1

	spanOffset, spanLength = 1 << 3, 2 << 3

	typeCounter, typeGauge, typeHistogram = 0, 1, 4
)

// appendProtoFamily appends one length-delimited MetricFamily.
func (e *Encoder) appendProtoFamily(dst []byte, g *group, b *metric.Batch) []byte {
	f := e.family[:0]
	f = appendString(f, familyName, g.name)
	f = appendString(f, familyHelp, g.desc.Help)
	f = append(f, familyType)
	switch g.desc.Kind {
	case metric.Counter:
		f = append(f, typeCounter)
	case metric.NativeHistogram:
		f = append(f, typeHistogram)
	default:
		f = append(f, typeGauge)
	}
	for _, i := range e.members[g.first : g.first+g.n] {
		e.buildProtoMetric(g, &b.Samples[i])
		f = appendBytes(f, familyMetric, e.metric)
	}
	if hasUnit(strings.TrimSuffix(g.name, "_total"), g.desc.Unit) {
		f = appendString(f, familyUnit, string(g.desc.Unit))
	}
	e.family = f
	dst = binary.AppendUvarint(dst, uint64(len(f)))
	return append(dst, f...)
}

// buildProtoMetric builds one Metric in e.metric.
func (e *Encoder) buildProtoMetric(g *group, s *metric.Sample) {
	m := e.metric[:0]
	for i, c := range e.consts {
		if g.constMask&(1<<i) != 0 {
			m = e.appendProtoLabel(m, c.name, c.value)
		}
	}
	for i, v := range s.Series.Values {
		if v != "" {
			m = e.appendProtoLabel(m, g.labels[i], v)
		}
	}
	v := e.value[:0]
	switch {
	case s.Histogram != nil:
		v = appendHistogram(v, s.Histogram, s.Series.Created)
		m = appendBytes(m, metricHistogram, v)
	case g.desc.Kind == metric.Counter:
		v = appendDouble(v, valueDouble, s.Value)
		v = appendCreated(v, counterCreated, s.Series.Created)
		m = appendBytes(m, metricCounter, v)
	default:
		v = appendDouble(v, valueDouble, s.Value)
		m = appendBytes(m, metricGauge, v)
	}
	e.metric, e.value = m, v
}

func (e *Encoder) appendProtoLabel(m []byte, name, value string) []byte {
	l := appendString(e.value[:0], labelName, name)
	l = appendString(l, labelValue, value)
	e.value = l
	return appendBytes(m, metricLabel, l)
}

// appendHistogram appends the native buckets and, for readers without native support, the classic ones.
func appendHistogram(dst []byte, h *metric.Histogram, created int64) []byte {
	dst = append(dst, histCount)
	dst = binary.AppendUvarint(dst, h.Count)
	dst = appendDouble(dst, histSum, h.Sum)
	ClassicBuckets(h, func(bound float64, n uint64) {
		var buf [32]byte
		b := append(buf[:0], bucketCount)
		b = binary.AppendUvarint(b, n)
		b = appendDouble(b, bucketBound, bound)
		dst = appendBytes(dst, histBucket, b)
	})
	dst = append(dst, histSchema)
	dst = binary.AppendUvarint(dst, zigzag(int64(h.Schema())))
	dst = appendDouble(dst, histZeroThreshold, h.ZeroThreshold())
	dst = append(dst, histZeroCount)
	dst = binary.AppendUvarint(dst, h.ZeroCount)

	first, last := occupiedRange(h)
	if first > last { // a span of length 0 means native, with no bucket yet
		return appendCreated(appendSpan(dst, 0, 0), histCreated, created)
	}
	n := 0 // length of the deltas in bytes, for their length prefix
	var buf [binary.MaxVarintLen64]byte
	eachDelta(h, first, last, func(d int64) { n += binary.PutUvarint(buf[:], zigzag(d)) })
	dst = appendSpan(dst, int64(h.Offset)+int64(first), uint64(last-first+1))
	dst = append(dst, histDelta)
	dst = binary.AppendUvarint(dst, uint64(n))
	eachDelta(h, first, last, func(d int64) { dst = binary.AppendUvarint(dst, zigzag(d)) })
	return appendCreated(dst, histCreated, created)
}

// eachDelta yields the difference of each bucket's count from the previous one. It does not skip empty buckets, because
// an empty bucket takes one byte and a further span takes more.
func eachDelta(h *metric.Histogram, first, last int, yield func(int64)) {
	prev := uint64(0)
	for _, n := range h.Buckets[first : last+1] {
		yield(int64(n - prev))
		prev = n
	}
}

func appendSpan(dst []byte, offset int64, length uint64) []byte {
	var buf [32]byte
	b := append(buf[:0], spanOffset)
	b = binary.AppendUvarint(b, zigzag(offset))
	b = append(b, spanLength)
	b = binary.AppendUvarint(b, length)
	return appendBytes(dst, histSpan, b)
}

// appendCreated writes a google.protobuf.Timestamp from milliseconds.
func appendCreated(dst []byte, tag byte, ms int64) []byte {
	if ms <= 0 {
		return dst
	}
	var buf [32]byte
	b := append(buf[:0], 1<<3)
	b = binary.AppendUvarint(b, uint64(ms/1000))
	b = append(b, 2<<3)
	b = binary.AppendUvarint(b, uint64(ms%1000*1e6))
	return appendBytes(dst, tag, b)
}

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

func appendDouble(dst []byte, tag byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, tag), math.Float64bits(v))
}

func appendBytes(dst []byte, tag byte, b []byte) []byte {
	dst = binary.AppendUvarint(append(dst, tag), uint64(len(b)))
	return append(dst, b...)
}

// appendString appends a string field; protobuf strings are UTF-8.
func appendString(dst []byte, tag byte, s string) []byte {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		dst = binary.AppendUvarint(append(dst, tag), uint64(len(s)))
		return append(dst, s...)
	}
	clean := strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
	dst = binary.AppendUvarint(append(dst, tag), uint64(len(clean)))
	return append(dst, clean...)
}
