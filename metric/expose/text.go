package expose

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"reckon/metric"
)

// appendTextFamily appends a family in the Prometheus text format or in OpenMetrics.
func (e *Encoder) appendTextFamily(dst []byte, g *group, b *metric.Batch, om, header bool) []byte {
	family, kind := g.name, g.desc.Kind.String()
	if om && g.desc.Kind == metric.Counter {
		family, kind = e.counterFamily(g)
	}
	if header {
		dst = appendHeader(dst, family, kind, g.desc, om)
	}
	for _, i := range e.members[g.first : g.first+g.n] {
		s := &b.Samples[i]
		if s.Histogram != nil {
			dst = e.appendTextHistogram(dst, g, s, om)
		} else {
			dst = append(dst, g.name...)
			dst = e.appendLabels(dst, g, s.Series, "", 0, om)
			dst = appendValue(dst, s.Value)
		}
		if om && e.created && s.Series.Created != 0 && kind != "unknown" && kind != "gauge" {
			dst = append(dst, family...)
			dst = append(dst, "_created"...)
			dst = e.appendLabels(dst, g, s.Series, "", 0, om)
			dst = strconv.AppendFloat(dst, float64(s.Series.Created)/1000, 'f', 3, 64)
			dst = append(dst, '\n')
		}
	}
	return dst
}

// counterFamily returns the OpenMetrics name and type of a counter's family. The name is that of the metric without _total. If the metric
// lacks that suffix, or another family has the shorter name, the metric keeps its name and gets the type unknown.
func (e *Encoder) counterFamily(g *group) (family, kind string) {
	base, ok := strings.CutSuffix(g.name, "_total")
	if _, taken := e.byName[base]; !ok || base == "" || taken {
		return g.name, "unknown"
	}
	return base, "counter"
}

func appendHeader(dst []byte, family, kind string, d *metric.Desc, om bool) []byte {
	dst = appendMeta(dst, "HELP", family)
	dst = appendEscaped(dst, d.Help, om)
	dst = append(dst, '\n')
	dst = appendMeta(dst, "TYPE", family)
	dst = append(dst, kind...)
	dst = append(dst, '\n')
	if om && hasUnit(family, d.Unit) {
		dst = appendMeta(dst, "UNIT", family)
		dst = append(dst, d.Unit...)
		dst = append(dst, '\n')
	}
	return dst
}

func hasUnit(family string, u metric.Unit) bool {
	n := len(family) - len(u)
	return u != metric.None && n > 1 && family[n-1] == '_' && family[n:] == string(u)
}

func appendMeta(dst []byte, word, family string) []byte {
	dst = append(dst, "# "...)
	dst = append(dst, word...)
	dst = append(dst, ' ')
	dst = append(dst, family...)
	return append(dst, ' ')
}

// appendTextHistogram appends a classic histogram to dst. It has cumulative counts at powers of two, from below the smallest
// to above the largest observation, and then +Inf, the sum and the count.
func (e *Encoder) appendTextHistogram(dst []byte, g *group, s *metric.Sample, om bool) []byte {
	ClassicBuckets(s.Histogram, func(bound float64, n uint64) {
		dst = append(dst, g.name...)
		dst = append(dst, "_bucket"...)
		dst = e.appendLabels(dst, g, s.Series, "le", bound, om)
		dst = strconv.AppendUint(dst, n, 10)
		dst = append(dst, '\n')
	})
	dst = append(dst, g.name...)
	dst = append(dst, "_sum"...)
	dst = e.appendLabels(dst, g, s.Series, "", 0, om)
	dst = appendValue(dst, s.Histogram.Sum)
	dst = append(dst, g.name...)
	dst = append(dst, "_count"...)
	dst = e.appendLabels(dst, g, s.Series, "", 0, om)
	dst = strconv.AppendUint(dst, s.Histogram.Count, 10)
	return append(dst, '\n')
}

// appendLabels appends the label set of a series, with le if it is not empty, and the space before the value.
func (e *Encoder) appendLabels(dst []byte, g *group, s *metric.Series, le string, bound float64, om bool) []byte {
	open := len(dst)
	dst = append(dst, '{')
	dst = append(dst, e.constText[g.constFrom:g.constTo]...)
	for i, v := range s.Values {
		if v != "" {
			dst = appendLabel(dst, len(dst) == open+1, g.labels[i], v)
		}
	}
	if le != "" {
		if len(dst) > open+1 {
			dst = append(dst, ',')
		}
		dst = append(dst, le...)
		dst = append(dst, '=', '"')
		dst = appendBound(dst, bound, om)
		dst = append(dst, '"')
	}
	if len(dst) == open+1 {
		dst = dst[:open]
	} else {
		dst = append(dst, '}')
	}
	return append(dst, ' ')
}

func appendLabel(dst []byte, first bool, name, value string) []byte {
	if !first {
		dst = append(dst, ',')
	}
	dst = append(dst, name...)
	dst = append(dst, '=', '"')
	dst = appendEscaped(dst, value, true)
	return append(dst, '"')
}

// appendEscaped escapes backslash, newline and, if quoted, the quotation mark. Invalid UTF-8 and NUL become U+FFFD.
func appendEscaped(dst []byte, s string, quoted bool) []byte {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			if r, n := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		} else if c != '\\' && c != '\n' && c != 0 && (c != '"' || !quoted) {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '\\':
			dst = append(dst, `\\`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '"':
			dst = append(dst, `\"`...)
		default:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
		i++
		from = i
	}
	return append(dst, s[from:]...)
}

// appendBound appends the value of le; OpenMetrics requires the format of a float.
func appendBound(dst []byte, v float64, om bool) []byte {
	if math.IsInf(v, 1) {
		return append(dst, "+Inf"...)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	if om && !strings.ContainsAny(string(dst[from:]), ".e") {
		dst = append(dst, ".0"...)
	}
	return dst
}

func appendValue(dst []byte, v float64) []byte {
	switch {
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		dst = strconv.AppendInt(dst, int64(v), 10) // several times faster than AppendFloat
	case math.IsInf(v, 1):
		dst = append(dst, "+Inf"...)
	default:
		dst = strconv.AppendFloat(dst, v, 'g', -1, 64) // also for NaN and -Inf
	}
	return append(dst, '\n')
}

// ClassicBuckets calls yield with each bound of a classic histogram and the number of observations up to it. The bounds
// are powers of two and +Inf. The counts are exact, because every power of two is also a bound of a native bucket.
func ClassicBuckets(h *metric.Histogram, yield func(bound float64, n uint64)) {
	perOctave := 1 << h.Schema()
	first, last := occupiedRange(h)
	if first > last {
		yield(h.ZeroThreshold(), h.ZeroCount)
		yield(math.Inf(1), h.Count)
		return
	}
	n, k := h.ZeroCount, first
	from := max(floorDiv(int(h.Offset)+first-1, perOctave), -1074) // the range of float64
	to := min(floorDiv(int(h.Offset)+last+perOctave-1, perOctave), 1023)
	for octave := from; octave <= to; octave++ {
		for ; k <= last && int(h.Offset)+k <= octave*perOctave; k++ {
			n += h.Buckets[k]
		}
		yield(math.Ldexp(1, octave), n)
	}
	yield(math.Inf(1), h.Count)
}

// occupiedRange returns the first and last index of a non-zero count in h.Buckets. If there is none,
// first is greater than last.
func occupiedRange(h *metric.Histogram) (first, last int) {
	last = len(h.Buckets) - 1
	for first <= last && h.Buckets[first] == 0 {
		first++
	}
	for last >= first && h.Buckets[last] == 0 {
		last--
	}
	return first, last
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
