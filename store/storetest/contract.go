package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/metric"
	"reckon/store"
)

// testDescriptions tests that Metadata returns the descriptions from Append and Describe. It also tests that the caller may
// change the returned map.
func testDescriptions(t *testing.T, s store.Series) {
	requireNoError(t, s.Ready())
	var batch metric.Batch
	batch.Reset(Now())
	batch.Add(metric.NewSeries(gauge, "a"), 1)
	requireNoError(t, s.Append(t.Context(), node1, &batch))
	want := metadata.Metadata{Type: "counter", Unit: "seconds", Help: "A description."}
	requireNoError(t, s.Describe("suite_described_seconds_total", want))
	got := s.Metadata()
	if got["suite_described_seconds_total"] != want {
		t.Errorf("described as %+v, want %+v", got["suite_described_seconds_total"], want)
	}
	if m := got[gauge.Name]; m.Help != gauge.Help || m.Type != "gauge" {
		t.Errorf("%s is described as %+v", gauge.Name, m)
	}
	clear(got)
	if s.Metadata()["suite_described_seconds_total"] != want {
		t.Error("the map of Metadata is the store's own")
	}
}

// testAppender tests that samples of rules, scrapes and remote write are read back like samples of
// batches, and that a rollback stores none.
func testAppender(t *testing.T, s store.Series) {
	now := Now()
	l := labels.FromStrings("__name__", "suite_appended", "node", "n1", "site", "here")
	a := s.AppenderV2(t.Context())
	ref := storage.SeriesRef(0)
	for i := range 3 {
		var err error
		if ref, err = a.Append(ref, l, 0, now.Add(time.Duration(i)*15*time.Second).UnixMilli(), float64(i), nil, nil,
			storage.AOptions{}); err != nil {
			t.Fatalf("append: %v", err)
		}
	}
	requireNoError(t, a.Commit())
	back := s.AppenderV2(t.Context())
	if _, err := back.Append(0, l, 0, now.Add(time.Minute).UnixMilli(), 9, nil, nil, storage.AOptions{}); err != nil {
		t.Fatalf("append: %v", err)
	}
	requireNoError(t, back.Rollback())
	t0 := now.UnixMilli()
	want := []Point{{T: t0}, {T: t0 + 15000, V: 1}, {T: t0 + 30000, V: 2}}
	requireEqual(t, s, readAll(t, s, "suite_appended"), map[string][]Point{l.String(): want})
}

// testChunks tests that a chunk querier, which remote read uses, returns the samples of a querier.
func testChunks(t *testing.T, s store.Series) {
	now := Now()
	var batch metric.Batch
	for i := range 5 {
		batch.Reset(now.Add(time.Duration(i) * 15 * time.Second))
		batch.Add(metric.NewSeries(gauge, "a"), float64(i))
		requireNoError(t, s.Append(t.Context(), node1, &batch))
	}
	want := readAll(t, s, gauge.Name)
	from, to := now.Add(-time.Hour).UnixMilli(), now.Add(time.Hour).UnixMilli()
	q, err := s.ChunkQuerier(from, to)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	got := map[string][]Point{}
	set := q.Select(t.Context(), true, nil, MatchName(gauge.Name))
	for set.Next() {
		one := set.At()
		key := one.Labels().String()
		for it := one.Iterator(nil); it.Next(); {
			samples := it.At().Chunk.Iterator(nil)
			for samples.Next() == chunkenc.ValFloat {
				at, v := samples.At()
				got[key] = append(got[key], Point{T: at, V: v})
			}
			requireNoError(t, samples.Err())
		}
	}
	requireNoError(t, set.Err())
	if len(got) != 1 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("chunks hold %v, samples are %v", got, want)
	}
}

// testExemplars: a store may keep none, but must accept the query.
func testExemplars(t *testing.T, s store.Series) {
	q, err := s.ExemplarQuerier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := Now()
	got, err := q.Select(now.Add(-time.Hour).UnixMilli(), now.UnixMilli(), []*labels.Matcher{MatchName("suite_nothing")})
	if err != nil || len(got) != 0 {
		t.Errorf("exemplars of a series that does not exist: %v, %v", got, err)
	}
}

// testOldest tests that an empty store has no oldest sample, and that another one has no sample before it.
func testOldest(t *testing.T, s store.Series) {
	if at, ok := s.Oldest(); ok {
		t.Errorf("the oldest sample of an empty store is of %s", at)
	}
	now := Now()
	for _, sec := range []int{60, 0, 120} {
		var batch metric.Batch
		batch.Reset(now.Add(time.Duration(sec) * time.Second))
		batch.Add(metric.NewSeries(gauge, "a"), 1)
		requireNoError(t, s.Append(t.Context(), node1, &batch))
	}
	if at, ok := s.Oldest(); ok && at.After(now) { // a remote store may see the first sample later
		t.Errorf("the oldest sample is of %s, which is after %s", at, now)
	}
}

// testLate tests that a sample more than two minutes older than the newest one makes its hour dirty. The hour is clean
// after Clean, and dirty again after another late sample.
func testLate(t *testing.T, s store.Series) {
	now := time.Now().Truncate(time.Second)
	put := func(behind time.Duration, v float64) {
		t.Helper()
		var batch metric.Batch
		batch.Reset(now.Add(-behind))
		batch.Add(metric.NewSeries(gauge, "a"), v)
		requireNoError(t, s.Append(t.Context(), node1, &batch))
	}
	dirty := func(behind ...time.Duration) (d store.DirtyHours) {
		t.Helper()
		d, err := s.Dirty()
		requireNoError(t, err)
		got, want := []time.Time{}, []time.Time{}
		for _, h := range d.Hours {
			got = append(got, h.Oldest)
			if h.Imported || !h.At.Equal(h.Oldest.Truncate(time.Hour)) {
				t.Errorf("hour %+v", h)
			}
		}
		for _, b := range behind {
			want = append(want, now.Add(-b).UTC())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("dirty since %v, want %v", got, want)
		}
		return d
	}
	put(0, 1)
	put(store.LateAfter-30*time.Second, 2)
	dirty()
	put(2*time.Hour, 3)
	was := dirty(2 * time.Hour)
	put(2*time.Hour-time.Millisecond, 4) // after the snapshot
	requireNoError(t, s.Clean(was))
	requireNoError(t, s.Clean(dirty(2*time.Hour)))
	requireNoError(t, s.Clean(dirty()))
	put(4*time.Hour, 5)
	dirty(4 * time.Hour)
	if !slices.ContainsFunc(readAll(t, s, gauge.Name)[`{__name__="suite_gauge_bytes", device="a", node="n1", site="here"}`],
		func(p Point) bool { return p.V == 3 }) {
		t.Error("the late sample is not stored")
	}
}
