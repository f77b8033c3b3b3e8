package answer

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"reckon/client"
	"reckon/query"
	"reckon/store"
)

// Partitions knows which nodes were in which partitions, as the batch system told it, and
// so what a partition had. It is safe for concurrent use.
type Partitions struct {
	Views interface {
		Partitions(ctx context.Context, at time.Time) ([]query.Partition, error)
	}
	Clock func() time.Time

	mu    sync.Mutex
	known map[time.Time][]query.Partition // as of moments that are past
}

// Of the time that is asked for, partitions are looked at so many times at most, and not
// closer together than lookApart.
const (
	mostLooks = 12
	lookApart = time.Hour
	// settledLook is how old a look is when it is kept.
	settledLook = time.Hour
	keptLooks   = 256
)

// looks are the partitions at some moments of a stretch of time, in order.
type looks struct {
	at   []time.Time
	what [][]query.Partition
}

// read looks at the partitions between two times. Where no batch system told of any the
// answer is empty.
func (p *Partitions) read(ctx context.Context, since, until time.Time) (l looks, err error) {
	if p == nil {
		return l, nil
	}
	if now := p.Clock(); until.After(now) {
		until = now
	}
	n := min(max(int(until.Sub(since)/lookApart), 1), mostLooks)
	every := until.Sub(since) / time.Duration(n)
	for i := range n {
		at := until.Add(-time.Duration(n-1-i) * every)
		if i < n-1 {
			at = at.Truncate(lookApart) // the same as in the question before
		}
		list, err := p.look(ctx, at)
		if err != nil {
			return looks{}, err
		}
		if len(list) > 0 {
			l.at, l.what = append(l.at, at), append(l.what, list)
		}
	}
	return l, nil
}

func (p *Partitions) look(ctx context.Context, at time.Time) ([]query.Partition, error) {
	p.mu.Lock()
	list, ok := p.known[at]
	p.mu.Unlock()
	if ok {
		return list, nil
	}
	list, err := p.Views.Partitions(ctx, at)
	if err != nil || p.Clock().Sub(at) < settledLook {
		return list, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= keptLooks || p.known == nil {
		p.known = map[time.Time][]query.Partition{}
	}
	p.known[at] = list
	return list, nil
}

// near is the look that is nearest to a time.
func (l looks) near(at time.Time) []query.Partition {
	best := 0
	for i := range l.at {
		if l.at[i].Sub(at).Abs() < l.at[best].Sub(at).Abs() {
			best = i
		}
	}
	return l.what[best]
}

// capacityKey is a stretch of time, and a site and partition; the site is empty where
// rows do not tell sites apart.
type capacityKey struct {
	at              int64
	site, partition string
}

// capacities adds up what the nodes of each partition had in each stretch of time while
// they were up. chosen are the partitions that the question selects, empty for all; with
// them comes the capacity of their nodes together, under no name.
func (u *Usage) capacities(ctx context.Context, q client.UsageQuery) (map[capacityKey]*store.NodeUse, error) {
	l, err := u.Partitions.read(ctx, q.Since, q.Until)
	if err != nil || len(l.at) == 0 {
		return nil, err
	}
	// The stretches in which what nodes had is added up: those that are asked for or, of the
	// whole, parts of it, for nodes move between partitions.
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
	rows, err := u.Rollups.NodeUse(ctx, store.RollupQuery{From: q.Since, To: q.Until, Span: span, By: []string{"site", "node"}, Sites: q.Sites, Nodes: q.Nodes})
	if err != nil {
		return nil, err
	}
	bySite := slices.Contains(q.By, "site")
	out := map[capacityKey]*store.NodeUse{}
	members := map[int64]membersOf{}
	for i := range rows {
		r := &rows[i]
		of := members[r.At.UnixMilli()]
		if of == nil {
			at := r.At
			if span == store.SpanHourOfWeek { // the latest that is known stands for all weeks
				at = q.Until
			}
			of = membership(l.near(at))
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
		for _, name := range of.find(r.Site, r.Node) {
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
	c := capacityOf(sum)
	addCapacity(&c, capacityOf(from))
	sum.UpSeconds, sum.CoreSeconds, sum.CoreUsedSeconds = c.UpSeconds, c.CoreSeconds, c.CoreUsedSeconds
	sum.NodeMemoryByteSeconds, sum.NodeMemoryUsedByteSeconds, sum.NodeJoules = c.NodeMemoryByteSeconds, c.NodeMemoryUsedByteSeconds, c.NodeJoules
}

// membersOf are the partitions of nodes. A batch system may call a node with or without
// its domain: under both it is here.
type membersOf map[nodeName][]string

func membership(list []query.Partition) membersOf {
	of := membersOf{}
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

func (of membersOf) find(site, node string) []string {
	if names, ok := of[nodeName{site, node}]; ok {
		return names
	}
	host, _, full := strings.Cut(node, ".")
	if !full {
		return nil
	}
	return of[nodeName{site, host}]
}
