package tsdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/metric"
	"reckon/store"
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
	var clock storetest.Clock
	now := clock.Set(time.Now().Truncate(blockRange).Add(time.Minute))
	s := open(t, Options{Clock: clock.Now})
	for _, step := range []struct {
		wait  time.Duration
		ended int
		left  uint64
		why   string
	}{
		{0, minEndedSeries - 1, minEndedSeries - 1, "too few for a block"},
		{time.Minute, 1, 0, "enough"},
		{time.Minute, maxEndedSeries - 1, maxEndedSeries - 1, "15 minutes are not over"},
		{time.Minute, 1, 0, "memory asks for a block"},
		{minEvictInterval - time.Minute, minEndedSeries, minEndedSeries, "still not over"},
		{time.Minute, 0, 0, "over"},
	} {
		now = clock.Set(now.Add(step.wait))
		if step.ended > 0 {
			ended(t, s, now, now.Format("150405"), step.ended)
		}
		s.evictEnded(s.db)
		if got := s.db.Head().NumStaleSeries(); got != step.left {
			t.Fatalf("%s: %d ended series in memory, want %d", step.why, got, step.left)
		}
	}
}

// Small blocks of ended series stay apart while their time lasts, but for the oldest dozen of very many, and are
// joined to one when it is over; nobody is warned of blocks that overlap, and no sample is lost.
func TestBlocksOfEndedSeriesAreJoined(t *testing.T) {
	var clock storetest.Clock
	now := clock.Set(time.Now().Truncate(blockRange).Add(time.Minute))
	begin := now
	var log bytes.Buffer
	s := open(t, Options{Clock: clock.Now, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	compact := func() (blocks int) {
		t.Helper()
		if err := s.db.Compact(context.Background()); err != nil {
			t.Fatal(err)
		}
		return len(s.db.Blocks())
	}
	const times, each = maxEndedBlocks + 3, 20
	for i := range times {
		now = clock.Set(now.Add(time.Minute))
		ended(t, s, now, fmt.Sprint(i), each)
		s.evictNow(s.db)
		want := i + 1
		if want > maxEndedBlocks {
			want -= joinedEndedBlocks - 1
		}
		if got := compact(); got != want {
			t.Errorf("%d blocks after %d evictions, want %d", got, i+1, want)
		}
	}
	for end := begin.Add(2 * blockRange); now.Before(end); now = clock.Set(now.Add(5 * time.Minute)) { // the head moves on
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

// A query that takes longer than others wait for an eviction does not make those fail that begin
// while series leave memory.
func TestEvictionBesideALongQuery(t *testing.T) {
	now := time.Now().Truncate(blockRange).Add(time.Minute)
	s := open(t, Options{Clock: func() time.Time { return now }})
	const series = 20_000
	ended(t, s, now, "a", series)
	long, err := s.Querier(now.Add(-time.Minute).UnixMilli(), now.Add(time.Minute).UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	evicted := make(chan bool)
	go func() { evicted <- s.evictNow(s.db) }()
	waited := time.Now()
	first := true
	var readers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if err := readAll(s, now); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for done := false; !done; {
		select {
		case ok := <-evicted:
			if done = true; !ok || first {
				t.Errorf("evicted: %v, before the long query ended: %v", ok, first)
			}
		default:
			if err := readAll(s, now); err != nil {
				t.Fatal(err)
			}
			if first && time.Since(waited) > maxQueryPause+maxQueryPause/4 {
				first = false
				if err := long.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	stop()
	readers.Wait()
	if n := s.db.Head().NumStaleSeries(); n != 0 {
		t.Errorf("%d ended series in memory", n)
	}
}

// writes is a compactor that writes one block.
type writes struct{ promtsdb.Compactor }

func (writes) Write(string, promtsdb.BlockReader, int64, int64, *promtsdb.BlockMeta) ([]ulid.ULID, error) {
	return []ulid.ULID{{}}, nil
}

// The database drops series from memory after the last block of them. No query is under way then and none begins
// before that is over; queries run while blocks are written.
func TestNoQueryWhileSeriesLeaveMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const newest = 100
		s := &Store{evicting: newest}
		s.gate.init()
		var base promtsdb.BlockMeta
		base.Compaction.SetStaleSeries()
		write := func(mint, maxt int64) {
			if ids, err := (compactor{writes{}, s}).Write(t.TempDir(), nil, mint, maxt, &base); err != nil || len(ids) != 1 {
				t.Errorf("blocks %v, %v", ids, err)
			}
		}
		free := func() bool {
			ok := s.starting.TryRLock()
			if ok {
				s.starting.RUnlock()
			}
			return ok
		}
		s.queries.Store(1)
		write(0, newest) // not the last one
		if !free() {
			t.Error("no query may begin after the first block")
		}
		var last atomic.Bool
		go func() {
			write(newest, newest+1)
			last.Store(true)
		}()
		<-time.After(maxQueryPause - time.Millisecond)
		if free() || last.Load() {
			t.Errorf("soon after the last block: a query may begin %v, done %v", free(), last.Load())
		}
		<-time.After(pauseRetryInterval)
		if last.Load() {
			t.Error("series are dropped while a query is under way")
		}
		s.queries.Store(0)
		<-time.After(pauseRetryInterval)
		if free() || !last.Load() {
			t.Errorf("after the last query: another may begin %v, done %v", free(), last.Load())
		}
		s.resumeQueries()
		if !free() {
			t.Error("no query may begin after the eviction")
		}
	})
}

// Where queries never end, series stay in memory and no block of them is kept.
func TestEvictionIsPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{}
		s.gate.init()
		s.queries.Store(1)
		begin := time.Now()
		if err := s.pauseQueries(); !errors.Is(err, errBusy) || s.held {
			t.Errorf("%v, held %v", err, s.held)
		}
		if got, want := time.Since(begin), maxPauseTries*(maxQueryPause+pauseRetryInterval); got != want {
			t.Errorf("given up after %s, want %s", got, want)
		}
		s.queries.Store(0)
		if err := s.pauseQueries(); err != nil || !s.held {
			t.Errorf("%v, held %v", err, s.held)
		}
		s.resumeQueries()
		s.queries.Store(1)
		s.gate.close(closeWait)
		if err := s.pauseQueries(); !errors.Is(err, store.ErrClosed) || s.held {
			t.Errorf("while closing: %v, held %v", err, s.held)
		}
	})
}

func readAll(s *Store, now time.Time) error {
	q, err := s.Querier(now.Add(-time.Minute).UnixMilli(), now.Add(time.Minute).UnixMilli())
	if err != nil {
		return err
	}
	defer q.Close()
	set := q.Select(context.Background(), false, nil, storetest.MatchName(cpuDesc.Name))
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
	ended(t, s, now, "first", minEndedSeries)
	s.evictEnded(s.db)
	blocks := s.db.Blocks()
	if len(blocks) != 1 {
		t.Fatalf("%d blocks", len(blocks))
	}
	m := blocks[0].Meta()
	if newest := now.UnixMilli() + 1; m.MaxTime != newest+1 || m.Stats.NumSeries != minEndedSeries || m.Stats.NumSamples != 2*minEndedSeries {
		t.Errorf("it ends %d ms after the newest sample, with %d series and %d samples", m.MaxTime-newest, m.Stats.NumSeries, m.Stats.NumSamples)
	}
	if got := len(storetest.Read(t, s, now.Add(-time.Minute), now.Add(time.Second), storetest.MatchName(cpuDesc.Name))); got != minEndedSeries {
		t.Errorf("%d series are left", got)
	}
}
