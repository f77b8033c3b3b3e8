// Package storetest holds the suites that every store passes: [Series] for stores of
// samples and [Catalogue] for catalogues. A new store's test is one call of its suite.
//
// The suites use times around the present, as stores may refuse the far future and
// the distant past, but never wait for the clock.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/metric"
	"reckon/store"
)

// Now returns the time of the suite's first sample: some minutes ago, on a full second.
func Now() time.Time { return time.Now().Add(-30 * time.Minute).Truncate(time.Second) }

// Point is a sample as a query returns it: a number, or the count and sum of a histogram.
type Point struct {
	T          int64
	V          float64
	Histogram  bool
	Count, Sum float64
	Stale      bool
}

// Read returns all samples of the matching series by label set, including staleness markers.
func Read(tb testing.TB, q storage.Queryable, from, to time.Time, ms ...*labels.Matcher) map[string][]Point {
	tb.Helper()
	querier, err := q.Querier(from.UnixMilli(), to.UnixMilli())
	if err != nil {
		tb.Fatalf("open querier: %v", err)
	}
	defer querier.Close()
	out := map[string][]Point{}
	set := querier.Select(tb.Context(), true, nil, ms...)
	var it chunkenc.Iterator
	for set.Next() {
		s := set.At()
		var points []Point
		it = s.Iterator(it)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			switch vt {
			case chunkenc.ValFloat:
				t, v := it.At()
				p := Point{T: t, V: v, Stale: value.IsStaleNaN(v)}
				if p.Stale {
					p.V = 0
				}
				points = append(points, p)
			default:
				t, h := it.AtFloatHistogram(nil)
				p := Point{T: t, Histogram: true, Count: h.Count, Sum: h.Sum, Stale: value.IsStaleNaN(h.Sum)}
				if p.Stale {
					p.Sum = 0
				}
				points = append(points, p)
			}
		}
		if it.Err() != nil {
			tb.Fatalf("read %s: %v", s.Labels(), it.Err())
		}
		out[s.Labels().String()] = points
	}
	if set.Err() != nil {
		tb.Fatalf("select: %v", set.Err())
	}
	return out
}

// MatchName matches a metric by name.
func MatchName(name string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)
}

var (
	gauge   = &metric.Desc{Name: "suite_gauge_bytes", Help: "A gauge.", Kind: metric.Gauge, Unit: metric.Bytes, Labels: []string{"device"}}
	counter = &metric.Desc{Name: "suite_counter_seconds_total", Help: "A counter.", Kind: metric.Counter, Unit: metric.Seconds,
		Labels: []string{"workload"}}
	native = &metric.Desc{Name: "suite_cores", Help: "A distribution.", Kind: metric.NativeHistogram, Unit: metric.Cores,
		Labels: []string{"workload"}}
	node1 = map[string]string{"site": "here", "node": "n1"}
)

// Limits are the limitations of a third-party store. A field that is set skips tests, and its text is the reason. All
// other tests are the same for every store.
type Limits struct {
	// Staleness: the end of a series leaves no marker.
	Staleness string
	// Conflict: a second value for one time is accepted.
	Conflict string
	// Text: labels with line breaks are read back changed.
	Text string
	// Digits: values are read back with twelve digits.
	Digits string
	// LateNative: native histograms are accepted in order of time only.
	LateNative string
}

type limited struct {
	store.Series
	Limits
}

func limitsOf(s store.Series) Limits {
	if l, ok := s.(*limited); ok {
		return l.Limits
	}
	return Limits{}
}

