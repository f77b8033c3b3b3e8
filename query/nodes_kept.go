package query

import (
	"context"
	"slices"
	"sync"
	"time"

	"reckon/client"
	"reckon/internal/series/courtesy"
)

const (
	// cheapNodes is the longest time of reading all nodes for which the result is not cached.
	cheapNodes = 100 * time.Millisecond
	// A cached list is fresh for nodesShare times as long as reading it took, but at most mostFresh.
	nodesShare, mostFresh = 10, 15 * time.Second
	// mostStale is the maximum age of a list that is returned while the next one is being read.
	mostStale = time.Minute
)

// keptNodes caches the last list of nodes. On a large site reading it takes seconds; callers during that time, or
// shortly after, get the previous list.
type keptNodes struct {
	mu      sync.Mutex
	list    []client.Node
	at      time.Time // time of the list; zero for none
	took    time.Duration
	reading bool
}

// Nodes returns the nodes that sent samples within the last day, as of now: nodes silent for longer
// than [Options.Gone] are down, and their figures unknown. Nodes that only a batch system reports are
// included. With [Options.KeepNodes], and where reading them takes long, the list is up to a minute
// older than now.
func (v *Views) Nodes(ctx context.Context, now time.Time) ([]client.Node, error) {
	if v.kept == nil {
		return v.readNodes(ctx, now)
	}
	if list, again, ok := v.kept.get(now); ok {
		if again {
			ctx, cancel := context.WithTimeout(courtesy.Aside(context.WithoutCancel(ctx)), mostStale)
			go func() {
				defer cancel()
				_, _ = v.keepNodes(ctx, now) // a caller that finds the list too old gets the error
			}()
		}
		return list, nil
	}
	return v.keepNodes(ctx, now)
}

func (v *Views) keepNodes(ctx context.Context, now time.Time) ([]client.Node, error) {
	began := time.Now()
	list, err := v.readNodes(ctx, now)
	v.kept.put(list, now, time.Since(began), err)
	return slices.Clone(list), err
}

// get returns the list if it is recent enough for now, and whether the caller has to read the next one.
func (k *keptNodes) get(now time.Time) (list []client.Node, again, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := now.Sub(k.at)
	if k.at.IsZero() || k.took < cheapNodes || age < 0 || age >= mostStale {
		return nil, false, false
	}
	if again = !k.reading && age >= min(nodesShare*k.took, mostFresh); again {
		k.reading = true
	}
	return slices.Clone(k.list), again, true
}

func (k *keptNodes) put(list []client.Node, at time.Time, took time.Duration, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reading = false
	if err == nil && !at.Before(k.at) {
		k.list, k.at, k.took = list, at, took
	}
}
