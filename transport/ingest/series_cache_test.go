package ingest

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/model/value"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/storage"
	"google.golang.org/protobuf/encoding/protowire"

	"reckon/transport/limits"
)

// watched is a store that counts the use of references, and can change its generation.
type watched struct {
	storage.AppendableV2
	generation uint64
	given      []storage.SeriesRef // with each sample
}

type watchedAppender struct {
	storage.AppenderV2
	w *watched
}

func (w *watched) AppenderV2(ctx context.Context) storage.AppenderV2 {
	a := &watchedAppender{w.AppendableV2.AppenderV2(ctx), w}
	if w.generation == 0 {
		return struct{ storage.AppenderV2 }{a} // without generations
	}
	return a
}

func (a *watchedAppender) Generation() uint64 { return a.w.generation }

func (a *watchedAppender) Append(ref storage.SeriesRef, ls labels.Labels, st, t int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram, o storage.AOptions) (storage.SeriesRef, error) {
	a.w.given = append(a.w.given, ref)
	return a.AppenderV2.Append(ref, ls, st, t, v, h, fh, o)
}

// two is a request of 2.0 with one sample of one series.
func two(symbols []string, refs []uint32, at time.Time, v float64, m writev2.Metadata) []byte {
	plain, err := proto.Marshal(&writev2.Request{Symbols: symbols, Timeseries: []writev2.TimeSeries{{
		LabelsRefs: refs, Samples: []writev2.Sample{{Value: v, Timestamp: at.UnixMilli()}}, Metadata: m,
	}}})
	if err != nil {
		panic(err)
	}
	return s2.EncodeSnappy(nil, plain)
}

func offer(t *testing.T, h http.Handler, body []byte, code int) {
	t.Helper()
	if w := send(h, kind2, body); w.Code != code {
		t.Errorf("answer %d, want %d: %s", w.Code, code, w.Body)
	}
}

// The store's references are reused while they are valid, and never longer.
func TestKnown(t *testing.T) {
	for name, generation := range map[string]uint64{"with generations": 1, "without": 0} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			w := &watched{AppendableV2: s, generation: generation}
			h := newHandler(Options{Store: w}, "remote_write")
			at := time.Now().Add(-time.Minute)
			next := func() []byte {
				at = at.Add(time.Second)
				return two([]string{"", "__name__", "cpu", "node", "n1"}, []uint32{1, 2, 3, 4}, at, 1, writev2.Metadata{})
			}
			offer(t, h, next(), 204)
			offer(t, h, next(), 204)
			// The same labels with other symbols and in another order are the same series.
			at = at.Add(time.Second)
			offer(t, h, two([]string{"n1", "cpu", "__name__", "node"}, []uint32{3, 0, 2, 1}, at, 1, writev2.Metadata{}), 204)
			if w.generation > 0 {
				if w.given[0] != 0 || w.given[1] == 0 {
					t.Errorf("references %v: the second should be one that was returned", w.given)
				}
				w.generation++ // the store was reopened: its references may belong to other series
			}
			offer(t, h, next(), 204)
			if last := w.given[len(w.given)-1]; last != 0 {
				t.Errorf("reference %d is of an earlier generation", last)
			}
			got := read(t, s, "cpu")
			if len(got) != 1 || len(got[`{__name__="cpu", node="n1"}`]) != 4 {
				t.Errorf("stored %v, want one series of four samples", got)
			}
		})
	}
}

// A refused series is refused again, and cached series are checked as others are.
func TestKnownIsChecked(t *testing.T) {
	s := openStore(t)
	allowed := true
	h := newHandler(Options{Store: s, Allow: func(context.Context) (func(string, string) bool, error) {
		return func(string, string) bool { return allowed }, nil
	}}, "remote_write")
	at := time.Now().Add(-time.Minute)
	twice := []uint32{1, 2, 3, 4, 3, 2}
	symbols := []string{"", "__name__", "cpu", "node", "n1"}
	for range 2 {
		offer(t, h, two(symbols, twice, at, 1, writev2.Metadata{}), 400)
		offer(t, h, two(symbols, []uint32{1, 2, 3}, at, 1, writev2.Metadata{}), 400)
		offer(t, h, two(symbols, []uint32{1, 9}, at, 1, writev2.Metadata{}), 400)
		offer(t, h, two(symbols, []uint32{1, 2}, at, 1, writev2.Metadata{HelpRef: 9}), 400)
		offer(t, h, two([]string{"", "__name__", "cpu", "\xff", "n1"}, []uint32{1, 2, 3, 4}, at, 1, writev2.Metadata{}), 400)
	}
	offer(t, h, two(symbols, []uint32{1, 2}, at, 1, writev2.Metadata{}), 204)
	allowed = false
	offer(t, h, two(symbols, []uint32{1, 2}, at.Add(time.Second), 1, writev2.Metadata{}), 403)
}

