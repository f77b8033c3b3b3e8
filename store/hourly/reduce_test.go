package hourly

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// series parses samples written as MINUTE:VALUE, with the value stale for a staleness
// marker; seconds follow a point.
func series(text string) (out []sample) {
	for f := range strings.FieldsSeq(text) {
		at, v, _ := strings.Cut(f, ":")
		var minute, x float64
		if _, err := fmt.Sscan(at, &minute); err != nil {
			panic(err)
		}
		if x = stale; v != "stale" {
			if _, err := fmt.Sscan(v, &x); err != nil {
				panic(err)
			}
		}
		out = append(out, sample{t: t0 + int64(math.Round(minute*60_000)), typ: chunkenc.ValFloat, v: x})
	}
	return out
}

func text(list []sample) string {
	var out []string
	for _, s := range list {
		v := fmt.Sprint(s.v)
		if s.isStale() {
			v = "stale"
		}
		at := fmt.Sprint(float64(s.t-t0) / 60_000)
		if (s.t+1-t0)%hour == 0 {
			at = fmt.Sprintf("%d-", (s.t+1-t0)/60_000)
		}
		out = append(out, at+":"+v)
	}
	return strings.Join(out, " ")
}

// The samples kept of a day, by kind; 60- is the last millisecond of the first hour.
func TestReduce(t *testing.T) {
	for name, c := range map[string]struct {
		kind kind
		in   string
		want string
	}{
		"a counter: the last of each hour":        {counter, "-5:1 0:2 30:3 59:4 60:5 90:6 119:7 121:8", "59:4 119:7 121:8"},
		"its first where it is born":              {counter, "10:0 20:1 50:2 70:3", "10:0 50:2 70:3"},
		"both around a reset":                     {counter, "-5:1 10:5 20:7 30:1 40:2 59:3", "20:7 30:1 59:3"},
		"a reset between hours":                   {counter, "-5:1 59:5 61:1 100:2", "59:5 61:1 100:2"},
		"the end of a life, and the next":         {counter, "-5:1 10:5 11:stale 20:0 25:1 26:stale", "10:5 11:stale 20:0 25:1 26:stale"},
		"an hour of silence ends a life":          {counter, "-5:1 10:5 80:6 90:7 119:8", "10:5 80:6 119:8"},
		"one that stands still":                   {counter, "-5:1 10:1 50:1 70:1 110:1", "50:1 110:1"},
		"a lone sample":                           {counter, "10:5 10.1:stale", "10:5 10.1:stale"},
		"a marker without a life":                 {counter, "10:stale 20:stale", "10:stale"},
		"a gauge: the mean, at the hour's end":    {gauge, "0:1 1:3 2:5 3:7 58:1 59:1", "60-:4.6"},
		"what is not there does not count":        {gauge, "0:2 58:4", "60-:2.571428571428571"},
		"silent before the hour ends":             {gauge, "0:2 1:2 2:2 70:4 119:4", "2:2 120-:4"},
		"a gauge that ends":                       {gauge, "0:2 5:4 10:stale", "5:3 10:stale"},
		"and begins again":                        {gauge, "0:2 10:stale 50:8 56:8", "0:2 10:stale 60-:8"},
		"a marker after silence":                  {gauge, "0:2 70:stale", "0:2 70:stale"},
		"a constant stays what it is":             {gauge, "0:0.1 1:0.1 2:0.1 56:0.1", "60-:0.1"},
		"what is not a number is left out":        {gauge, "0:NaN 1:2 2:NaN 56:2", "60-:2"},
		"unless there is nothing else":            {gauge, "0:NaN 56:NaN", "60-:NaN"},
		"without end":                             {gauge, "0:+Inf 56:2", "60-:+Inf"},
		"a date: the last":                        {last, "0:1700000000 30:1700000100 59:1700000100", "60-:1.7000001e+09"},
		"a fact that ends":                        {last, "0:1 30:1 30.5:stale", "30:1 30.5:stale"},
		"what lies before is looked at, not kept": {gauge, "-5:100 0:2 56:2", "60-:2"},
	} {
		t.Run(name, func(t *testing.T) {
			var r reducer
			got, err := r.reduce(&sampleIterator{all: series(c.in)}, c.kind, t0, t0+day)
			if err != nil {
				t.Fatal(err)
			}
			if text(got) != c.want {
				t.Errorf("got  %s\nwant %s", text(got), c.want)
			}
			if !slices.IsSortedFunc(got, func(a, b sample) int { return int(a.t - b.t) }) {
				t.Error("not in order")
			}
		})
	}
}

