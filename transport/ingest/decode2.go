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

// request2 is an io.prometheus.write.v2.Request that is decoded without copying. It refers to body and is valid only
// while body is unchanged. It can be reused.
type request2 struct {
	body    []byte
	symbols [][]byte
	sums    []sum   // of the symbols
	longest int     // bytes of the longest series
	one     series2 // scratch for the current series
}

// large reports whether r takes many times its size while it is decoded.
func (r *request2) large() bool { return len(r.symbols) > largeSymbols || r.longest > largeSeries }

// recycle ends the use of r: it no longer points into the body, and holds little memory.
func (r *request2) recycle() {
	clear(r.symbols)
	clear(r.one.histograms[:cap(r.one.histograms)])
	clear(r.one.exemplars[:cap(r.one.exemplars)])
	if r.large() {
		*r = request2{}
	}
	r.body, r.symbols = nil, r.symbols[:0]
}

// sum is a collision-free hash for practical purposes: 128 bits, with seeds that are unknown to senders.
type sum [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func sumOf(b []byte) sum { return sum{maphash.Bytes(seeds[0], b), maphash.Bytes(seeds[1], b)} }

// Numbers of fields, of types.proto in prompb/io/prometheus/write/v2.
const (
	reqSymbols, reqSeries                       = 4, 5
	seriesRefs, seriesSamples, seriesHistograms = 1, 2, 3
	seriesExemplars, seriesDoc                  = 4, 5
	sampleValue, sampleTime, sampleStart        = 1, 2, 3
	docType, docHelp, docUnit                   = 1, 3, 4
)

// parse reads the symbols and checks the outermost message.
func (r *request2) parse(b []byte) error {
	r.body, r.symbols, r.sums, r.longest = b, r.symbols[:0], r.sums[:0], 0
	series := 0
	err := eachField(b, func(num protowire.Number, f field) error {
		switch num {
		case req1Series, req1Metadata:
			return errors.New("it is a prometheus.WriteRequest of remote write 1.0")
		case reqSymbols:
			if f.kind != protowire.BytesType {
				return errKind
			}
			if len(r.symbols) == maxSymbols {
				return fmt.Errorf("it has more than %d symbols", maxSymbols)
			}
			r.symbols = append(r.symbols, f.bytes)
			r.sums = append(r.sums, sumOf(f.bytes))
		case reqSeries:
			if f.kind != protowire.BytesType {
				return errKind
			}
			if len(f.bytes) == 0 {
				return errEmptySeries
			}
			if series++; series > maxSeries {
				return errSeries
			}
			r.longest = max(r.longest, len(f.bytes))
		}
		return nil
	})
	return err
}

// field is the value of a field of any type.
type field struct {
	kind  protowire.Type
	bits  uint64 // for a number
	bytes []byte
}

var errKind = fmt.Errorf("a field has another type than it should")

// eachField calls do for each field of a message.
func eachField(b []byte, do func(protowire.Number, field) error) error {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		f := field{kind: kind}
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
		if err := do(num, f); err != nil {
			return err
		}
	}
	return nil
}

// series2 is one decoded series of a request2. It can be reused.
type series2 struct {
	refs       []uint32 // of names and values, alternating
	samples    []sample2
	histograms [][]byte
	exemplars  [][]byte
	doc        doc2
	key        []byte // scratch of sum
}

type sample2 struct {
	value    float64
	t, start int64
}

// doc2 describes the metric; help and unit are symbols.
type doc2 struct {
	kind       writev2.Metadata_MetricType
	help, unit uint32
}

// parse reads a series.
func (s *series2) parse(b []byte) error {
	s.refs, s.samples, s.histograms, s.exemplars, s.doc = s.refs[:0], s.samples[:0], s.histograms[:0], s.exemplars[:0], doc2{}
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
				return errLabels
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
			return errKind
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
			err = s.parseDoc(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *series2) parseRefs(b []byte) error {
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if s.refs, b = append(s.refs, uint32(v)), b[n:]; len(s.refs) > 2*maxLabels {
			return errLabels
		}
	}
	return nil
}

var errLabels = fmt.Errorf("a series has more than %d labels", maxLabels)

func (s *series2) parseSample(b []byte) error {
	var out sample2
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
			return errKind
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

func (s *series2) parseDoc(b []byte) error {
	return eachField(b, func(num protowire.Number, f field) error {
		if (num == docType || num == docHelp || num == docUnit) && f.kind != protowire.VarintType {
			return errKind
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

// sum returns the hash of the labels in the order sent. It fails if a reference is not a symbol of the request.
func (s *series2) sum(r *request2) (sum, error) {
	if len(s.refs)%2 != 0 {
		return sum{}, fmt.Errorf("%d references to symbols are no pairs of names and values", len(s.refs))
	}
	s.key = s.key[:0]
	for _, ref := range s.refs {
		if int(ref) >= len(r.sums) {
			return sum{}, fmt.Errorf("symbol %d is none of the request, which has %d", ref, len(r.sums))
		}
		one := &r.sums[ref]
		s.key = appendSum(s.key, one)
	}
	return sumOf(s.key), nil
}

func appendSum(b []byte, s *sum) []byte {
	for _, v := range s {
		b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
	}
	return b
}

// labels builds the label set, after sum has checked that all its symbols exist.
func (s *series2) labels(r *request2, b *labels.ScratchBuilder) labels.Labels {
	b.Reset()
	for i := 0; i < len(s.refs); i += 2 {
		b.Add(string(r.symbols[s.refs[i]]), string(r.symbols[s.refs[i+1]]))
	}
	b.Sort()
	return b.Labels()
}

// exemplar decodes an exemplar. It fails if a reference is not a symbol of the request.
func (s *series2) exemplar(r *request2, raw []byte, b *labels.ScratchBuilder) (exemplar.Exemplar, error) {
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

// docSum returns the hash of the description.
func (s *series2) docSum(r *request2) (sum, error) {
	d := &s.doc
	if int(d.help) >= len(r.sums) || int(d.unit) >= len(r.sums) {
		if d.help == 0 && d.unit == 0 {
			return sum{uint64(d.kind)}, nil // a request without symbols
		}
		return sum{}, fmt.Errorf("symbol %d is none of the request, which has %d", max(d.help, d.unit), len(r.sums))
	}
	h, u := &r.sums[d.help], &r.sums[d.unit]
	return sum{h[0] ^ u[1], h[1] + u[0]<<1 + uint64(d.kind)}, nil
}

// metadata returns the description, after docSum has checked that its symbols exist.
func (s *series2) metadata(r *request2) metadata.Metadata {
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
