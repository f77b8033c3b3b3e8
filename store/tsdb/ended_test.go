package tsdb

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/metric"
	"reckon/store/storetest"
)

// ended appends one sample of so many new series that end with it.
func ended(t *testing.T, s *Store, at time.Time, name string, n int) {
	t.Helper()
	var b metric.Batch
	b.Reset(at)
	for i := range n {
		b.Add(metric.NewSeries(cpuDesc, fmt.Sprintf("group/%s/%d", name, i), "group", "", "alice", "user"), float64(i))
		b.Samples[len(b.Samples)-1].Last = true
	}
	if err := s.Append(t.Context(), external, &b); err != nil {
		t.Fatal(err)
	}
}

func TestEndedSeriesLeaveMemoryInTime(t *testing.T) {
	now := time.Now().Truncate(blockRange).Add(time.Minute)
	s := open(t, Options{Clock: func() time.Time { return now }})
	for _, step := range []struct {
		wait  time.Duration
		ended int
		left  uint64
		why   string
	}{
		{0, fewEnded - 1, fewEnded - 1, "too few for a block"},
		{time.Minute, 1, 0, "enough"},
		{time.Minute, manyEnded - 1, manyEnded - 1, "15 minutes are not over"},
		{time.Minute, 1, 0, "memory asks for a block"},
		{evictEvery - time.Minute, fewEnded, fewEnded, "still not over"},
		{time.Minute, 0, 0, "over"},
	} {
		now = now.Add(step.wait)
		if step.ended > 0 {
			ended(t, s, now, now.Format("150405"), step.ended)
		}
		s.evictEnded(s.db)
		if got := s.db.Head().NumStaleSeries(); got != step.left {
			t.Fatalf("%s: %d ended series in memory, want %d", step.why, got, step.left)
		}
	}
}

// Small blocks of ended series are joined by the dozen while their time lasts, and to one
// when it is over; nobody is warned of blocks that overlap, and no sample is lost.
func TestBlocksOfEndedSeriesAreJoined(t *testing.T) {
	now := time.Now().Truncate(blockRange).Add(time.Minute)
	begin := now
	var log bytes.Buffer
	s := open(t, Options{Clock: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	compact := func() (blocks int) {
		t.Helper()
		if err := s.db.Compact(context.Background()); err != nil {
			t.Fatal(err)
		}
		return len(s.db.Blocks())
	}
	const times, each = joinEnded + 2, 20
	for i := range times {
		now = now.Add(time.Minute)
		ended(t, s, now, fmt.Sprint(i), each)
		if err := s.db.CompactStaleHead(); err != nil {
			t.Fatal(err)
		}
		want := i + 1
		if i+1 >= joinEnded {
			want = i + 2 - joinEnded
		}
		if got := compact(); got != want {
			t.Errorf("%d blocks after %d evictions, want %d", got, i+1, want)
		}
	}
	for end := begin.Add(2 * blockRange); now.Before(end); now = now.Add(5 * time.Minute) { // the head moves on
		var b metric.Batch
		fill(&b, now, fleet(1), 1)
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatal(err)
		}
	}
	if got := compact(); got != 2 { // of the ended and of those that live
		t.Errorf("%d blocks when the time is over, want 2", got)
	}
	got := storetest.Read(t, s, begin, now, labels.MustNewMatcher(labels.MatchRegexp, "workload", "group/[0-9]+/.*"))
	if len(got) != times*each {
		t.Errorf("%d series, want %d", len(got), times*each)
	}
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("warnings:\n%s", &log)
	}
}

// Queries that run while ended series leave memory see all of them.
func TestQueriesWhileSeriesLeaveMemory(t *testing.T) {
	now := time.Now().Truncate(blockRange).Add(time.Minute)
	s := open(t, Options{Clock: func() time.Time { return now }})
	const each, rounds = 4000, 4
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if err := readAll(s, now); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range rounds {
		ended(t, s, now.Add(time.Duration(i)*time.Second), fmt.Sprint(i), each)
		s.evictNow(s.db)
	}
	stop()
	readers.Wait()
	if n := s.db.Head().NumStaleSeries(); n != 0 {
		t.Errorf("%d ended series in memory", n)
	}
}

func readAll(s *Store, now time.Time) error {
	q, err := s.Querier(now.Add(-time.Minute).UnixMilli(), now.Add(time.Minute).UnixMilli())
	if err != nil {
		return err
	}
	defer q.Close()
	set := q.Select(context.Background(), false, nil, storetest.Named(cpuDesc.Name))
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		for it.Next() != chunkenc.ValNone {
		}
		if it.Err() != nil {
			return it.Err()
		}
	}
	return set.Err()
}

// A block takes the room on disk that it fills, not half a gigabyte before it is written.
func TestBlocksOnASmallDisk(t *testing.T) {
	dir := filepath.Join(smallDisk(t, "100m"), "store")
	now := time.Now().Truncate(blockRange).Add(time.Minute)
	s := open(t, Options{Dir: dir, Clock: func() time.Time { return now }})
	ended(t, s, now, "a", 10)
	s.evictNow(s.db)
	if n := len(s.db.Blocks()); n != 1 {
		t.Errorf("%d blocks", n)
	}
}

// TestBlockOfEndedSeriesEndsWithThem holds that such a block does not reach into the time after it was
// written: every later query would look through all of its series.
func TestBlockOfEndedSeriesEndsWithThem(t *testing.T) {
	now := time.Now().Truncate(blockRange).Add(time.Minute)
	s := open(t, Options{Clock: func() time.Time { return now }})
	ended(t, s, now, "first", fewEnded)
	s.evictEnded(s.db)
	blocks := s.db.Blocks()
	if len(blocks) != 1 {
		t.Fatalf("%d blocks", len(blocks))
	}
	m := blocks[0].Meta()
	if newest := now.UnixMilli() + 1; m.MaxTime <= newest || m.MaxTime > newest+endedSlack.Milliseconds() || m.Stats.NumSeries != fewEnded || m.Stats.NumSamples != 2*fewEnded {
		t.Errorf("it ends %d ms after the newest sample, with %d series and %d samples", m.MaxTime-newest, m.Stats.NumSeries, m.Stats.NumSamples)
	}
	if got := len(storetest.Read(t, s, now.Add(-time.Minute), now.Add(time.Second), storetest.Named(cpuDesc.Name))); got != fewEnded {
		t.Errorf("%d series are left", got)
	}

	// At the very end of the two hours there is nothing to cut off.
	now = now.Truncate(blockRange).Add(blockRange - time.Second)
	ended(t, s, now, "second", fewEnded)
	s.evictEnded(s.db)
	if blocks = s.db.Blocks(); len(blocks) != 2 || max(blocks[0].Meta().MaxTime, blocks[1].Meta().MaxTime) != now.Add(time.Second).UnixMilli() {
		t.Errorf("%d blocks, of which the last ends at %d", len(blocks), blocks[len(blocks)-1].Meta().MaxTime)
	}
}
