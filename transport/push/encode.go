package push

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"unsafe"

	"reckon/metric"
)

// maxSeries is the maximum number of series in a request. A request from a busy node then has about 100 KB, which every
// receiver accepts.
const maxSeries = 2000

// Encoder writes batches as remote write 2.0 requests. After warm-up it does not allocate.
type Encoder struct {
	external []labelPair
	filter   Filter
	plans    map[*metric.Desc]*descPlan

	round   uint64 // number of the request
	refs    map[string]uint32
	recent  [recentSymbols]recentSymbol
	symbols []byte
	series  []byte
	one     []byte
	value   []byte
	request []byte
	n       int // series in the request
	samples int // and samples
}

// recentSymbols is the number of recent label values that are found by their address in memory. Consecutive series of a
// workload share these values.
const recentSymbols = 256

type recentSymbol struct {
	value string
	ref   uint32
	round uint64
}

type labelPair struct{ name, value string }

// descPlan is the part of the encoding that all series of a metric description share.
type descPlan struct {
	drop  bool
	slots []labelSlot // in the order of label names
	round uint64      // round in which the references are valid
	help  uint32
	unit  uint32
	kind  uint64
}

// labelSlot is one label of a description: the index of a label value of the series, or a constant.
type labelSlot struct {
	name     string
	value    int // index of Series.Values, or -1
	constant string
	ref      uint32 // of the name
}

// NewEncoder returns an encoder that adds labels to every series. A label of the series overrides an added label with the same name.
func NewEncoder(labels map[string]string, f Filter) *Encoder {
	e := &Encoder{filter: f, plans: make(map[*metric.Desc]*descPlan), refs: make(map[string]uint32)}
	for name, value := range labels {
		if value != "" {
			e.external = append(e.external, labelPair{name, toValidUTF8(value)})
		}
	}
	slices.SortFunc(e.external, func(a, b labelPair) int { return strings.Compare(a.name, b.name) })
	return e
}

// Encode encodes a batch as one or more requests and calls emit for each, with its number of samples. The request is
// valid until emit returns. If emit returns an error, Encode stops and returns it.
func (e *Encoder) Encode(b *metric.Batch, emit func(request []byte, samples int) error) error {
	e.beginRequest()
	t := b.Time.UnixMilli()
	for i := range b.Samples {
		s := &b.Samples[i]
		d := s.Series.Desc
		if (d.Kind == metric.NativeHistogram) != (s.Histogram != nil) || len(s.Series.Values) != len(d.Labels) {
			continue // it has no valid encoding
		}
		p := e.planFor(d)
		if p.drop || !e.filter.keepSeries(s.Series) {
			continue
		}
		e.addSeries(p, s, t)
		if e.n == maxSeries {
			if err := e.flushRequest(emit); err != nil {
				return err
			}
		}
	}
	return e.flushRequest(emit)
}

func (e *Encoder) beginRequest() {
	e.round++
	clear(e.refs)
	e.symbols, e.series, e.n, e.samples = e.symbols[:0], e.series[:0], 0, 0
	e.addSymbol("") // reference 0 is the empty string
}

func (e *Encoder) flushRequest(emit func([]byte, int) error) error {
	if e.n == 0 {
		return nil
	}
	e.request = append(append(e.request[:0], e.symbols...), e.series...)
	err := emit(e.request, e.samples)
	e.beginRequest()
	return err
}

func (e *Encoder) addSymbol(s string) uint32 {
	if r, ok := e.refs[s]; ok {
		return r
	}
	r := uint32(len(e.refs))
	e.refs[s] = r
	e.symbols = appendString(e.symbols, reqSymbol, s)
	return r
}

// addValueSymbol returns the symbol of a label value, which may contain invalid UTF-8.
func (e *Encoder) addValueSymbol(s string) uint32 {
	at := uintptr(unsafe.Pointer(unsafe.StringData(s)))
	r := &e.recent[(at>>4^at>>12)%recentSymbols]
	if r.round != e.round || unsafe.StringData(r.value) != unsafe.StringData(s) || len(r.value) != len(s) {
		*r = recentSymbol{s, e.addSymbol(toValidUTF8(s)), e.round}
	}
	return r.ref
}

// planFor returns the plan of a description. Its symbols are valid in this request.
func (e *Encoder) planFor(d *metric.Desc) *descPlan {
	p := e.plans[d]
	if p == nil {
		p = e.newPlan(d)
		e.plans[d] = p
	}
	if p.drop || p.round == e.round {
		return p
	}
	p.round = e.round
	p.help, p.unit = e.addSymbol(toValidUTF8(d.Help)), e.addSymbol(string(d.Unit))
	for i := range p.slots {
		p.slots[i].ref = e.addSymbol(p.slots[i].name)
	}
	return p
}

