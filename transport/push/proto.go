package push

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"unicode/utf8"
)

// Fields as tags (number << 3 | wire type). Wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
const (
	// io.prometheus.write.v2.Request and its parts.
	reqSymbol, reqSeries                                    = 4<<3 | 2, 5<<3 | 2
	seriesRefs, seriesSample, seriesHistogram, seriesMeta   = 1<<3 | 2, 2<<3 | 2, 3<<3 | 2, 5<<3 | 2
	sampleValue, sampleTime, sampleStart                    = 1<<3 | 1, 2 << 3, 3 << 3
	metaType, metaHelp, metaUnit                            = 1 << 3, 3 << 3, 4 << 3
	histCount, histSum, histSchema                          = 1 << 3, 3<<3 | 1, 4 << 3
	histZeroThreshold, histZeroCount                        = 5<<3 | 1, 6 << 3
	histSpan, histDelta, histReset, histTime, histStartTail = 11<<3 | 2, 12<<3 | 2, 14 << 3, 15 << 3, 17 << 3
	spanOffset, spanLength                                  = 1 << 3, 2 << 3

	// prometheus.WriteRequest, where it differs. Samples and histograms are the same except for the start time.
	req1Series, series1Label, series1Sample, series1Histogram = 1<<3 | 2, 1<<3 | 2, 2<<3 | 2, 4<<3 | 2
	labelName, labelValue                                     = 1<<3 | 2, 2<<3 | 2
)

// staleNaN is the value that ends a series (prometheus/model/value).
const staleNaN = 0x7ff0000000000002

func appendTag(dst []byte, tag uint64) []byte { return binary.AppendUvarint(dst, tag) }

func appendUint(dst []byte, tag, v uint64) []byte {
	return binary.AppendUvarint(appendTag(dst, tag), v)
}

func appendFixed(dst []byte, tag, bits uint64) []byte {
	return binary.LittleEndian.AppendUint64(appendTag(dst, tag), bits)
}

func appendBytes(dst []byte, tag uint64, b []byte) []byte {
	return append(binary.AppendUvarint(appendTag(dst, tag), uint64(len(b))), b...)
}

func appendString(dst []byte, tag uint64, s string) []byte {
	return append(binary.AppendUvarint(appendTag(dst, tag), uint64(len(s))), s...)
}

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// toValidUTF8 replaces invalid UTF-8, which protobuf strings must not contain.
func toValidUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

var errMalformed = errors.New("not a remote write request")

// fieldReader iterates over the fields of a message.
type fieldReader struct {
	rest []byte
	tag  uint64
	num  uint64 // for a varint, or eight bytes
	data []byte // for length and bytes
	err  error
}

func (f *fieldReader) next() bool {
	if f.err != nil || len(f.rest) == 0 {
		return false
	}
	if f.tag = f.uvarint(); f.err != nil {
		return false
	}
	switch f.tag & 7 {
	case 0:
		f.num = f.uvarint()
	case 1:
		if b := f.nextBytes(8); b != nil {
			f.num = binary.LittleEndian.Uint64(b)
		}
	case 2:
		f.data = f.nextBytes(f.uvarint())
	case 5:
		f.nextBytes(4)
	default:
		f.err = errMalformed
	}
	return f.err == nil
}

func (f *fieldReader) uvarint() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.err, n = errMalformed, 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *fieldReader) nextBytes(n uint64) []byte {
	if f.err != nil || n > uint64(len(f.rest)) {
		f.err = errMalformed
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func decodeFloat(bits uint64) float64 { return math.Float64frombits(bits) }

// readSymbols reads the symbols of a request of remote write 2.0 into list; they point into the request.
func readSymbols(list *[][]byte, request []byte) error {
	*list = (*list)[:0]
	f := fieldReader{rest: request}
	for f.next() {
		if f.tag == reqSymbol {
			*list = append(*list, f.data)
		}
	}
	return f.err
}