// Native histograms are kept like counters, and gauge histograms like facts.
func TestReduceHistograms(t *testing.T) {
	h := func(n int64, hint histogram.CounterResetHint) *histogram.Histogram {
		return &histogram.Histogram{
			CounterResetHint: hint, Schema: 0, Count: uint64(n), Sum: float64(n),
			PositiveSpans: []histogram.Span{{Offset: 0, Length: 1}}, PositiveBuckets: []int64{n},
		}
	}
	make := func(hint histogram.CounterResetHint, at ...int64) (out []sample) {
		for i := 0; i < len(at); i += 2 {
			one := sample{t: t0 + at[i]*60_000, typ: chunkenc.ValHistogram, h: h(at[i+1], hint)}
			if at[i+1] < 0 {
				one.h = &histogram.Histogram{Sum: stale}
			}
			out = append(out, one)
		}
		return out
	}
	counts := func(list []sample) (out []string) {
		for _, s := range list {
			v := fmt.Sprint(s.h.Count)
			if s.isStale() {
				v = "stale"
			}
			out = append(out, fmt.Sprintf("%d:%s", (s.t-t0)/60_000, v))
		}
		return out
	}
	var r reducer
	got, err := r.reduce(&sampleIterator{all: make(histogram.UnknownCounterReset, -5, 1, 10, 2, 30, 5, 40, 3, 59, 4, 70, 6, 71, -1)},
		counter, t0, t0+day)
	if want := "[30:5 40:3 59:4 70:6 71:stale]"; err != nil || fmt.Sprint(counts(got)) != want {
		t.Errorf("counters: %v (%v), want %s", counts(got), err, want)
	}
	got, err = r.reduce(&sampleIterator{all: make(histogram.GaugeType, 10, 2, 30, 5, 40, 3, 59, 4, 70, 6)}, counter, t0, t0+day)
	if want := "[59:4 70:6]"; err != nil || fmt.Sprint(counts(got)) != want {
		t.Errorf("gauges: %v (%v), want %s", counts(got), err, want)
	}
}