// Series tests an implementation of [store.Series]. open must return an empty store with an out-of-order window of at
// least five minutes. The tests close the store.
func Series(t *testing.T, open func(testing.TB) store.Series, limits ...Limits) {
	t.Helper()
	if len(limits) > 0 {
		whole := open
		open = func(tb testing.TB) store.Series { return &limited{whole(tb), limits[0]} }
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, store.Series)
	}{
		{"RoundTrip", testRoundTrip},
		{"LabelsAreWhole", testLabels},
		{"SameBatchTwice", testSameBatchTwice},
		{"Conflict", testConflict},
		{"OutOfOrder", testOutOfOrder},
		{"LastIsStale", testStaleMarker},
		{"CreatedIsZero", testInitialZero},
		{"NativeHistogram", testNativeHistogram},
		{"Concurrent", testConcurrent},
		{"ManyShortSeries", testManyShortSeries},
		{"Cancelled", testCancelled},
		{"Described", testDescriptions},
		{"Appender", testAppender},
		{"Chunks", testChunks},
		{"Exemplars", testExemplars},
		{"Oldest", testOldest},
		{"Late", testLate},
		{"Closed", testClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			c.test(t, s)
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

func requireNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readAll(t *testing.T, s store.Series, name string) map[string][]Point {
	t.Helper()
	return Read(t, s, Now().Add(-24*time.Hour), Now().Add(24*time.Hour), MatchName(name))
}

func requireEqual(t *testing.T, s store.Series, got map[string][]Point, want map[string][]Point) {
	t.Helper()
	if limitsOf(s).Staleness != "" {
		for k, points := range want {
			want[k] = slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return p.Stale })
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d series, want %d: %v", len(got), len(want), got)
	}
	for k, w := range want {
		if !slices.EqualFunc(got[k], w, func(a, b Point) bool {
			return a == b || (limitsOf(s).Digits != "" && a.T == b.T && math.Abs(a.V-b.V) <= 1e-12*math.Abs(b.V))
		}) {
			t.Errorf("%s:\n got %v\nwant %v", k, got[k], w)
		}
	}
}

func testRoundTrip(t *testing.T, s store.Series) {
	now := Now()
	a, b := metric.NewSeries(gauge, "sda"), metric.NewSeries(gauge, "sdb")
	var batch metric.Batch
	for i := range 3 {
		batch.Reset(now.Add(time.Duration(i) * 15 * time.Second))
		batch.Add(a, float64(i))
		if i != 1 {
			batch.Add(b, -math.Pi*float64(i))
		}
		requireNoError(t, s.Append(t.Context(), node1, &batch))
	}
	t0 := now.UnixMilli()
	requireEqual(t, s, readAll(t, s, gauge.Name), map[string][]Point{
		`{__name__="suite_gauge_bytes", device="sda", node="n1", site="here"}`: {{T: t0}, {T: t0 + 15000, V: 1}, {T: t0 + 30000, V: 2}},
		`{__name__="suite_gauge_bytes", device="sdb", node="n1", site="here"}`: {{T: t0}, {T: t0 + 30000, V: -2 * math.Pi}},
	})
}

// testLabels tests the labels of stored series. Empty values are absent, labels of the series override external
// labels, hostile values are read back unchanged, and invalid UTF-8 is replaced.
func testLabels(t *testing.T, s store.Series) {
	plain := limitsOf(s).Text != ""
	hostile := "a\"b\\c\n{}🦀 \u202e" + string(make([]byte, 0)) + "x"
	if plain {
		hostile = strings.ReplaceAll(hostile, "\n", " ")
	}
	d := &metric.Desc{Name: "suite_fact_info", Help: "A fact.", Kind: metric.Gauge, Labels: []string{"name", "empty", "node", "bad"}}
	var batch metric.Batch
	now := Now()
	batch.Reset(now)
	batch.Add(metric.NewSeries(d, hostile, "", "own", "\xff\xfe"), 1)
	requireNoError(t, s.Append(t.Context(), node1, &batch))
	want := labels.FromStrings(model.MetricNameLabel, d.Name, "name", hostile, "node", "own", "site", "here", "bad", "\ufffd").String()
	requireEqual(t, s, readAll(t, s, d.Name), map[string][]Point{want: {{T: now.UnixMilli(), V: 1}}})
}

func testSameBatchTwice(t *testing.T, s store.Series) {
	now := Now()
	var h metric.Histogram
	h.Observe(2)
	g, n, end := metric.NewSeries(gauge, "sda"), metric.NewSeries(native, "unit/a"), metric.NewSeries(gauge, "gone")
	times := 3
	if limitsOf(s).LateNative != "" {
		times = 1
	}
	for range times {
		for i := range 2 {
			var batch metric.Batch
			batch.Reset(now.Add(time.Duration(i) * time.Minute))
			batch.Add(g, 7)
			batch.AddHistogram(n, &h)
			if i == 0 {
				batch.Samples = append(batch.Samples, metric.Sample{Series: end, Value: 1, Last: true})
			}
			requireNoError(t, s.Append(t.Context(), node1, &batch))
		}
	}
	t0 := now.UnixMilli()
	requireEqual(t, s, readAll(t, s, gauge.Name), map[string][]Point{
		`{__name__="suite_gauge_bytes", device="sda", node="n1", site="here"}`:  {{T: t0, V: 7}, {T: t0 + 60000, V: 7}},
		`{__name__="suite_gauge_bytes", device="gone", node="n1", site="here"}`: {{T: t0, V: 1}, {T: t0 + 1, Stale: true}},
	})
	for k, p := range readAll(t, s, native.Name) {
		if len(p) != 2 {
			t.Errorf("%s: %d samples, want 2", k, len(p))
		}
	}
}

func testConflict(t *testing.T, s store.Series) {
	now := Now()
	a, b := metric.NewSeries(gauge, "a"), metric.NewSeries(gauge, "b")
	var batch metric.Batch
	batch.Reset(now)
	batch.Add(a, 1)
	requireNoError(t, s.Append(t.Context(), node1, &batch))
	batch.Reset(now)
	batch.Add(a, 2)
	batch.Add(b, 3)
	err := s.Append(t.Context(), node1, &batch)
	if limitsOf(s).Conflict != "" {
		requireNoError(t, err)
		if got := readAll(t, s, gauge.Name); len(got) != 2 {
			t.Errorf("%d series, want 2: %v", len(got), got)
		}
		return
	}
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("second value for one time: %v, want ErrConflict", err)
	}
	requireEqual(t, s, readAll(t, s, gauge.Name), map[string][]Point{
		`{__name__="suite_gauge_bytes", device="a", node="n1", site="here"}`: {{T: now.UnixMilli(), V: 1}},
		`{__name__="suite_gauge_bytes", device="b", node="n1", site="here"}`: {{T: now.UnixMilli(), V: 3}},
	})
}

