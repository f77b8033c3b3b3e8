package query

import (
	"context"
	"slices"
	"sync"
	"time"

	"reckon/figure/wire"
	"reckon/internal/series/courtesy"
)

const (
	// cheapNodes is the longest time of reading all nodes at which each caller reads them.
	cheapNodes = 100 * time.Millisecond
	// A kept list is refreshed at an interval that is a multiple of the time it takes to read. The multiple is nodesShare if the list was
	// requested, idleShare if not, and cheapShare if each caller reads its own list. The least and most constants limit the interval.
	nodesShare, leastNodes, mostNodes = 10, 15 * time.Second, 2 * time.Minute
	idleShare, leastIdle, mostIdle    = 50, time.Minute, 5 * time.Minute
	cheapShare                        = 5000
	// failedNodes is the maximum age of a list that is returned after the next one could not be read. oldNodes is the
	// maximum age of a list in any case.
	failedNodes, oldNodes = time.Minute, 15 * time.Minute
)

// nodeCache caches the list of nodes, because reading it takes seconds on a large site. [Views.RefreshNodes] reads it
// in the background, and callers get the last list.
type nodeCache struct {
	mu     sync.Mutex
	list   []wire.Node
	at     time.Time // time of the list; zero for none
	took   time.Duration
	failed bool      // the next one could not be read
	tried  time.Time // of the last attempt
	asked  bool      // for this list
	under  *nodesReading
	wake   chan struct{} // filled when asked becomes true
}

// nodesReading is one reading of all nodes. The fields after done are set when done is closed.
type nodesReading struct {
	began time.Time // by the clock of this machine
	done  chan struct{}
	list  []wire.Node
	at    time.Time
	err   error
}

// Nodes returns the nodes that sent samples within the last day, including nodes that only a batch system reports. A
// node that was silent for longer than [Options.Gone] is down, and its figures are unknown. With [Options.KeepNodes]
// the list may be older; see [Views.NodesAsOf].
func (v *Views) Nodes(ctx context.Context, now time.Time) ([]wire.Node, error) {
	list, _, err := v.NodesAsOf(ctx, now)
	return list, err
}

// NodesAsOf is like [Views.Nodes] and also returns the time of the list. With [Options.KeepNodes], it returns the last
// list of [Views.RefreshNodes] if reading takes long. Only the first callers after the start wait for a list.
func (v *Views) NodesAsOf(ctx context.Context, now time.Time) (nodes []wire.Node, asOf time.Time, err error) {
	if v.kept == nil || v.kept.isNewer(now) {
		list, err := v.readNodes(ctx, now)
		return list, now, err
	}
	list, at, under := v.kept.currentList(now)
	if list != nil {
		return list, at, nil
	}
	if under == nil {
		// Others may wait for it when this caller does not any more.
		aside, cancel := context.WithTimeout(context.WithoutCancel(ctx), oldNodes)
		under = v.startNodes(aside, now, cancel)
	}
	select {
	case <-under.done:
		return slices.Clone(under.list), under.at, under.err
	case <-ctx.Done():
		return nil, now, ctx.Err()
	}
}

// RefreshNodes reads the list of nodes repeatedly until ctx ends, for [Options.KeepNodes]. A slow read has low
// priority. Reading takes no more than a tenth of the time, or a fiftieth if nobody requests the list.
func (v *Views) RefreshNodes(ctx context.Context, clock func() time.Time) {
	if v.kept == nil {
		return
	}
	for ctx.Err() == nil {
		rest, first := v.kept.refreshDelay(clock())
		if rest <= 0 {
			behind := ctx
			if !first {
				behind = courtesy.Aside(ctx)
			}
			behind, cancel := context.WithTimeout(behind, oldNodes)
			<-v.startNodes(behind, clock(), cancel).done
			continue
		}
		timer := time.NewTimer(rest)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-v.kept.wake:
		}
		timer.Stop()
	}
}

// startNodes begins to read all nodes, and calls over at the end.
func (v *Views) startNodes(ctx context.Context, now time.Time, over func()) *nodesReading {
	r := &nodesReading{began: time.Now(), done: make(chan struct{}), at: now}
	v.kept.noteReading(r)
	go func() {
		defer over()
		r.list, r.err = v.readNodes(ctx, now)
		v.kept.storeList(r, time.Since(r.began))
	}()
	return r
}

// isNewer reports whether the list is later than now: the query is about the past, or the clock was set back.
func (k *nodeCache) isNewer(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at.After(now)
}

// currentList returns a copy of the kept list with its time, or the reading in progress that the caller should wait for. If it
// returns neither, the caller must start a reading.
func (k *nodeCache) currentList(now time.Time) ([]wire.Node, time.Time, *nodesReading) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := now.Sub(k.at)
	if !k.at.IsZero() && k.took >= cheapNodes && age < oldNodes && (!k.failed || age < failedNodes) {
		if !k.asked {
			k.asked = true
			select {
			case k.wake <- struct{}{}:
			default:
			}
		}
		return append(make([]wire.Node, 0, len(k.list)), k.list...), k.at, nil
	}
	if u := k.under; u != nil {
		// One of the past is nothing for this caller, and one that may end in a moment is not worth an older answer.
		if under := time.Since(u.began); under >= cheapNodes && !u.at.After(now) && now.Sub(u.at) < under+time.Second {
			return nil, now, u
		}
	}
	return nil, now, nil
}

// refreshDelay returns the time to wait before the list is read in the background, and whether there is none yet.
func (k *nodeCache) refreshDelay(now time.Time) (wait time.Duration, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.tried.IsZero():
		return 0, true
	case k.failed:
		return leastNodes - now.Sub(k.tried), k.at.IsZero()
	}
	every := min(max(idleShare*k.took, leastIdle), mostIdle)
	switch {
	case k.asked:
		every = min(max(nodesShare*k.took, leastNodes), mostNodes)
	case k.took < cheapNodes:
		// Each caller reads it. It is read here because the site may have grown a hundred times since.
		every = min(max(cheapShare*k.took, leastIdle), mostIdle)
	}
	if now.Before(k.at) {
		return every, false // the clock was set back
	}
	return max(every, 2*k.took) - now.Sub(k.at), false
}

// noteReading notes that a reading began.
func (k *nodeCache) noteReading(r *nodesReading) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.under = r
}

// storeList stores the list if it is newer.
func (k *nodeCache) storeList(r *nodesReading, took time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(r.done)
	if k.under == r {
		k.under = nil
	}
	if r.at.Before(k.at) {
		return
	}
	k.tried, k.failed = r.at, r.err != nil
	if r.err == nil {
		k.list, k.at, k.took, k.asked = r.list, r.at, took, false
	}
}
