package ingest

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"google.golang.org/protobuf/encoding/protowire"
)

// requestV2 is an io.prometheus.write.v2.Request that is decoded without copying. It refers to body and is valid only
// while body is unchanged. It can be reused.
type requestV2 struct {
	body    []byte
	symbols [][]byte
	sums    []hash128 // of the symbols
	longest int       // bytes of the longest series
	one     seriesV2  // scratch for the current series
}

// isLarge reports whether the request takes many times its size in memory while it is decoded.
func (r *requestV2) isLarge() bool { return len(r.symbols) > largeSymbols || r.longest > largeSeries }

// recycle prepares r for another request. It drops all references into the body, and frees large slices.
func (r *requestV2) recycle() {
	clear(r.symbols)
	clear(r.one.histograms[:cap(r.one.histograms)])
	clear(r.one.exemplars[:cap(r.one.exemplars)])
	if r.isLarge() {
		*r = requestV2{}
	}
	r.body, r.symbols = nil, r.symbols[:0]
}

// hash128 is a hash of 128 bits. Senders do not know its seeds, so they cannot provoke collisions.
type hash128 [2]uint64

var hashSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func newHash(b []byte) hash128 {
	return hash128{maphash.Bytes(hashSeeds[0], b), maphash.Bytes(hashSeeds[1], b)}
}

// Numbers of fields, of types.proto in prompb/io/prometheus/write/v2.
const (
	reqSymbols, reqSeries                       = 4, 5
	seriesRefs, seriesSamples, seriesHistograms = 1, 2, 3
	seriesExemplars, seriesDoc                  = 4, 5
	sampleValue, sampleTime, sampleStart        = 1, 2, 3
	docType, docHelp, docUnit                   = 1, 3, 4
)

// parse reads the symbols and checks the outermost message.
func (r *requestV2) parse(b []byte) error {
	r.body, r.symbols, r.sums, r.longest = b, r.symbols[:0], r.sums[:0], 0
	series := 0
	err := eachField(b, func(num protowire.Number, f protoField) error {
		switch num {
		case req1Series, req1Metadata:
			return errors.New("it is a prometheus.WriteRequest of remote write 1.0")
		case reqSymbols:
			if f.kind != protowire.BytesType {
				return errFieldType
			}
			if len(r.symbols) == maxSymbols {
				return fmt.Errorf("it has more than %d symbols", maxSymbols)
			}
			r.symbols = append(r.symbols, f.bytes)
			r.sums = append(r.sums, newHash(f.bytes))
		case reqSeries:
			if f.kind != protowire.BytesType {
				return errFieldType
			}
			if len(f.bytes) == 0 {
				return errEmptySeries
			}
			if series++; series > maxSeries {
				return errTooManySeries
			}
			r.longest = max(r.longest, len(f.bytes))
		}
		return nil
	})
	return err
}

// protoField is a field of a protobuf message, of any wire type.
type protoField struct {
	kind  protowire.Type
	bits  uint64 // for a number
	bytes []byte
}

var errFieldType = fmt.Errorf("a field has another type than it should")

// eachField calls do for each field of a message.
func eachField(b []byte, yield func(protowire.Number, protoField) error) error {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		f := protoField{kind: kind}
		switch kind {
		case protowire.VarintType:
			f.bits, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.bits, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := yield(num, f); err != nil {
			return err
		}
	}
	return nil
}

// seriesV2 is one decoded series of a request2. It can be reused.
type seriesV2 struct {
	refs       []uint32 // of names and values, alternating
	samples    []sampleV2
	histograms [][]byte
	exemplars  [][]byte
	doc        metadataV2
	key        []byte // scratch of sum
}

type sampleV2 struct {
	value    float64
	t, start int64
}

// metadataV2 describes a metric. help and unit are indexes of symbols.
type metadataV2 struct {
	kind       writev2.Metadata_MetricType
	help, unit uint32
}