// A description is stored if it is new or changed.
func TestKnownDescription(t *testing.T) {
	s := openStore(t)
	var told []metadata.Metadata
	h := newHandler(Options{Store: s, Describe: func(_ string, m metadata.Metadata) error { told = append(told, m); return nil }}, "remote_write")
	at := time.Now().Add(-time.Minute)
	for i, help := range []string{"Old.", "Old.", "New.", "New."} {
		offer(t, h, two([]string{"", "__name__", "cpu", help, "seconds"}, []uint32{1, 2}, at.Add(time.Duration(i)*time.Second), 1,
			writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_COUNTER, HelpRef: 3, UnitRef: 4}), 204)
	}
	want := []metadata.Metadata{{Type: "counter", Help: "Old.", Unit: "seconds"}, {Type: "counter", Help: "New.", Unit: "seconds"}}
	if !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// A series with an end that its sender marks is evicted, its labels with it, and comes again as the same series.
func TestEndedSeriesIsEvicted(t *testing.T) {
	s := openStore(t)
	h := newHandler(Options{Store: s}, "remote_write")
	cached := func() (n int) {
		for i := range h.series.shards {
			n += len(h.series.shards[i].byKey)
		}
		return n
	}
	at := time.Now().Add(-time.Minute)
	const samples = 6
	for i, v := range [samples]float64{1, 2, math.Float64frombits(value.StaleNaN), math.Float64frombits(value.StaleNaN), 3, 4} {
		offer(t, h, two([]string{"", "__name__", "cpu", "node", "n1"}, []uint32{1, 2, 3, 4}, at.Add(time.Duration(i)*time.Second), v, writev2.Metadata{}), 204)
		want := 1
		if value.IsStaleNaN(v) {
			want = 0
		}
		if got := cached(); got != want {
			t.Errorf("%d series are cached after sample %d, want %d", got, i, want)
		}
	}
	if got := read(t, s, "cpu"); len(got) != 1 || len(got[`{__name__="cpu", node="n1"}`]) != samples {
		t.Errorf("stored %v, want one series of %d samples", got, samples)
	}
}

// Idle series are evicted, and so is everything before the cache grows too large.
func TestForgotten(t *testing.T) {
	var k seriesCache
	key := func(i int) hash128 { return hash128{uint64(i) * cacheShards, 1} } // all in one shard
	k.add(key(1), knownSeries{}, 1)
	k.add(key(2), knownSeries{}, 1)
	k.get(key(2), 2, nil)
	k.add(key(3), knownSeries{}, 3)
	one, other := k.get(key(1), 3, nil) != nil, k.get(key(2), 3, nil) != nil
	if one || !other {
		t.Errorf("after two rounds the idle series is known: %v, the other: %v", one, other)
	}
	for i := range maxSeriesPerShard + 10 {
		k.add(key(i), knownSeries{}, 3)
	}
	if n := len(k.shards[0].byKey); n > maxSeriesPerShard {
		t.Errorf("%d series in a shard, at most %d", n, maxSeriesPerShard)
	}
}

// A series points to its successor, which is never an evicted or replaced one.
func TestFollowing(t *testing.T) {
	var k seriesCache
	key := func(i int) hash128 { return hash128{uint64(i), 1} }
	for i := range 3 {
		k.add(key(i), knownSeries{start: int64(i)}, 1)
	}
	first := k.get(key(0), 1, nil)
	for range 2 {
		if got := k.get(key(1), 1, first); got == nil || got.start != 1 || first.next.Load() != got {
			t.Fatalf("%+v after the first", got)
		}
	}
	if got := k.get(key(2), 1, first); got == nil || got.start != 2 || first.next.Load() != got { // another order
		t.Fatalf("%+v after the first", got)
	}
	k.add(key(2), knownSeries{start: 7}, 1)
	if got := k.get(key(2), 1, first); got == nil || got.start != 7 {
		t.Errorf("%+v of a series that was replaced", got)
	}
	k.add(key(0), knownSeries{start: 8}, 1)
	if again := k.get(key(0), 1, nil); again.next.Load() != first.next.Load() {
		t.Error("a series that was replaced no longer leads to the next")
	}
	k.add(key(2+cacheShards), knownSeries{}, 4) // evicts the other series of its shard
	if got := k.get(key(2), 4, first); got != nil {
		t.Errorf("%+v of a series that was evicted", got)
	}
}