func testOutOfOrder(t *testing.T, s store.Series) {
	now := Now()
	a := metric.NewSeries(gauge, "a")
	for _, sec := range []int{300, 0, 150, 310, 60} {
		var batch metric.Batch
		batch.Reset(now.Add(time.Duration(sec) * time.Second))
		batch.Add(a, float64(sec))
		requireNoError(t, s.Append(t.Context(), node1, &batch))
	}
	t0 := now.UnixMilli()
	requireEqual(t, s, readAll(t, s, gauge.Name), map[string][]Point{
		`{__name__="suite_gauge_bytes", device="a", node="n1", site="here"}`: {
			{T: t0}, {T: t0 + 60000, V: 60}, {T: t0 + 150000, V: 150}, {T: t0 + 300000, V: 300}, {T: t0 + 310000, V: 310}},
	})
}

func testStaleMarker(t *testing.T, s store.Series) {
	now := Now()
	g, n := metric.NewSeries(gauge, "a"), metric.NewSeries(native, "unit/a")
	var h metric.Histogram
	h.Observe(1)
	var batch metric.Batch
	batch.Reset(now)
	batch.Samples = append(batch.Samples, metric.Sample{Series: g, Value: 1, Last: true},
		metric.Sample{Series: n, Histogram: &h, Last: true})
	requireNoError(t, s.Append(t.Context(), node1, &batch))
	// A series that reappears continues.
	batch.Reset(now.Add(time.Minute))
	batch.Add(metric.NewSeries(gauge, "a"), 2)
	requireNoError(t, s.Append(t.Context(), node1, &batch))
	t0 := now.UnixMilli()
	requireEqual(t, s, readAll(t, s, gauge.Name), map[string][]Point{
		`{__name__="suite_gauge_bytes", device="a", node="n1", site="here"}`: {{T: t0, V: 1}, {T: t0 + 1, Stale: true},
			{T: t0 + 60000, V: 2}},
	})
	for _, p := range readAll(t, s, native.Name) {
		if limitsOf(s).Staleness != "" {
			if len(p) != 1 {
				t.Errorf("histogram series has %d samples, want 1", len(p))
			}
			continue
		}
		if len(p) != 2 || p[1].T != t0+1 || !p[1].Stale {
			t.Errorf("histogram series does not end in a staleness marker: %v", p)
		}
	}
}