// parse reads a series.
func (s *seriesV2) parse(b []byte) error {
	s.refs, s.samples, s.histograms, s.exemplars, s.doc = s.refs[:0], s.samples[:0], s.histograms[:0], s.exemplars[:0], metadataV2{}
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if num == seriesRefs && kind == protowire.VarintType { // not packed
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return protowire.ParseError(n)
			}
			if s.refs, b = append(s.refs, uint32(v)), b[n:]; len(s.refs) > 2*maxLabels {
				return errTooManyLabels
			}
			continue
		}
		if num > seriesDoc {
			if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		if kind != protowire.BytesType {
			return errFieldType
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var err error
		switch num {
		case seriesRefs:
			err = s.parseRefs(v)
		case seriesSamples:
			err = s.parseSample(v)
		case seriesHistograms:
			s.histograms = append(s.histograms, v)
			err = checkHistogram(len(s.histograms), v)
		case seriesExemplars:
			if s.exemplars = append(s.exemplars, v); len(s.exemplars) > maxExemplars {
				err = fmt.Errorf("a series has more than %d exemplars", maxExemplars)
			} else if len(v) > maxExemplarBytes {
				err = fmt.Errorf("an exemplar has more than %d bytes", maxExemplarBytes)
			}
		case seriesDoc:
			err = s.parseMetadata(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *seriesV2) parseRefs(b []byte) error {
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if s.refs, b = append(s.refs, uint32(v)), b[n:]; len(s.refs) > 2*maxLabels {
			return errTooManyLabels
		}
	}
	return nil
}

var errTooManyLabels = fmt.Errorf("a series has more than %d labels", maxLabels)

func (s *seriesV2) parseSample(b []byte) error {
	var out sampleV2
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		switch {
		case num == sampleValue && kind == protowire.Fixed64Type:
			var v uint64
			v, n = protowire.ConsumeFixed64(b)
			out.value = math.Float64frombits(v)
		case (num == sampleTime || num == sampleStart) && kind == protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); num == sampleTime {
				out.t = int64(v)
			} else {
				out.start = int64(v)
			}
		case num <= sampleStart:
			return errFieldType
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
	}
	if len(s.samples) == maxSamples {
		return fmt.Errorf("a series has more than %d samples", maxSamples)
	}
	s.samples = append(s.samples, out)
	return nil
}

func (s *seriesV2) parseMetadata(b []byte) error {
	return eachField(b, func(num protowire.Number, f protoField) error {
		if (num == docType || num == docHelp || num == docUnit) && f.kind != protowire.VarintType {
			return errFieldType
		}
		switch num {
		case docType:
			s.doc.kind = writev2.Metadata_MetricType(f.bits)
		case docHelp:
			s.doc.help = uint32(f.bits)
		case docUnit:
			s.doc.unit = uint32(f.bits)
		}
		return nil
	})
}

// hashLabels returns the hash of the labels in the order sent. It fails if a reference is not a symbol of the request.
func (s *seriesV2) hashLabels(r *requestV2) (hash128, error) {
	if len(s.refs)%2 != 0 {
		return hash128{}, fmt.Errorf("%d references to symbols are no pairs of names and values", len(s.refs))
	}
	s.key = s.key[:0]
	for _, ref := range s.refs {
		if int(ref) >= len(r.sums) {
			return hash128{}, fmt.Errorf("symbol %d is none of the request, which has %d", ref, len(r.sums))
		}
		one := &r.sums[ref]
		s.key = appendHash(s.key, one)
	}
	return newHash(s.key), nil
}

func appendHash(b []byte, s *hash128) []byte {
	for _, v := range s {
		b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
	}
	return b
}

// labels builds the label set, after sum has checked that all its symbols exist.
func (s *seriesV2) labels(r *requestV2, b *labels.ScratchBuilder) labels.Labels {
	b.Reset()
	for i := 0; i < len(s.refs); i += 2 {
		b.Add(string(r.symbols[s.refs[i]]), string(r.symbols[s.refs[i+1]]))
	}
	b.Sort()
	return b.Labels()
}

// exemplar decodes an exemplar. It fails if a reference is not a symbol of the request.
func (s *seriesV2) exemplar(r *requestV2, raw []byte, b *labels.ScratchBuilder) (exemplar.Exemplar, error) {
	var p writev2.Exemplar
	if err := p.Unmarshal(raw); err != nil {
		return exemplar.Exemplar{}, err
	}
	if len(p.LabelsRefs)%2 != 0 {
		return exemplar.Exemplar{}, fmt.Errorf("%d references to symbols are no pairs of names and values", len(p.LabelsRefs))
	}
	b.Reset()
	for i := 0; i < len(p.LabelsRefs); i += 2 {
		name, value := int(p.LabelsRefs[i]), int(p.LabelsRefs[i+1])
		if max(name, value) >= len(r.symbols) {
			return exemplar.Exemplar{}, fmt.Errorf("symbol %d is none of the request, which has %d", max(name, value), len(r.symbols))
		}
		b.Add(string(r.symbols[name]), string(r.symbols[value]))
	}
	b.Sort()
	return exemplar.Exemplar{Labels: b.Labels(), Value: p.Value, Ts: p.Timestamp, HasTs: p.Timestamp != 0}, nil
}

// hashMetadata returns the hash of the description.
func (s *seriesV2) hashMetadata(r *requestV2) (hash128, error) {
	d := &s.doc
	if int(d.help) >= len(r.sums) || int(d.unit) >= len(r.sums) {
		if d.help == 0 && d.unit == 0 {
			return hash128{uint64(d.kind)}, nil // a request without symbols
		}
		return hash128{}, fmt.Errorf("symbol %d is none of the request, which has %d", max(d.help, d.unit), len(r.sums))
	}
	h, u := &r.sums[d.help], &r.sums[d.unit]
	return hash128{h[0] ^ u[1], h[1] + u[0]<<1 + uint64(d.kind)}, nil
}

// metadata returns the description, after hashMetadata has checked that its symbols exist.
func (s *seriesV2) metadata(r *requestV2) metadata.Metadata {
	m := metadata.Metadata{Type: model.MetricTypeUnknown}
	if int(s.doc.help) < len(r.symbols) {
		m.Help = string(r.symbols[s.doc.help])
	}
	if int(s.doc.unit) < len(r.symbols) {
		m.Unit = string(r.symbols[s.doc.unit])
	}
	typed := writev2.TimeSeries{Metadata: writev2.Metadata{Type: s.doc.kind}}
	if t, err := typed.ToMetadata([]string{""}); err == nil {
		m.Type = t.Type
	}
	return m
}
