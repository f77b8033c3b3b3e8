package query

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/figure/wire"
)

// TestKeptNodes: a list that was cheap to read is read again each time. An expensive one is returned until the next one is
// read, which is ten times the reading time later if somebody asked for it; but not when the next one failed, nor for ever.
func TestKeptNodes(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		took, later   time.Duration
		failed, given bool
		idle, asked   time.Duration // until the next reading, without a question and after it
	}{
		{cheapNodes - 1, 0, false, false, mostIdle, mostIdle},
		{cheapNodes, 0, false, true, leastIdle, leastNodes},
		{2 * time.Second, 0, false, true, 100 * time.Second, 20 * time.Second},
		{2 * time.Second, 30 * time.Second, false, true, 70 * time.Second, -10 * time.Second},
		{20 * time.Second, 2 * time.Minute, false, true, 3 * time.Minute, 0},
		{100 * time.Second, 0, false, true, mostIdle, 200 * time.Second},
		{2 * time.Second, oldNodes - 1, false, true, 100*time.Second - oldNodes + 1, 20*time.Second - oldNodes + 1},
		{2 * time.Second, oldNodes, false, false, 100*time.Second - oldNodes, 100*time.Second - oldNodes},
		{2 * time.Second, failedNodes - 1, true, true, leastNodes, leastNodes},
		{2 * time.Second, failedNodes, true, false, leastNodes, leastNodes},
	} {
		k := nodeCache{wake: make(chan struct{}, 1)}
		if rest, first := k.refreshDelay(begin); rest > 0 || !first {
			t.Fatalf("the first list is read after %v (first %t)", rest, first)
		}
		k.storeList(&nodesReading{done: make(chan struct{}), at: begin, list: []wire.Node{{Node: "n1"}}}, c.took)
		now := begin.Add(c.later)
		if c.failed {
			k.storeList(&nodesReading{done: make(chan struct{}), at: now, err: errors.New("away")}, time.Second)
		}
		what := fmt.Sprintf("%v after a list that took %v, failed %t", c.later, c.took, c.failed)
		if rest, first := k.refreshDelay(now); rest != c.idle || first {
			t.Errorf("%s: idle for %v, want %v", what, rest, c.idle)
		}
		list, at, _ := k.currentList(now)
		if (list != nil) != c.given || c.given && (len(list) != 1 || !at.Equal(begin) || len(k.wake) != 1) {
			t.Errorf("%s: given %v of %v, want it %t", what, list, at, c.given)
		}
		if rest, _ := k.refreshDelay(now); rest != c.asked {
			t.Errorf("%s: read again after %v, want %v", what, rest, c.asked)
		}
		if !c.given {
			continue
		}
		list[0].Node = "changed"
		if list, _, _ = k.currentList(now); list[0].Node != "n1" {
			t.Error("a caller changed the list")
		}
		k.storeList(&nodesReading{done: make(chan struct{}), at: begin.Add(-1), list: []wire.Node{}}, time.Second)
		if list, _, _ = k.currentList(now); len(list) != 1 {
			t.Error("an older list replaced a newer one")
		}
	}
}

// TestNodesReadOnce: on a site that takes 20 s to read, askers after the start wait for one reading, and none waits later on: what
// is returned is never older than the time between two readings and the time of one. An asker that leaves stops nothing.
func TestNodesReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 20 * time.Second
		slow := &slowSeries{}
		slow.took.Store(int64(took))
		if _, err := New(slow, Options{}).Nodes(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		each := slow.selected.Swap(0) // how many selections one reading makes
		slow.took.Store(int64(took) / each)
		v := New(slow, Options{KeepNodes: true})
		left, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, _, err := v.NodesAsOf(left, time.Now()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		var askers sync.WaitGroup
		for range 5 {
			askers.Go(func() {
				if _, at, err := v.NodesAsOf(t.Context(), time.Now()); err != nil || time.Since(at) > took+time.Second {
					t.Errorf("a list of %v ago, %v", time.Since(at), err)
				}
			})
		}
		askers.Wait()
		if n := slow.selected.Load(); n != each {
			t.Errorf("%d selections, want the %d of one reading", n, each)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { v.RefreshNodes(ctx, time.Now); close(done) }()
		for range 1000 {
			<-time.After(7 * time.Second)
			began := time.Now()
			_, at, err := v.NodesAsOf(t.Context(), began)
			if waited := time.Since(began); err != nil || waited > 0 {
				t.Fatalf("waited %v: %v", waited, err)
			}
			if age := began.Sub(at); age > mostNodes+took+7*time.Second {
				t.Fatalf("the list is %v old", age)
			}
		}
		busy := slow.selected.Load() / each
		if most := int64(7000 * time.Second / mostNodes); busy < most/2 || busy > most+2 {
			t.Errorf("read %d times in 7,000 s, want some %d", busy, most)
		}
		<-time.After(7000 * time.Second)
		if idle, most := slow.selected.Load()/each-busy, int64(7000*time.Second/mostIdle); idle < most/2 || idle > most+2 {
			t.Errorf("read %d times in 7,000 s without a question, want some %d", idle, most)
		}
		if _, at, err := v.NodesAsOf(t.Context(), time.Now()); err != nil || time.Since(at) > mostIdle+took {
			t.Errorf("after a rest, a list of %v ago, %v", time.Since(at), err)
		}
		// A question about the past is answered of the past.
		past := time.Now().Add(-time.Hour)
		if _, at, err := v.NodesAsOf(t.Context(), past); err != nil || !at.Equal(past) {
			t.Errorf("asked of %v, answered of %v, %v", past, at, err)
		}
		stop()
		<-done
	})
}

// TestNodesOfAGrowingSite: a server that begins with no nodes finds out by itself that reading them takes long by now.
func TestNodesOfAGrowingSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowSeries{}
		v := New(slow, Options{KeepNodes: true})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { v.RefreshNodes(ctx, time.Now); close(done) }()
		<-time.After(time.Second)
		slow.took.Store(int64(5 * time.Second))
		<-time.After(2 * leastIdle)
		began := time.Now()
		if _, _, err := v.NodesAsOf(t.Context(), began); err != nil || time.Since(began) > 0 {
			t.Errorf("the first caller waited %v: %v", time.Since(began), err)
		}
		stop()
		<-done
	})
}

// slowSeries has no series, and takes long to report it.
type slowSeries struct {
	took     atomic.Int64 // nanoseconds
	selected atomic.Int64
}

func (s *slowSeries) Querier(int64, int64) (storage.Querier, error) {
	return slowQuerier{storage.NoopQuerier(), s}, nil
}

type slowQuerier struct {
	storage.Querier
	s *slowSeries
}

func (q slowQuerier) Select(ctx context.Context, _ bool, _ *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	q.s.selected.Add(1)
	select {
	case <-time.After(time.Duration(q.s.took.Load())):
		return storage.EmptySeriesSet()
	case <-ctx.Done():
		return endedSet{storage.EmptySeriesSet(), ctx.Err()}
	}
}

type endedSet struct {
	storage.SeriesSet
	err error
}

func (e endedSet) Err() error                      { return e.err }
func (endedSet) Warnings() annotations.Annotations { return nil }
