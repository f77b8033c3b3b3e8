package answer

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/query"
	"reckon/store"
)

// Partitions caches the nodes of each partition at past times, as the batch system reported them. They give the
// capacity of a partition. It is safe for concurrent use.
type Partitions struct {
	Views interface {
		Partitions(ctx context.Context, at time.Time) ([]query.Partition, error)
	}
	Clock func() time.Time

	mu    sync.Mutex
	cache map[time.Time][]query.Partition // by time
}

// A query takes at most maxSnapshots snapshots of the membership, at least snapshotEvery apart.
const (
	maxSnapshots  = 12
	snapshotEvery = time.Hour
	// settledAge is the age from which a snapshot no longer changes and is cached.
	settledAge      = time.Hour
	cachedSnapshots = 256
)

// partitionSnapshots holds the partitions at some times of an interval, in order.
type partitionSnapshots struct {
	at   []time.Time
	what [][]query.Partition
}

// readSnapshots takes snapshots between two times; none if no batch system reported partitions.
func (p *Partitions) readSnapshots(ctx context.Context, since, until time.Time) (l partitionSnapshots, err error) {
	if p == nil {
		return l, nil
	}
	if now := p.Clock(); until.After(now) {
		until = now
	}
	n := min(max(int(until.Sub(since)/snapshotEvery), 1), maxSnapshots)
	every := until.Sub(since) / time.Duration(n)
	for i := range n {
		at := until.Add(-time.Duration(n-1-i) * every)
		if i < n-1 {
			at = at.Truncate(snapshotEvery) // a time that earlier queries used too
		}
		list, err := p.readSnapshot(ctx, at)
		if err != nil {
			return partitionSnapshots{}, err
		}
		if len(list) > 0 {
			l.at, l.what = append(l.at, at), append(l.what, list)
		}
	}
	return l, nil
}

func (p *Partitions) readSnapshot(ctx context.Context, at time.Time) ([]query.Partition, error) {
	p.mu.Lock()
	list, ok := p.cache[at]
	p.mu.Unlock()
	if ok {
		return list, nil
	}
	list, err := p.Views.Partitions(ctx, at)
	if err != nil || p.Clock().Sub(at) < settledAge {
		return list, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.cache) >= cachedSnapshots || p.cache == nil {
		p.cache = map[time.Time][]query.Partition{}
	}
	p.cache[at] = list
	return list, nil
}

// nearestSnapshot returns the snapshot nearest to a time.
func (l partitionSnapshots) nearestSnapshot(at time.Time) []query.Partition {
	best := 0
	for i := range l.at {
		if l.at[i].Sub(at).Abs() < l.at[best].Sub(at).Abs() {
			best = i
		}
	}
	return l.what[best]
}

// capacityKey identifies the capacity of a partition in an interval; at is the start of the interval. site is empty
// unless rows are grouped by site.
type capacityKey struct {
	at              int64
	site, partition string
}

// partitionCapacity returns the capacity of each partition per interval: the sum over its nodes while they were up. The
// empty partition holds the sum over all selected partitions and counts each node once.
func (u *Usage) partitionCapacity(ctx context.Context, q wire.UsageQuery) (map[capacityKey]*store.NodeUse, error) {
	l, err := u.Partitions.readSnapshots(ctx, q.Since, q.Until)
	if err != nil || len(l.at) == 0 {
		return nil, err
	}
	// Nodes move between partitions, so a query over the whole interval is the sum over parts of it.
	span := store.Span(q.Span)
	if span == store.SpanWhole {
		switch long := q.Until.Sub(q.Since); {
		case long <= 2*24*time.Hour:
			span = store.SpanHour
		case long <= 62*24*time.Hour:
			span = store.SpanDay
		default:
			span = store.SpanMonth
		}
	}
	rows, err := u.Rollups.NodeUse(ctx,
		store.RollupQuery{From: q.Since, To: q.Until, Span: span, By: []string{"site", "node"}, Sites: q.Sites, Nodes: q.Nodes})
	if err != nil {
		return nil, err
	}
	bySite := slices.Contains(q.By, "site")
	out := map[capacityKey]*store.NodeUse{}
	members := map[int64]membershipMap{}
	for i := range rows {
		r := &rows[i]
		of := members[r.At.UnixMilli()]
		if of == nil {
			at := r.At
			if span == store.SpanHourOfWeek { // the latest membership counts for all weeks
				at = q.Until
			}
			of = newMembership(l.nearestSnapshot(at))
			members[r.At.UnixMilli()] = of
		}
		at := r.At
		if store.Span(q.Span) == store.SpanWhole {
			at = time.Time{}
		}
		k := capacityKey{at: at.UnixMilli()}
		if bySite {
			k.site = r.Site
		}
		in := false
		for _, name := range of.partitionsOf(r.Site, r.Node) {
			if len(q.Partitions) > 0 && !slices.Contains(q.Partitions, name) {
				continue
			}
			k.partition, in = name, true
			addNode(out, k, r)
		}
		if in {
			k.partition, k.site = "", ""
			addNode(out, k, r)
		}
	}
	return out, nil
}

func addNode(to map[capacityKey]*store.NodeUse, k capacityKey, from *store.NodeUse) {
	sum := to[k]
	if sum == nil {
		sum = &store.NodeUse{}
		to[k] = sum
	}
	figure.Add(&sum.Capacity, &from.Capacity)
}

// membershipMap maps nodes to their partitions. It contains both the full and the short name of a node, because a batch
// system may omit the domain.
type membershipMap map[nodeName][]string

func newMembership(list []query.Partition) membershipMap {
	of := membershipMap{}
	for _, p := range list {
		k := nodeName{p.Site, p.Node}
		of[k] = append(of[k], p.Name)
	}
	for _, p := range list {
		if host, _, full := strings.Cut(p.Node, "."); full {
			if k := (nodeName{p.Site, host}); of[k] == nil {
				of[k] = of[nodeName{p.Site, p.Node}]
			}
		}
	}
	return of
}

func (of membershipMap) partitionsOf(site, node string) []string {
	if names, ok := of[nodeName{site, node}]; ok {
		return names
	}
	host, _, full := strings.Cut(node, ".")
	if !full {
		return nil
	}
	return of[nodeName{site, host}]
}
