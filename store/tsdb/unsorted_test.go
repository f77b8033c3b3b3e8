package tsdb

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/metric"
	"reckon/store/storetest"
)

// series reads what a set holds, each series once.
func seriesOf(t *testing.T, set storage.SeriesSet) (list []string, all map[string]string) {
	t.Helper()
	all = map[string]string{}
	for set.Next() {
		name, text := set.At().Labels().String(), ""
		it := set.At().Iterator(nil)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			at, v := it.At()
			text += fmt.Sprint(at, " ", v, "; ")
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		if _, twice := all[name]; twice {
			t.Errorf("%s is given twice", name)
		}
		list, all[name] = append(list, name), text
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return list, all
}

// TestUnsortedIsSorted holds that a query without an order gives the series and samples of one with: of memory, of blocks of
// ended series, of series that start again after their end, of imported samples, and of samples that came late.
func TestUnsortedIsSorted(t *testing.T) {
	now := time.Now().Truncate(blockRange).Add(time.Minute)
	s := open(t, Options{Clock: func() time.Time { return now }})
	begin := now
	live := func(at time.Time) {
		t.Helper()
		var b metric.Batch
		fill(&b, at, fleet(3), 1)
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		live(now)
		ended(t, s, now, "again", 40) // the same in each round
		ended(t, s, now, fmt.Sprint("only", round), 30)
		if round < 2 {
			s.evictNow(s.db)
		}
		now = now.Add(time.Minute)
	}
	live(begin.Add(-30 * time.Second)) // late
	h := &History{}
	for i := range 5 { // two of them of series in memory
		tn := &tenant{external: external, refs: map[*metric.Series]*seriesRef{}}
		one := h.Series(tn.add(metric.NewSeries(cpuDesc, fmt.Sprintf("group/only2/%d", 28+i), "group", "", "alice", "user")).labels)
		if err := one.Add(begin.Add(-10*time.Minute).UnixMilli(), 7); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ImportBlocks(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if n := len(s.db.Blocks()); n < 3 {
		t.Fatalf("%d blocks: nothing to merge", n)
	}
	q, err := s.Querier(begin.Add(-time.Hour).UnixMilli(), now.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for _, m := range []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"), storetest.MatchName(cpuDesc.Name),
		labels.MustNewMatcher(labels.MatchRegexp, "workload", "group/only0/.*"), storetest.MatchName("nothing"),
	} {
		order, want := seriesOf(t, q.Select(t.Context(), true, nil, m))
		_, got := seriesOf(t, q.Select(t.Context(), false, &storage.SelectHints{Start: begin.Add(-time.Hour).UnixMilli(), End: now.UnixMilli(), Range: 1}, m))
		if !slices.IsSorted(order) && m.Name != "__name__" {
			t.Errorf("%s: a sorted query is not sorted", m)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %d series without an order, %d with; or their samples differ", m, len(got), len(want))
		}
		if m.Name == "workload" && len(got) != 30 {
			t.Errorf("%s: %d series", m, len(got))
		}
		for _, most := range []int{20, 1000} { // fewer than in blocks are held, or all of them
			few, err := s.querier(s.db, nil, begin.Add(-time.Hour).UnixMilli(), now.UnixMilli())
			if err != nil {
				t.Fatal(err)
			}
			few.(*unsortedQuerier).most = most
			set := few.Select(t.Context(), false, nil, m)
			if _, held := set.(*unsortedSet); held != (most > 20 || len(want) == 0) {
				t.Errorf("%s: at most %d series of blocks are held: %t", m, most, held)
			}
			if _, got := seriesOf(t, set); !maps.Equal(got, want) {
				t.Errorf("%s: with %d series of blocks held at most, %d series, want %d; or their samples differ", m, most, len(got), len(want))
			}
			if err := few.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestMostHeld(t *testing.T) {
	for in, want := range map[uint64]int{0: minMergedSeries, minMergedSeries: minMergedSeries, minMergedSeries + 1: minMergedSeries + 1, mergedSeriesLimit: mergedSeriesLimit, mergedSeriesLimit + 1: mergedSeriesLimit} {
		if got := maxMergedSeries(in); got != want {
			t.Errorf("beside %d series in memory %d are held, want %d", in, got, want)
		}
	}
}
