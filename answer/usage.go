package answer

import (
	"context"
	"slices"
	"time"

	"reckon/client"
	"reckon/store"
)

// Usage answers history from the roll-ups.
type Usage struct {
	Rollups    Rollups
	Catalogue  Catalogue
	Partitions *Partitions // nil where nobody tells of any
	Outage     *Outage     // nil where the series are in this process
	Clock      func() time.Time
}

// Rollups tell what was used, hour by hour; store.Rollups has it.
type Rollups interface {
	NodeUse
	Use(ctx context.Context, q store.RollupQuery) ([]store.Use, error)
}

// Usage adds up what the question selects.
func (u *Usage) Usage(ctx context.Context, q client.UsageQuery) (client.UsageList, error) {
	span := store.Span(q.Span)
	rq := store.RollupQuery{
		From: q.Since, To: q.Until, Span: span, By: q.By, Sites: q.Sites, Kinds: q.Kinds, Owners: q.Owners, Accounts: q.Accounts,
		Partitions: q.Partitions, Nodes: q.Nodes, Command: q.Command,
	}
	list := client.UsageList{
		Since: store.SpanStart(store.SpanHour, q.Since), Until: store.SpanStart(store.SpanHour, q.Until.Add(time.Hour-1)),
		Span: q.Span, By: q.By, Rows: []client.Usage{}, Missing: u.Outage.Missing(ctx),
	}
	machines, err := u.Rollups.NodeUse(ctx, store.RollupQuery{From: q.Since, To: q.Until, Span: span, Sites: q.Sites, Nodes: q.Nodes})
	if err != nil {
		return list, err
	}
	var parts map[capacityKey]*store.NodeUse
	if slices.Contains(q.By, "partition") || len(q.Partitions) > 0 {
		parts, err = u.capacities(ctx, q)
		if err := u.Outage.lacks(&list.Missing, "which nodes are in which partition", err); err != nil {
			return list, err
		}
	}
	capacity := map[int64]*store.NodeUse{}
	for i := range machines {
		m, at := &machines[i], machines[i].At.UnixMilli()
		if parts != nil && len(q.Partitions) > 0 { // of the nodes of those that were asked for
			if m = parts[capacityKey{at: at}]; m == nil {
				continue
			}
		}
		capacity[at] = m
		addCapacity(&list.Total.Capacity, capacityOf(m))
	}
	if slices.Contains(q.By, "node") {
		nodes, err := u.Rollups.NodeUse(ctx, rq)
		if err != nil {
			return list, err
		}
		for i := range nodes {
			n := &nodes[i]
			list.Rows = append(list.Rows, client.Usage{
				From: moment(span, n.At), Site: n.Site, Node: n.Node, UsageFigures: figuresOf(&n.Used), Capacity: capacityOf(n), CapacityShare: over(n.CPUSeconds, n.CoreSeconds),
			})
		}
	} else {
		rows, err := u.Rollups.Use(ctx, rq)
		if err != nil {
			return list, err
		}
		for i := range rows {
			r := &rows[i]
			row := client.Usage{From: moment(span, r.At), Site: r.Site, Owner: r.Owner, Account: r.Account, Partition: r.Partition,
				Command: r.Command, Kind: r.Kind, UsageFigures: figuresOf(&r.Used)}
			m := capacity[r.At.UnixMilli()]
			if parts != nil && r.Partition != "" {
				m = parts[capacityKey{r.At.UnixMilli(), r.Site, r.Partition}]
			}
			if m != nil {
				row.Capacity, row.CapacityShare = capacityOf(m), over(r.CPUSeconds, m.CoreSeconds)
			}
			list.Rows = append(list.Rows, row)
		}
		if list.Pending, err = u.pending(ctx, q); err != nil {
			return list, err
		}
	}
	for i := range list.Rows {
		list.Total.Add(&list.Rows[i].UsageFigures)
	}
	list.Total.CapacityShare = over(list.Total.CPUSeconds, list.Total.CoreSeconds)
	return list, nil
}

// pending is what waits now of what the question selects; nil when nothing does.
func (u *Usage) pending(ctx context.Context, q client.UsageQuery) (*client.Pending, error) {
	rows, n, err := u.Catalogue.Workloads(ctx, store.Filter{
		States: []string{"pending"}, Kinds: q.Kinds, Owners: q.Owners, Accounts: q.Accounts, Partitions: q.Partitions, Command: q.Command,
	})
	if err != nil || n == 0 {
		return nil, err
	}
	p := &client.Pending{Workloads: n}
	sum := func(to **float64, v *float64) {
		if v != nil {
			x := *v
			if *to != nil {
				x += **to
			}
			*to = &x
		}
	}
	now := u.Clock()
	for i := range rows {
		sum(&p.RequestCores, rows[i].RequestCores)
		sum(&p.RequestGPUs, rows[i].RequestGPUs)
		if at := rows[i].Submit; !at.IsZero() && !at.After(now) {
			if s := now.Sub(at).Seconds(); p.LongestSeconds == nil || s > *p.LongestSeconds {
				p.LongestSeconds = &s
			}
		}
	}
	return p, nil
}

func moment(span store.Span, at time.Time) *time.Time {
	if span == store.SpanWhole {
		return nil
	}
	return &at
}

func figuresOf(u *store.Used) client.UsageFigures {
	return client.UsageFigures{
		CPUSeconds: u.CPUSeconds, CPUWaitSeconds: u.CPUWaitSeconds, MemoryByteSeconds: u.MemoryByteSeconds, GPUSeconds: u.GPUSeconds,
		ReadBytes: u.ReadBytes, WriteBytes: u.WriteBytes, NetworkBytes: u.NetworkBytes, EnergyJoules: u.EnergyJoules, Processes: u.Processes,
		HeldCoreSeconds: u.HeldCoreSeconds, Started: u.Started, Waited: u.StartedWithSubmit, WaitSeconds: u.WaitSeconds, WaitCoreSeconds: u.WaitCoreSeconds,
	}
}

func capacityOf(n *store.NodeUse) client.Capacity {
	return client.Capacity{UpSeconds: n.UpSeconds, CoreSeconds: n.CoreSeconds, CoreUsedSeconds: n.CoreUsedSeconds,
		NodeMemoryByteSeconds: n.NodeMemoryByteSeconds, NodeMemoryUsedByteSeconds: n.NodeMemoryUsedByteSeconds, NodeJoules: n.NodeJoules}
}

func addCapacity(to *client.Capacity, c client.Capacity) {
	for _, f := range []struct{ to, from **float64 }{
		{&to.UpSeconds, &c.UpSeconds}, {&to.CoreSeconds, &c.CoreSeconds}, {&to.CoreUsedSeconds, &c.CoreUsedSeconds},
		{&to.NodeMemoryByteSeconds, &c.NodeMemoryByteSeconds}, {&to.NodeMemoryUsedByteSeconds, &c.NodeMemoryUsedByteSeconds}, {&to.NodeJoules, &c.NodeJoules},
	} {
		if *f.from == nil {
			continue
		}
		sum := **f.from
		if *f.to != nil {
			sum += **f.to
		}
		*f.to = &sum
	}
}

// over divides what is known; nil when the whole is unknown or nothing.
func over(part, whole *float64) *float64 {
	if part == nil || whole == nil || *whole <= 0 {
		return nil
	}
	v := *part / *whole
	return &v
}