func testInitialZero(t *testing.T, s store.Series) {
	now := Now()
	t0 := now.UnixMilli()
	c := metric.NewSeries(counter, "unit/a")
	c.Created = t0 - 10_000
	late := metric.NewSeries(counter, "unit/late")
	late.Created = t0 + 500 // after its sample: a clock that stepped back; no zero
	for i := range 2 {
		var batch metric.Batch
		batch.Reset(now.Add(time.Duration(i) * time.Minute))
		batch.Add(c, 5+float64(i))
		if i == 0 {
			batch.Add(late, 1)
		}
		requireNoError(t, s.Append(t.Context(), node1, &batch))
	}
	// The same series by another pointer, as after a restart of the agent: no second zero.
	again := metric.NewSeries(counter, "unit/a")
	again.Created = c.Created
	var batch metric.Batch
	batch.Reset(now.Add(2 * time.Minute))
	batch.Add(again, 7)
	requireNoError(t, s.Append(t.Context(), node1, &batch))
	// Restarted: the zero is newer than all samples and is accepted.
	anew := metric.NewSeries(counter, "unit/a")
	anew.Created = t0 + 150_000
	batch.Reset(now.Add(3 * time.Minute))
	batch.Add(anew, 1)
	requireNoError(t, s.Append(t.Context(), node1, &batch))
	requireEqual(t, s, readAll(t, s, counter.Name), map[string][]Point{
		`{__name__="suite_counter_seconds_total", node="n1", site="here", workload="unit/a"}`: {
			{T: t0 - 10000}, {T: t0, V: 5}, {T: t0 + 60000, V: 6}, {T: t0 + 120000, V: 7}, {T: t0 + 150000}, {T: t0 + 180000, V: 1}},
		`{__name__="suite_counter_seconds_total", node="n1", site="here", workload="unit/late"}`: {{T: t0, V: 1}},
	})
}

func testNativeHistogram(t *testing.T, s store.Series) {
	now := Now()
	n := metric.NewSeries(native, "unit/a")
	var h metric.Histogram
	observed := []float64{0, 0.0001, 0.01, 0.5, 0.5, 1, 1.01, 3.99, 64, 64, 63.9, 4096}
	for i, v := range observed {
		h.Observe(v)
		var batch metric.Batch
		batch.Reset(now.Add(time.Duration(i) * time.Second))
		batch.AddHistogram(n, &h)
		requireNoError(t, s.Append(t.Context(), node1, &batch))
	}
	q, err := s.Querier(now.Add(-time.Minute).UnixMilli(), now.Add(time.Minute).UnixMilli())
	requireNoError(t, err)
	defer q.Close()
	set := q.Select(t.Context(), true, nil, MatchName(native.Name))
	if !set.Next() {
		t.Fatal("no histogram series")
	}
	it := set.At().Iterator(nil)
	samples := 0
	var count, sum float64
	buckets := map[float64]float64{}
	for it.Next() != chunkenc.ValNone {
		samples++
		_, fh := it.AtFloatHistogram(nil)
		count, sum = fh.Count, fh.Sum
		clear(buckets)
		for b := fh.PositiveBucketIterator(); b.Next(); {
			if c := b.At().Count; c != 0 {
				buckets[b.At().Upper] = c
			}
		}
	}
	if samples != len(observed) || count != float64(h.Count) || sum != h.Sum {
		t.Errorf("%d samples, count %g, sum %g; want %d, %d, %g", samples, count, sum, len(observed), h.Count, h.Sum)
	}
	filled := 0
	for k, c := range h.Buckets {
		if c == 0 {
			continue
		}
		filled++
		bound := metric.BucketBound(h.Offset + int32(k))
		found := false
		for upper, got := range buckets {
			if math.Abs(upper-bound) < 1e-9*bound {
				found = got == float64(c)
			}
		}
		if !found {
			t.Errorf("bucket up to %g holds %d: not in %v", bound, c, buckets)
		}
	}
	if filled != len(buckets) {
		t.Errorf("%d buckets filled, want %d: %v", len(buckets), filled, buckets)
	}
}

