package query

import (
	"context"
	"slices"
	"sync"
	"time"

	"reckon/client"
)

const (
	// cheapNodes is how long reading all nodes may take without the answer being kept.
	cheapNodes = 100 * time.Millisecond
	// nodesShare is for how many times as long as it took an answer is given again, up to mostFresh.
	nodesShare, mostFresh = 10, 15 * time.Second
	// mostStale is how old an answer may be that is given while the next one is read.
	mostStale = time.Minute
)

// keptNodes is the last list of nodes. On a large site it takes seconds to read: whoever asks meanwhile, or shortly after, is
// given the one before.
type keptNodes struct {
	mu      sync.Mutex
	list    []client.Node
	at      time.Time // of the list; zero for none
	took    time.Duration
	reading bool
}

// Nodes returns the nodes that sent samples within the last day, as they are at now:
// those silent for longer than the views' Gone are down, and their figures unknown. With
// them come those that only a batch system reports. Where Options.KeepNodes is set and reading them takes long,
// they are as they were up to a minute before now.
func (v *Views) Nodes(ctx context.Context, now time.Time) ([]client.Node, error) {
	if v.kept == nil {
		return v.readNodes(ctx, now)
	}
	if list, again, ok := v.kept.get(now); ok {
		if again {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mostStale)
			go func() {
				defer cancel()
				_, _ = v.keepNodes(ctx, now) // who asks when the list is too old sees the error
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

// get returns the list if it may be given at a time, and whether the caller has to read the next one.
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