func TestKinds(t *testing.T) {
	k := newKinds(map[string]metadata.Metadata{
		"told": {Type: model.MetricTypeCounter}, "cores": {Type: model.MetricTypeHistogram},
		"odd_total": {Type: model.MetricTypeGauge}, "latency": {Type: model.MetricTypeSummary}, "facts": {Type: model.MetricTypeInfo},
		"sizes": {Type: model.MetricTypeGaugeHistogram},
	})
	for name, want := range map[string]kind{
		"told": counter, "cores": counter, "odd_total": gauge, "latency": gauge, "latency_sum": counter, "facts": last, "sizes_bucket": gauge,
		"x_seconds_total": counter, "x_bucket": counter, "x_count": counter, "x_sum": counter, "temperature": gauge,
		"x_info": last, "node_boot_time_seconds": last, "x_created": last,
	} {
		if got := k.kind(name); got != want || k.kind(name) != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

// The samples added by bridge let an increase be computed within hours and do not change it.
func TestBridge(t *testing.T) {
	at := timeRange{t0, t0 + day}
	add := func(in string) string {
		all := addBridgeSamples(series(in), at, rangeEdges{{t0 + 1, hour}}, nil)
		var out []sample
		for i, s := range all { // the first and the last of a burst
			if i > 0 && i+1 < len(all) && s.t-all[i-1].t == 1 && all[i+1].t-s.t == 1 {
				continue
			}
			out = append(out, s)
		}
		for i := 1; i < len(all); i++ {
			if all[i].t <= all[i-1].t {
				t.Errorf("%s: time goes back at %d of %s", in, i, text(all))
			}
		}
		return text(out)
	}
	ms := func(minute float64, n int) string { return fmt.Sprint((minute*60_000 + float64(n)) / 60_000) }
	for in, want := range map[string]string{
		// It exists before and after.
		"-1:0 59:60 119:120 179:180 1439:9": "-1:0 " + ms(0, 1) + fmt.Sprint(":", 1+1./60_000) + " 59:60 " + ms(60, 1) + fmt.Sprint(":", 61+1./60_000) +
			" 119:120 " + ms(120, 1) + fmt.Sprint(":", 121+1./60_000) + " " + ms(179, -32) + ":180 179:180 1439:9",
		"1379:1 1439:1":                     "1379:1 " + ms(1379, 32) + ":1 " + ms(1380, 1) + ":1 1439:1",
		"30:0 50:4 50.5:stale 1439:1":       "30:0 " + ms(30, 32) + ":0 " + ms(50, -32) + ":4 50:4 50.5:stale 1439:1",
		"30:0 30.001:stale 90:1 90.1:stale": "30:0 30.001:stale 90:1 90.1:stale",
		"-1:9 59:1":                         "-1:9 " + ms(0, 1) + ":9 " + ms(59, -32) + ":1 59:1", // a reset
	} {
		if got := add(in); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", in, got, want)
		}
	}
}

// For an hour in both series, the samples of the first are used.
func TestSplice(t *testing.T) {
	for _, c := range [][3]string{
		{"10:1 20:2 130:3", "30:9 70:8 119:7 121:9", "10:1 20:2 70:8 119:7 130:3"},
		{"", "30:9 70:8", "30:9 70:8"},
		{"30:9 70:8", "", "30:9 70:8"},
		{"70:1", "30:9 60:8 130:7", "30:9 70:1 130:7"},
		{"30:1", "30:2", "30:1"},
	} {
		s := fillHours(memorySeries(lset("x"), series(c[0])), memorySeries(lset("x"), series(c[1])))
		var got []sample
		it := s.Iterator(nil)
		for typ := it.Next(); typ != chunkenc.ValNone; typ = it.Next() {
			one, err := sampleAt(it, typ)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, one)
		}
		if text(got) != c[2] || it.Err() != nil || it.Next() != chunkenc.ValNone {
			t.Errorf("%q and %q: %s, want %s (%v)", c[0], c[1], text(got), c[2], it.Err())
		}
		it = s.Iterator(nil)
		if typ := it.Seek(t0 + hour); len(got) > 0 && got[len(got)-1].t >= t0+hour && (typ != chunkenc.ValFloat || it.AtT() < t0+hour) {
			t.Errorf("%q and %q: seek finds %v", c[0], c[1], typ)
		}
	}
}

// A day of numbers is reduced without allocating memory.
func TestReduceAllocates(t *testing.T) {
	in := &sampleIterator{all: counterDay()}
	var r reducer
	run := func(k kind) float64 {
		return testing.AllocsPerRun(10, func() {
			in.i = 0
			if _, err := r.reduce(in, k, t0, t0+day); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, k := range []kind{counter, gauge, last} {
		if n := run(k); n != 0 {
			t.Errorf("kind %d: %v allocations", k, n)
		}
	}
}

func counterDay() (out []sample) {
	for i := range int64(5760) {
		out = append(out, sample{t: t0 + i*15_000, typ: chunkenc.ValFloat, v: float64(i) * 1.37})
	}
	return out
}

// BenchmarkReduce reduces a day of one series at 15 s.
func BenchmarkReduce(b *testing.B) {
	for name, k := range map[string]kind{"counter": counter, "gauge": gauge} {
		b.Run(name, func(b *testing.B) {
			c := chunkenc.NewXORChunk()
			app, err := c.Appender()
			if err != nil {
				b.Fatal(err)
			}
			for _, s := range counterDay() {
				app.Append(0, s.t, s.v)
			}
			var r reducer
			var it chunkenc.Iterator
			b.ReportAllocs()
			for b.Loop() {
				it = c.Iterator(it)
				if _, err := r.reduce(it, k, t0, t0+day); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(5760*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}