func (e *Encoder) newPlan(d *metric.Desc) *descPlan {
	p := &descPlan{drop: !e.filter.keepName(d.Name)}
	switch d.Kind { // enum Metadata.MetricType
	case metric.Counter:
		p.kind = 1
	case metric.Gauge:
		p.kind = 2
	case metric.NativeHistogram:
		p.kind = 3
	}
	p.slots = append(p.slots, labelSlot{name: "__name__", value: -1, constant: toValidUTF8(d.Name)})
	for i, l := range d.Labels {
		p.slots = append(p.slots, labelSlot{name: toValidUTF8(l), value: i})
	}
	for _, x := range e.external {
		i := slices.IndexFunc(p.slots, func(s labelSlot) bool { return s.name == x.name })
		if i < 0 {
			p.slots = append(p.slots, labelSlot{name: x.name, value: -1, constant: x.value})
		} else if p.slots[i].value >= 0 {
			p.slots[i].constant = x.value // if the series has none
		}
	}
	slices.SortFunc(p.slots, func(a, b labelSlot) int { return strings.Compare(a.name, b.name) })
	return p
}

// addSeries appends one series with its sample and, if it ended, its staleness marker.
func (e *Encoder) addSeries(p *descPlan, s *metric.Sample, t int64) {
	refs := e.value[:0]
	for i := range p.slots {
		sl := &p.slots[i]
		v := sl.constant
		if sl.value >= 0 && s.Series.Values[sl.value] != "" {
			v = s.Series.Values[sl.value]
		}
		if v != "" {
			refs = binary.AppendUvarint(refs, uint64(sl.ref))
			refs = binary.AppendUvarint(refs, uint64(e.addValueSymbol(v)))
		}
	}
	e.one = appendBytes(e.one[:0], seriesRefs, refs)
	start := int64(0)
	if s.Series.Desc.Kind != metric.Gauge && s.Series.Created > 0 && s.Series.Created < t {
		start = s.Series.Created
	}
	e.value = refs
	if h := s.Histogram; h != nil {
		e.value = appendHistogram(e.value[:0], h, t, start)
		e.one = appendBytes(e.one, seriesHistogram, e.value)
		if s.Last {
			e.value = appendStaleHistogram(e.value[:0], t+1)
			e.one = appendBytes(e.one, seriesHistogram, e.value)
		}
	} else {
		e.value = appendSample(e.value[:0], math.Float64bits(s.Value), t, start)
		e.one = appendBytes(e.one, seriesSample, e.value)
		if s.Last {
			e.value = appendSample(e.value[:0], staleNaN, t+1, 0)
			e.one = appendBytes(e.one, seriesSample, e.value)
		}
	}
	m := appendUint(e.value[:0], metaType, p.kind)
	m = appendUint(m, metaHelp, uint64(p.help))
	if p.unit != 0 {
		m = appendUint(m, metaUnit, uint64(p.unit))
	}
	e.one = appendBytes(e.one, seriesMeta, m)
	e.value = m
	e.series = appendBytes(e.series, reqSeries, e.one)
	e.n++
	e.samples++
	if s.Last {
		e.samples++
	}
}

func appendSample(dst []byte, bits uint64, t, start int64) []byte {
	dst = appendFixed(dst, sampleValue, bits)
	dst = appendUint(dst, sampleTime, uint64(t))
	if start != 0 {
		dst = appendUint(dst, sampleStart, uint64(start))
	}
	return dst
}

// appendHistogram appends a native histogram to dst. It writes one span from the first to the last non-empty bucket,
// because an empty bucket within a span takes only a byte or two.
func appendHistogram(dst []byte, h *metric.Histogram, t, start int64) []byte {
	dst = appendUint(dst, histCount, h.Count)
	dst = appendFixed(dst, histSum, math.Float64bits(h.Sum))
	dst = appendUint(dst, histSchema, zigzag(int64(h.Schema())))
	dst = appendFixed(dst, histZeroThreshold, math.Float64bits(h.ZeroThreshold()))
	dst = appendUint(dst, histZeroCount, h.ZeroCount)
	first, last := 0, len(h.Buckets)-1
	for first <= last && h.Buckets[first] == 0 {
		first++
	}
	for last >= first && h.Buckets[last] == 0 {
		last--
	}
	if first <= last {
		var buf [2 * binary.MaxVarintLen64]byte
		span := appendUint(buf[:0], spanOffset, zigzag(int64(h.Offset)+int64(first)))
		span = appendUint(span, spanLength, uint64(last-first+1))
		dst = appendBytes(dst, histSpan, span)
		n, prev := 0, uint64(0)
		for _, c := range h.Buckets[first : last+1] {
			n += binary.PutUvarint(buf[:], zigzag(int64(c-prev)))
			prev = c
		}
		dst = binary.AppendUvarint(appendTag(dst, histDelta), uint64(n))
		prev = 0
		for _, c := range h.Buckets[first : last+1] {
			dst = binary.AppendUvarint(dst, zigzag(int64(c-prev)))
			prev = c
		}
	}
	dst = appendUint(dst, histTime, uint64(t))
	if start != 0 {
		dst = appendUint(dst, histStartTail, uint64(start))
	}
	return dst
}

// appendStaleHistogram writes the histogram that ends a series: its sum is staleNaN.
func appendStaleHistogram(dst []byte, t int64) []byte {
	dst = appendUint(dst, histCount, 0)
	dst = appendFixed(dst, histSum, staleNaN)
	dst = appendUint(dst, histZeroCount, 0)
	return appendUint(dst, histTime, uint64(t))
}