// testConcurrent: several nodes and readers at once; each node's counter ends complete.
func testConcurrent(t *testing.T, s store.Series) {
	const nodes, batches, series = 4, 40, 25
	now := Now()
	var wg sync.WaitGroup
	errs := make(chan error, nodes*batches+nodes)
	for n := range nodes {
		wg.Go(func() {
			external := map[string]string{"site": "here", "node": fmt.Sprintf("n%d", n)}
			own := make([]*metric.Series, series)
			for i := range own {
				own[i] = metric.NewSeries(gauge, fmt.Sprintf("d%d", i))
			}
			var b metric.Batch
			for k := range batches {
				b.Reset(now.Add(time.Duration(k) * time.Second))
				for _, sr := range own {
					b.Add(sr, float64(k))
				}
				errs <- s.Append(t.Context(), external, &b)
			}
		})
		wg.Go(func() {
			q, err := s.Querier(now.Add(-time.Hour).UnixMilli(), now.Add(time.Hour).UnixMilli())
			if err != nil {
				errs <- err
				return
			}
			set := q.Select(t.Context(), false, nil, MatchName(gauge.Name))
			for set.Next() {
				it := set.At().Iterator(nil)
				for it.Next() != chunkenc.ValNone {
				}
			}
			errs <- errors.Join(set.Err(), q.Close())
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		requireNoError(t, err)
	}
	got := readAll(t, s, gauge.Name)
	if len(got) != nodes*series {
		t.Errorf("%d series, want %d", len(got), nodes*series)
	}
	for k, p := range got {
		if len(p) != batches {
			t.Errorf("%s: %d samples, want %d", k, len(p), batches)
		}
	}
}

// testManyShortSeries: series that come and go, with new pointers each time.
func testManyShortSeries(t *testing.T, s store.Series) {
	now := Now()
	var b metric.Batch
	for k := range 200 {
		b.Reset(now.Add(time.Duration(k) * time.Second))
		b.Add(metric.NewSeries(gauge, "steady"), float64(k))
		b.Samples = append(b.Samples, metric.Sample{Series: metric.NewSeries(gauge, fmt.Sprintf("short%d", k)), Value: 1, Last: true})
		requireNoError(t, s.Append(t.Context(), node1, &b))
	}
	got := readAll(t, s, gauge.Name)
	if len(got) != 201 {
		t.Errorf("%d series, want 201", len(got))
	}
	if n := len(got[`{__name__="suite_gauge_bytes", device="steady", node="n1", site="here"}`]); n != 200 {
		t.Errorf("steady series has %d samples, want 200", n)
	}
}

func testCancelled(t *testing.T, s store.Series) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b metric.Batch
	b.Reset(Now())
	b.Add(metric.NewSeries(gauge, "a"), 1)
	if err := s.Append(ctx, node1, &b); !errors.Is(err, context.Canceled) {
		t.Errorf("append with a cancelled context: %v", err)
	}
}

func testClosed(t *testing.T, s store.Series) {
	requireNoError(t, s.Close())
	requireNoError(t, s.Close()) // twice does no harm
	var b metric.Batch
	b.Reset(Now())
	b.Add(metric.NewSeries(gauge, "a"), 1)
	if err := s.Append(t.Context(), node1, &b); !errors.Is(err, store.ErrClosed) {
		t.Errorf("append after close: %v, want ErrClosed", err)
	}
	if q, err := s.Querier(0, 1); !errors.Is(err, store.ErrClosed) {
		t.Errorf("querier after close: %v, want ErrClosed", err)
		if err == nil {
			q.Close()
		}
	}
}
