package push

import (
	"bytes"
	"math"
)

// reqBoot and reqBase are private fields of a request with numbers that the specification does not use. reqBoot is the boot id of the
// machine. reqBase is the start of that boot in milliseconds, by the clock of the timestamps. Receivers skip unknown fields.
const (
	reqBoot = 1900<<3 | 2
	reqBase = 1901 << 3
)

// appendClock appends the clock fields to a request.
func appendClock(dst []byte, boot string, b bootTime) []byte {
	return appendUint(appendString(dst, reqBoot, boot), reqBase, zigzag(b))
}

// readClock returns the fields that [appendClock] wrote. They are empty for a request without them.
func readClock(request []byte) (boot string, b bootTime) {
	for f := (fieldReader{rest: request}); f.next(); {
		switch f.tag {
		case reqBoot:
			boot = string(f.data)
		case reqBase:
			b = unzigzag(f.num)
		}
	}
	return boot, b
}

// timeGauges are name suffixes of metrics with times since the Unix epoch.
var timeGauges = [][]byte{[]byte("_time_seconds"), []byte("_timestamp_seconds")}

// shifter adds a correction to all times in a request.
type shifter struct {
	symbols [][]byte
	out     []byte
	series  []byte
	sample  []byte
}

// shift returns the request with ms milliseconds added to the times of samples, the start times of counters, and
// figures that are times. The result is valid until the next call.
func (s *shifter) shift(request []byte, ms int64) ([]byte, error) {
	s.out = s.out[:0]
	if err := readSymbols(&s.symbols, request); err != nil {
		return nil, err
	}
	f := fieldReader{rest: request}
	for f.next() {
		switch f.tag {
		case reqSymbol:
			s.out = appendBytes(s.out, reqSymbol, f.data)
		case reqSeries:
			if err := s.shiftSeries(f.data, ms); err != nil {
				return nil, err
			}
			s.out = appendBytes(s.out, reqSeries, s.series)
		}
	}
	return s.out, nil
}

func (s *shifter) shiftSeries(series []byte, ms int64) error {
	s.series = s.series[:0]
	times := false
	f := fieldReader{rest: series}
	for f.next() {
		var err error
		switch f.tag {
		case seriesRefs:
			times, err = s.isTimeGauge(f.data)
			s.series = appendBytes(s.series, f.tag, f.data)
		case seriesSample:
			if s.sample, err = appendShifted(s.sample[:0], f.data, ms, times, sampleTime, sampleStart); err == nil {
				s.series = appendBytes(s.series, f.tag, s.sample)
			}
		case seriesHistogram:
			if s.sample, err = appendShifted(s.sample[:0], f.data, ms, false, histTime, histStartTail); err == nil {
				s.series = appendBytes(s.series, f.tag, s.sample)
			}
		default:
			s.series = appendField(s.series, &f)
		}
		if err != nil {
			return err
		}
	}
	return f.err
}

// isTimeGauge reports whether the values of a series are times, by the name of its metric.
func (s *shifter) isTimeGauge(refs []byte) (bool, error) {
	f := fieldReader{rest: refs}
	for len(f.rest) > 0 {
		n, v := f.uvarint(), f.uvarint()
		if f.err != nil || n >= uint64(len(s.symbols)) || v >= uint64(len(s.symbols)) {
			return false, errMalformed
		}
		if string(s.symbols[n]) == "__name__" {
			for _, end := range timeGauges {
				if bytes.HasSuffix(s.symbols[v], end) {
					return true, nil
				}
			}
			return false, nil
		}
	}
	return false, nil
}

// appendShifted copies a sample or histogram with shifted times. If value is set, it also shifts the value, which is a time.
func appendShifted(dst, msg []byte, ms int64, value bool, at, start uint64) ([]byte, error) {
	f := fieldReader{rest: msg}
	for f.next() {
		switch {
		case f.tag == at, f.tag == start && f.num != 0:
			dst = appendUint(dst, f.tag, uint64(max(int64(f.num)+ms, 1)))
		case value && f.tag == sampleValue:
			v := decodeFloat(f.num)
			if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) { // none, or a staleness marker
				dst = appendFixed(dst, f.tag, f.num)
				continue
			}
			dst = appendFixed(dst, f.tag, math.Float64bits(v+float64(ms)/1000))
		default:
			dst = appendField(dst, &f)
		}
	}
	return dst, f.err
}

// appendField copies a field unchanged. Fields of four bytes do not occur in these messages.
func appendField(dst []byte, f *fieldReader) []byte {
	switch f.tag & 7 {
	case 0:
		return appendUint(dst, f.tag, f.num)
	case 1:
		return appendFixed(dst, f.tag, f.num)
	case 2:
		return appendBytes(dst, f.tag, f.data)
	}
	return dst
}
