package tsdb

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/metric"
)

// TestNewer: who has read everything at a mark need not look through the blocks of then, but must see what was appended since,
// whatever became of it, and what was dated ahead.
func TestNewer(t *testing.T) {
	now := time.Now().Truncate(blockRange).Add(10 * time.Minute)
	s := open(t, Options{Clock: func() time.Time { return now }})
	evict := func() {
		t.Helper()
		if err := s.Evict(); err != nil {
			t.Fatal(err)
		}
	}
	names := func(mark uint64, read time.Time) (out []string) {
		t.Helper()
		q, err := s.Newer(mark, read).Querier(now.Add(-time.Hour).UnixMilli(), now.Add(time.Hour).UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", cpuDesc.Name))
		for set.Next() {
			out = append(out, set.At().Labels().Get("workload"))
		}
		if err := set.Err(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(out)
		return out
	}
	ended(t, s, now.Add(-time.Minute), "old", 1)
	evict()
	_, _, mark, _ := s.Appended(0)
	at := now
	ended(t, s, now, "new", 1)
	evict()
	ended(t, s, now.Add(time.Second), "newest", 1)
	if got, want := names(mark, at), []string{"group/new/0", "group/newest/0"}; !slices.Equal(got, want) {
		t.Errorf("since the mark %q, want %q", got, want)
	}
	if got := names(0, at); len(got) != 3 {
		t.Errorf("without a mark %q", got)
	}
	// One that was dated ahead when it was there already, and was not read for that.
	now = now.Add(10 * time.Second)
	ended(t, s, now.Add(20*time.Second), "ahead", 1)
	evict()
	_, _, mark, _ = s.Appended(mark)
	var b metric.Batch
	b.Reset(now)
	b.Add(metric.NewSeries(cpuDesc, "group/lives/0", "group", "", "alice", "user"), 1)
	if err := s.Append(t.Context(), external, &b); err != nil {
		t.Fatal(err)
	}
	if got := names(mark, now); !slices.Contains(got, "group/ahead/0") || !slices.Contains(got, "group/lives/0") || slices.Contains(got, "group/old/0") {
		t.Errorf("since the second mark %q", got)
	}
}