// Labels are checked against the limits once, and again when these change.
func TestKnownAndOtherBounds(t *testing.T) {
	s := openStore(t)
	l := limits.New(limits.Config{}, nil, nil)
	h := newHandler(Options{Store: s, Begin: func(context.Context) (*limits.Request, error) { return l.Begin("a", limits.Bound{}) }}, "remote_write")
	at := time.Now().Add(-time.Minute)
	for _, c := range []struct {
		value int
		code  int
	}{{0, 204}, {0, 204}, {4, 400}, {4, 400}, {5, 204}, {0, 204}} {
		if c := (limits.Config{Labels: limits.Labels{Value: c.value}}); c.Labels != l.Config().Labels {
			l.Set(c)
		}
		at = at.Add(time.Second)
		offer(t, h, two([]string{"", "__name__", "cpu", "node", "node1"}, []uint32{1, 2, 3, 4}, at, 1, writev2.Metadata{}), c.code)
	}
}

// A series without stored samples does not count as new: samples that come too late do not use up the limit of new
// series of a node.
func TestRefusedSeriesDoNotBegin(t *testing.T) {
	s := openStore(t)
	l := limits.New(limits.Config{Nodes: struct {
		Series int `yaml:"series"`
	}{2}}, nil, nil)
	l.SetNewSeriesLimits(limits.NewSeriesLimits{})
	h := newHandler(Options{Store: s, Begin: func(context.Context) (*limits.Request, error) { return l.Begin("a", limits.Bound{}) }}, "remote_write")
	now := time.Now()
	one := func(name string, at time.Time, code int) {
		t.Helper()
		offer(t, h, two([]string{"", "__name__", name, "node", "n1"}, []uint32{1, 2, 3, 4}, at, 1, writev2.Metadata{}), code)
	}
	one("first", now, 204)
	for i := range 5 {
		one(fmt.Sprint("late", i), now.Add(-30*24*time.Hour), 400)
	}
	one("second", now, 204)
	one("third", now, 400)
	w := post(t, h, kind2, &writev2.Request{Symbols: []string{"", "__name__", "a", "b", "node", "n1"}, Timeseries: []writev2.TimeSeries{
		{LabelsRefs: []uint32{1, 2, 4, 5}, Samples: []writev2.Sample{{Timestamp: now.UnixMilli()}}},
		{LabelsRefs: []uint32{1, 3, 4, 5}, Samples: []writev2.Sample{{Timestamp: now.UnixMilli()}}}}})
	if text := w.Body.String(); strings.Count(text, "more than 2 series") != 1 || !strings.Contains(text, "and 1 more") {
		t.Errorf("one reason of two samples is not named once: %s", text)
	}
}

// A counter that is refused since too many series begin comes again, and counts from its start when it is taken.
func TestRefusedCounterIsComplete(t *testing.T) {
	s := openStore(t)
	now := time.Now().Truncate(time.Second)
	clock := now.Add(-70 * time.Minute)
	l := limits.New(limits.Config{Nodes: struct {
		Series int `yaml:"series"`
	}{2}}, func() time.Time { return clock }, nil)
	l.SetNewSeriesLimits(limits.NewSeriesLimits{})
	h := newHandler(Options{Store: s, Begin: func(context.Context) (*limits.Request, error) { return l.Begin("a", limits.Bound{}) }}, "remote_write")
	start := now.Add(-75 * time.Minute).UnixMilli()
	one := func(name string, v float64, code int) {
		t.Helper()
		w := post(t, h, kind2, &writev2.Request{Symbols: []string{"", "__name__", name, "node", "n1"}, Timeseries: []writev2.TimeSeries{{
			LabelsRefs: []uint32{1, 2, 3, 4}, Samples: []writev2.Sample{{Value: v, Timestamp: clock.UnixMilli(), StartTimestamp: start}}}}})
		if w.Code != code {
			t.Errorf("answer %d, want %d: %s", w.Code, code, w.Body)
		}
	}
	one("first_total", 1, 204)
	one("second_total", 1, 204)
	one("late_total", 3, 400)
	clock = now.Add(-65 * time.Minute)
	one("late_total", 5, 400)
	clock = now
	one("late_total", 9, 204)
	same(t, read(t, s, "late_total")[`{__name__="late_total", node="n1"}`], fmt.Sprintf("%d 0", start), fmt.Sprintf("%d 9", now.UnixMilli()))
}

