package expose

import (
	"cmp"
	"slices"
	"strings"

	"reckon/metric"
)

// Encoder encodes batches as pages. It reuses its working memory and is not safe for concurrent use.
type Encoder struct {
	consts  []label
	created bool

	groups  []group
	byDesc  map[*metric.Desc]int32
	byName  map[string]int32
	sorted  []int32 // group numbers by name
	members []int32 // sample numbers, grouped
	of      []int32 // group number of each sample

	constText []byte // rendered constant labels of the groups
	family    []byte // protobuf buffers: the family, the metric and its value
	metric    []byte
	value     []byte
}

type label struct{ name, value string }

// group is a metric family: all samples with one name.
type group struct {
	desc   *metric.Desc
	name   string // sanitized
	labels []string
	// Constant labels: text in constText, and bit i set for Encoder.consts[i].
	constFrom, constTo int
	constMask          uint64
	first, n           int32 // range in members
}

// NewEncoder returns an encoder with the given options. It uses at most 64 constant labels.
func NewEncoder(o Options) *Encoder {
	e := &Encoder{
		created: o.Created,
		byDesc:  make(map[*metric.Desc]int32),
		byName:  make(map[string]int32),
	}
	for name, value := range o.Labels {
		if name = cleanName(name, false); value != "" && name != "__name__" {
			e.consts = append(e.consts, label{name, value})
		}
	}
	slices.SortFunc(e.consts, func(a, b label) int { return strings.Compare(a.name, b.name) })
	e.consts = slices.CompactFunc(e.consts, func(a, b label) bool { return a.name == b.name })
	e.consts = e.consts[:min(len(e.consts), 64)]
	return e
}

// Append appends the samples of b to dst in format f and returns the extended slice. Families are sorted by name. The
// samples of a family keep their order in the batch.
func (e *Encoder) Append(dst []byte, f Format, b *metric.Batch) []byte {
	return e.appendFlushing(dst, f, b, nil)
}

// pieceSize is the size in bytes at which a piece of a page is flushed.
const pieceSize = 64 << 10

// appendFlushing is like Append, but passes the text to flush in pieces and then reuses dst. It returns the text after
// the last piece. A nil flush is never called.
func (e *Encoder) appendFlushing(dst []byte, f Format, b *metric.Batch, flush func([]byte)) []byte {
	e.groupFamilies(b)
	name := ""
	for _, i := range e.sorted {
		g := &e.groups[i]
		switch f {
		case Protobuf:
			dst = e.appendProtoFamily(dst, g, b)
		default:
			dst = e.appendTextFamily(dst, g, b, f == OpenMetrics, g.name != name)
		}
		name = g.name
		if flush != nil && len(dst) >= pieceSize {
			flush(dst)
			dst = dst[:0]
		}
	}
	if f == OpenMetrics {
		dst = append(dst, "# EOF\n"...)
	}
	return dst
}

// groupFamilies sorts the samples into families: a counting sort that keeps their order.
func (e *Encoder) groupFamilies(b *metric.Batch) {
	e.groups, e.sorted, e.constText = e.groups[:0], e.sorted[:0], e.constText[:0]
	clear(e.byDesc)
	clear(e.byName)
	e.of = slices.Grow(e.of[:0], len(b.Samples))[:len(b.Samples)]
	e.members = slices.Grow(e.members[:0], len(b.Samples))[:len(b.Samples)]

	var last *metric.Desc
	var g int32
	for i := range b.Samples {
		s := &b.Samples[i]
		if d := s.Series.Desc; d != last {
			g, last = e.groupFor(d), d
		}
		e.of[i] = -1
		// A sample that does not fit its family could only be encoded incorrectly.
		if isHistogram(e.groups[g].desc) == (s.Histogram != nil) && len(s.Series.Values) == len(last.Labels) && !s.Ended() {
			e.of[i] = g
			e.groups[g].n++
		}
	}
	from := int32(0)
	for i := range e.groups {
		e.groups[i].first = from
		from += e.groups[i].n
		e.groups[i].n = 0
	}
	for i, g := range e.of {
		if g >= 0 {
			gr := &e.groups[g]
			e.members[gr.first+gr.n] = int32(i)
			gr.n++
		}
	}
	for i := range e.groups {
		if e.groups[i].n > 0 {
			e.sorted = append(e.sorted, int32(i))
		}
	}
	slices.SortFunc(e.sorted, func(a, b int32) int {
		return cmp.Or(strings.Compare(e.groups[a].name, e.groups[b].name), cmp.Compare(a, b))
	})
}

func (e *Encoder) groupFor(d *metric.Desc) int32 {
	if g, ok := e.byDesc[d]; ok {
		return g
	}
	name := cleanName(d.Name, true)
	g, ok := e.byName[name]
	if ok && !slices.Equal(e.groups[g].desc.Labels, d.Labels) && isHistogram(e.groups[g].desc) == isHistogram(d) {
		ok = false // same name, other labels: written directly after it, without a second header
	}
	if !ok {
		g = int32(len(e.groups))
		e.groups = append(e.groups, e.newGroup(d, name))
		if _, taken := e.byName[name]; !taken {
			e.byName[name] = g
		}
	}
	e.byDesc[d] = g
	return g
}

func (e *Encoder) newGroup(d *metric.Desc, name string) group {
	g := group{desc: d, name: name, labels: d.Labels, constFrom: len(e.constText)}
	for i, l := range d.Labels {
		clean := cleanName(l, false)
		if clean == "le" && isHistogram(d) || clean == "__name__" {
			clean = "exported_" + clean // would have another meaning for readers
		}
		if clean != l {
			if &g.labels[0] == &d.Labels[0] {
				g.labels = slices.Clone(d.Labels)
			}
			g.labels[i] = clean
		}
	}
	for i, c := range e.consts {
		if slices.Contains(g.labels, c.name) {
			continue
		}
		g.constMask |= 1 << i
		e.constText = appendLabel(e.constText, len(e.constText) == g.constFrom, c.name, c.value)
	}
	g.constTo = len(e.constText)
	return g
}

func isHistogram(d *metric.Desc) bool { return d.Kind == metric.NativeHistogram }

// cleanName maps a name into [a-zA-Z_][a-zA-Z0-9_]*, plus colons for metrics.
func cleanName(s string, colon bool) string {
	ok := func(i int, c byte) bool {
		return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == ':' && colon || c >= '0' && c <= '9' && i > 0
	}
	for i := range len(s) {
		if !ok(i, s[i]) {
			b := []byte(s)
			for j := range b {
				if !ok(j, b[j]) {
					b[j] = '_'
				}
			}
			return string(b)
		}
	}
	if s == "" {
		return "_"
	}
	return s
}
