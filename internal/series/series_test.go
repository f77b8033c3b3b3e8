package series

import (
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

type sample struct {
	t  int64
	v  float64
	fh *histogram.FloatHistogram
}

func (s sample) ST() int64                     { return 0 }
func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return s.fh }
func (s sample) Copy() chunks.Sample           { return s }
func (s sample) Type() chunkenc.ValueType {
	if s.fh != nil {
		return chunkenc.ValFloatHistogram
	}
	return chunkenc.ValFloat
}

func floats(values ...float64) chunkenc.Iterator {
	var out []chunks.Sample
	for i, v := range values {
		out = append(out, sample{t: int64(i + 1), v: v})
	}
	return storage.NewListSeriesIterator(samples(out))
}

type samples []chunks.Sample

func (s samples) Get(i int) chunks.Sample { return s[i] }
func (s samples) Len() int                { return len(s) }

func TestNumbers(t *testing.T) {
	stale := math.Float64frombits(value.StaleNaN)
	for _, c := range []struct {
		name             string
		values           []float64
		total, max, last float64
		ended, ok        bool
	}{
		{name: "nothing"},
		{name: "only a marker", values: []float64{stale}, ended: true},
		{name: "one", values: []float64{3}, total: 3, max: 3, last: 3, ok: true},
		{name: "grows", values: []float64{1, 2, 5}, total: 5, max: 5, last: 5, ok: true},
		{name: "starts again twice", values: []float64{10, 40, 5, 7, 0, 2}, total: 49, max: 40, last: 2, ok: true},
		{name: "ended", values: []float64{1, 4, stale}, total: 4, max: 4, last: 4, ended: true, ok: true},
		{name: "not a number", values: []float64{4, math.NaN(), 6}, total: 6, max: 6, last: 6, ok: true},
	} {
		total, ok := Total(floats(c.values...))
		if total != c.total || ok != c.ok {
			t.Errorf("%s: total %g %t, want %g %t", c.name, total, ok, c.total, c.ok)
		}
		if most, ok := Max(floats(c.values...)); most != c.max || ok != c.ok {
			t.Errorf("%s: max %g %t, want %g %t", c.name, most, ok, c.max, c.ok)
		}
		if _, v, ended, ok := Last(floats(c.values...)); v != c.last || ended != c.ended || ok != c.ok {
			t.Errorf("%s: last %g %t %t, want %g %t %t", c.name, v, ended, ok, c.last, c.ended, c.ok)
		}
	}
}

func TestMaxOfNegatives(t *testing.T) {
	if most, ok := Max(floats(-2, -7)); most != -2 || !ok {
		t.Errorf("max %g %t", most, ok)
	}
}

func TestDistributionOverResets(t *testing.T) {
	at := func(count float64) *histogram.FloatHistogram {
		return &histogram.FloatHistogram{Schema: 3, Count: count, Sum: count, PositiveSpans: []histogram.Span{{Offset: 0, Length: 1}}, PositiveBuckets: []float64{count}}
	}
	list := samples{
		sample{t: 1, fh: at(4)}, sample{t: 2, fh: at(9)}, sample{t: 3, fh: at(2)}, sample{t: 4, fh: at(5)},
		sample{t: 5, fh: &histogram.FloatHistogram{Sum: math.Float64frombits(value.StaleNaN)}},
	}
	h := Distribution(storage.NewListSeriesIterator(list))
	if h == nil || h.Count != 14 {
		t.Fatalf("%+v, want 9 + 5 observations", h)
	}
	if h := Distribution(storage.NewListSeriesIterator(samples{})); h != nil {
		t.Errorf("%+v of nothing", h)
	}
}

func TestLabelsAndMatchers(t *testing.T) {
	var n Labels
	n.Read(labels.FromStrings("__name__", "m", "site", "s", "node", "n", "workload", "w/1", "kind", "w", "part", "p", "owner", "o", "mode", "user", "cpu", "0"), "mode")
	if n.Metric != "m" || n.Site != "s" || n.Node != "n" || n.Workload != "w/1" || n.Kind != "w" || n.Part != "p" || n.Owner != "o" || len(n.Rest) != 1 || n.Rest["mode"] != "user" {
		t.Errorf("%+v", n)
	}
	if n.Read(labels.FromStrings("__name__", "x")); n.Metric != "x" || n.Node != "" || n.Rest["mode"] != "" {
		t.Errorf("left over: %+v", n)
	}
	m := OneOf("workload", []string{"a.b", "c(d)"})
	for v, want := range map[string]bool{"a.b": true, "c(d)": true, "axb": false, "cd": false, "": false} {
		if m.Matches(v) != want {
			t.Errorf("%q: %t", v, !want)
		}
	}
}