// Cached series allocate no memory.
func TestKnownAllocs(t *testing.T) {
	s := openStore(t)
	h := newHandler(Options{Store: s}, "remote_write")
	const series = 500
	req := &writev2.Request{Symbols: []string{"", "__name__", "cpu", "workload"}}
	for i := range series {
		req.Symbols = append(req.Symbols, fmt.Sprintf("slurm/%d", i))
		req.Timeseries = append(req.Timeseries, writev2.TimeSeries{LabelsRefs: []uint32{1, 2, 3, uint32(4 + i)}, Samples: []writev2.Sample{{}}})
	}
	at := time.Now().Add(-time.Minute).UnixMilli()
	const rounds = 20
	var bodies [][]byte
	for n := range rounds + 2 {
		for i := range req.Timeseries {
			req.Timeseries[i].Samples[0] = writev2.Sample{Value: float64(i), Timestamp: at + int64(n)}
		}
		plain, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, plain)
	}
	var parsed requestV2
	run := func() {
		if err := parsed.parse(bodies[0]); err != nil {
			t.Fatal(err)
		}
		bodies = bodies[1:]
		w := h.newWriter(t.Context(), sender{})
		if got, err := w.storeRequestV2(&parsed); err != nil || got.samples != series {
			t.Fatal(got, err)
		}
	}
	run()
	if n := testing.AllocsPerRun(rounds, run); n > series/5 {
		t.Errorf("%.0f allocations for %d known series", n, series)
	}
}

// Decoding in place agrees with the generated code.
func FuzzRequest2(f *testing.F) {
	seed, _ := proto.Marshal(&writev2.Request{Symbols: []string{"", "__name__", "cpu"}, Timeseries: []writev2.TimeSeries{
		{LabelsRefs: []uint32{1, 2}, Samples: []writev2.Sample{{Value: 1.5, Timestamp: 12, StartTimestamp: 3}, {Value: math.Inf(1)}},
			Metadata: writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_GAUGE, HelpRef: 1, UnitRef: 2}},
		{LabelsRefs: []uint32{0, 1 << 30}, Histograms: []writev2.Histogram{{Sum: 3, PositiveDeltas: []int64{1, -1}}}, Exemplars: []writev2.Exemplar{{Value: 2}}},
	}})
	f.Add(seed)
	f.Add([]byte{5<<3 | 2, 4, 1 << 3, 1, 1 << 3, 2}) // unpacked references
	f.Fuzz(func(t *testing.T, b []byte) {
		var want writev2.Request
		if proto.Unmarshal(b, &want) != nil {
			return
		}
		var got requestV2
		if got.parse(b) != nil {
			return // the generated code accepts more, such as fields with invalid numbers
		}
		var series [][]byte
		_ = eachField(b, func(num protowire.Number, f protoField) error {
			if num == reqSeries {
				series = append(series, f.bytes)
			}
			return nil
		}) // it was parsed before
		if len(got.symbols) != len(want.Symbols) || len(series) != len(want.Timeseries) {
			t.Fatalf("%d symbols and %d series, want %d and %d", len(got.symbols), len(series), len(want.Symbols), len(want.Timeseries))
		}
		for i, s := range want.Symbols {
			if string(got.symbols[i]) != s {
				t.Errorf("symbol %d is %q, want %q", i, got.symbols[i], s)
			}
		}
		for i, s := range want.Timeseries {
			if got.one.parse(series[i]) != nil {
				continue
			}
			if !slices.Equal(got.one.refs, s.LabelsRefs) {
				t.Errorf("references %v, want %v", got.one.refs, s.LabelsRefs)
			}
			if d := got.one.doc; d.kind != s.Metadata.Type || d.help != s.Metadata.HelpRef || d.unit != s.Metadata.UnitRef {
				t.Errorf("description %v, want %v", d, s.Metadata)
			}
			if len(got.one.samples) != len(s.Samples) || len(got.one.histograms) != len(s.Histograms) {
				t.Fatalf("%d samples and %d histograms, want %d and %d", len(got.one.samples), len(got.one.histograms), len(s.Samples), len(s.Histograms))
			}
			for j, p := range s.Samples {
				if q := got.one.samples[j]; math.Float64bits(q.value) != math.Float64bits(p.Value) || q.t != p.Timestamp || q.start != p.StartTimestamp {
					t.Errorf("sample %v, want %v", q, p)
				}
			}
		}
	})
}
