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

// NodeHistory caches the use of nodes over the last day and week, and the pending jobs that would have fitted into
// their free capacity. It reads them again after a minute, or after fifty times the reading time if that is longer. It
// is safe for concurrent use.
type NodeHistory struct {
	Rollups NodeUse
	Waits   store.Waits
	Views   interface {
		AllocationByNode(ctx context.Context, from time.Time, step time.Duration, steps int) ([]query.NodeAllocation, error)
	}
	Bounds *Bounds // nil withholds nothing
	Clock  func() time.Time

	mu    sync.Mutex
	until time.Time // expiry of the cache
	cache map[nodeName]*nodeDays
}

type nodeName struct{ site, node string }

type nodeDays struct {
	day, week *wire.NodeSpan
	hours     [dayHours]*store.NodeUse // of the day, including the current one
	waiting   *wire.NodeWaiting
}

const (
	dayHours     = 25 // including the current one
	stepsPerHour = 4  // resolution of the comparison of free capacity with pending jobs
	stepLength   = time.Hour / stepsPerHour
	daySteps     = dayHours * stepsPerHour
)

// addTo adds the history to nodes.
func (p *NodeHistory) addTo(ctx context.Context, nodes []wire.Node) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.Clock(); !now.Before(p.until) {
		days, err := p.readDays(ctx, now, nodes)
		if err != nil {
			return err
		}
		p.cache, p.until = days, now.Add(max(time.Minute, 50*p.Clock().Sub(now)))
	}
	for i := range nodes {
		n := &nodes[i]
		if k := p.cache[nodeName{n.Site, n.Node}]; k != nil {
			n.Day, n.Week, n.Waiting = k.day, k.week, k.waiting
		}
	}
	return nil
}

func (p *NodeHistory) readDays(ctx context.Context, now time.Time, nodes []wire.Node) (map[nodeName]*nodeDays, error) {
	known := map[nodeName]*nodeDays{}
	of := func(site, node string) *nodeDays {
		k := nodeName{site, node}
		if known[k] == nil {
			known[k] = &nodeDays{}
		}
		return known[k]
	}
	by := []string{"site", "node"}
	day := now.Truncate(time.Hour).Add(-(dayHours - 1) * time.Hour)
	for _, s := range []struct {
		since time.Time
		into  func(*nodeDays) **wire.NodeSpan
	}{
		{day, func(o *nodeDays) **wire.NodeSpan { return &o.day }},
		{now.Truncate(time.Hour).Add(-(7*24 - 1) * time.Hour), func(o *nodeDays) **wire.NodeSpan { return &o.week }},
	} {
		rows, err := p.Rollups.NodeUse(ctx, store.RollupQuery{From: s.since, To: now, Span: store.SpanWhole, By: by})
		if err != nil {
			return nil, err
		}
		for i := range rows {
			span := toSpan(&rows[i], s.since, now)
			p.Bounds.checkSpan(rows[i].Node, span)
			*s.into(of(rows[i].Site, rows[i].Node)) = span
		}
	}
	rows, err := p.Rollups.NodeUse(ctx, store.RollupQuery{From: day, To: now, Span: store.SpanHour, By: by})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if h := int(rows[i].At.Sub(day) / time.Hour); h >= 0 && h < dayHours {
			of(rows[i].Site, rows[i].Node).hours[h] = &rows[i]
		}
	}
	shapes, err := p.pendingDemands(ctx, day, now)
	if err != nil {
		return nil, err
	}
	if len(shapes) == 0 {
		for i := range nodes { // a batch system that manages a node would have reported pending jobs
			if n := &nodes[i]; n.Batch != nil {
				of(n.Site, n.Node).waiting = &wire.NodeWaiting{}
			}
		}
		return known, nil
	}
	held, err := p.Views.AllocationByNode(ctx, day, stepLength, daySteps)
	if err != nil {
		return nil, err
	}
	steps := map[nodeName][]query.AllocationStep{}
	for i := range held {
		steps[nodeName{held[i].Site, held[i].Node}] = held[i].Steps
	}
	for i := range nodes {
		n := &nodes[i]
		o := of(n.Site, n.Node)
		o.waiting = countWaiting(n, freeCapacity(n, o, findSteps(steps, n), now.Sub(day)), shapes)
	}
	return known, nil
}

// findSteps finds the steps of a node that the batch system may name with or without its domain.
func findSteps(steps map[nodeName][]query.AllocationStep, n *wire.Node) []query.AllocationStep {
	if s, ok := steps[nodeName{n.Site, n.Node}]; ok || n.Batch == nil {
		return s
	}
	host, _, full := strings.Cut(n.Node, ".")
	if full {
		return steps[nodeName{n.Site, host}]
	}
	for k, s := range steps {
		if k.site == n.Site && strings.HasPrefix(k.node, host+".") {
			return s
		}
	}
	return nil
}

func toSpan(u *store.NodeUse, since, now time.Time) *wire.NodeSpan {
	s := &wire.NodeSpan{Since: since.UTC(), UpSeconds: u.UpSeconds, GPUSeconds: u.GPUSeconds, EnergyJoules: u.NodeJoules,
		CPUShare: figure.Ratio(u.CoreUsedSeconds, u.CoreSeconds), CoresUsed: figure.Ratio(u.CoreUsedSeconds, u.UpSeconds),
		MemoryShare: figure.Ratio(u.NodeMemoryUsedByteSeconds, u.NodeMemoryByteSeconds)}
	whole := now.Sub(since).Seconds()
	s.UpShare = figure.Ratio(u.UpSeconds, &whole)
	if u.CoreSeconds != nil && u.CoreUsedSeconds != nil {
		s.UnusedCoreSeconds = new(*u.CoreSeconds - *u.CoreUsedSeconds)
	}
	return s
}

// freeCapacityAt is the free capacity of a node in one step; gpus is nil when unknown.
type freeCapacityAt struct {
	ok            bool
	cores, memory float64
	gpus          *float64
}

// freeCapacity returns the free capacity of a node in each step of the day. For a node of a batch system, that is the
// unallocated capacity. It does not include allocated but unused capacity, because jobs cannot use it. For other nodes,
// it is the unused capacity.
func freeCapacity(n *wire.Node, o *nodeDays, held []query.AllocationStep, day time.Duration) []freeCapacityAt {
	out := make([]freeCapacityAt, daySteps)
	for i := range out {
		r := &out[i]
		h := o.hours[i/stepsPerHour]
		if !n.Agent && n.Batch != nil {
			h = &store.NodeUse{} // the batch system reports that it was up
		} else {
			if h == nil || h.UpSeconds == nil || h.CoreSeconds == nil {
				continue
			}
			whole := min(time.Hour, day-time.Duration(i/stepsPerHour)*time.Hour).Seconds()
			if up := *h.UpSeconds; up <= 0 || up < 0.9*whole { // it was down for part of the hour
				continue
			}
		}
		if n.Batch != nil {
			if held == nil || !held[i].Open || held[i].Cores == nil || n.Batch.Cores == nil {
				continue
			}
			r.ok, r.cores = true, *n.Batch.Cores-*held[i].Cores
			switch {
			case n.Batch.MemoryBytes != nil && held[i].MemoryBytes != nil:
				r.memory = *n.Batch.MemoryBytes - *held[i].MemoryBytes
			case h.NodeMemoryByteSeconds != nil && h.NodeMemoryUsedByteSeconds != nil: // the batch system does not report memory
				r.memory = (*h.NodeMemoryByteSeconds - *h.NodeMemoryUsedByteSeconds) / *h.UpSeconds
			}
			switch {
			case n.Batch.GPUs != nil && held[i].GPUs != nil:
				r.gpus = new(*n.Batch.GPUs - *held[i].GPUs)
			case n.Batch.GPUs == nil || *n.Batch.GPUs == 0:
				r.gpus = new(float64)
			}
			continue
		}
		if h.CoreUsedSeconds == nil || h.NodeMemoryByteSeconds == nil || h.NodeMemoryUsedByteSeconds == nil {
			continue
		}
		r.ok, r.cores = true, (*h.CoreSeconds-*h.CoreUsedSeconds) / *h.UpSeconds
		r.memory = (*h.NodeMemoryByteSeconds - *h.NodeMemoryUsedByteSeconds) / *h.UpSeconds
		if n.GPUs == nil || *n.GPUs == 0 {
			r.gpus = new(float64)
		}
	}
	return out
}

// pendingDemand is a set of jobs with the same request, with the steps of the day during which they waited.
type pendingDemand struct {
	site, partition     string
	cores, memory, gpus float64 // per node
	jobs                []waitingJob
	steps               [daySteps]int // number of waiting jobs
}

type waitingJob struct {
	from, to int // steps, excluding to
	still    bool
}

// notResourceBound are Slurm's pending reasons that a free node does not resolve.
var notResourceBound = []string{"dependency", "dependencyneversatisfied", "begintime", "jobheldadmin", "jobhelduser", "jobarraytasklimit"}

// pendingDemands returns the jobs that waited for one or more whole steps since the start of the day.
func (p *NodeHistory) pendingDemands(ctx context.Context, day, now time.Time) ([]*pendingDemand, error) {
	type shape struct {
		site, partition     string
		cores, memory, gpus float64
	}
	found := map[shape]*pendingDemand{}
	err := p.Waits.Waits(ctx, store.WaitQuery{Since: day, Until: now.Add(time.Second)}, func(w *store.Wait) error {
		if w.RequestCores == nil || slices.Contains(notResourceBound, strings.ReplaceAll(strings.ToLower(w.Reason), "_", "")) {
			return nil
		}
		until := w.Start
		if until.IsZero() {
			until = now
		}
		// Only whole steps count: free capacity may have come and gone within a step.
		from := max(int((w.Submit.Sub(day)+stepLength-1)/stepLength), 0)
		x := waitingJob{from: from, to: min(int(until.Sub(day)/stepLength), daySteps), still: w.Start.IsZero()}
		if x.from >= x.to && !x.still {
			return nil
		}
		nodes := max(orZero(w.RequestNodes), float64(len(w.Nodes)), 1)
		k := shape{w.Site, w.Partition, *w.RequestCores / nodes, orZero(w.RequestMemoryBytes) / nodes, orZero(w.RequestGPUs) / nodes}
		d := found[k]
		if d == nil {
			d = &pendingDemand{site: k.site, partition: k.partition, cores: k.cores, memory: k.memory, gpus: k.gpus}
			found[k] = d
		}
		d.jobs = append(d.jobs, x)
		for i := x.from; i < x.to; i++ {
			d.steps[i]++
		}
		return nil
	})
	out := make([]*pendingDemand, 0, len(found))
	for _, d := range found {
		out = append(out, d)
	}
	return out, err
}

// couldRunOn reports whether the free capacity would have been enough for one node of such a job.
func (d *pendingDemand) couldRunOn(r *freeCapacityAt) bool {
	return r.ok && r.cores >= d.cores-1e-9 && r.memory >= d.memory && (d.gpus == 0 || (r.gpus != nil && *r.gpus >= d.gpus))
}

// countWaiting returns the number of jobs that waited while the node had free capacity for them. It returns nil if the
// free capacity is unknown or the node was never up.
func countWaiting(n *wire.Node, free []freeCapacityAt, shapes []*pendingDemand) *wire.NodeWaiting {
	if !slices.ContainsFunc(free, func(r freeCapacityAt) bool { return r.ok }) {
		return nil
	}
	var out wire.NodeWaiting
	var used [daySteps]float64 // cores that the waiting jobs would have used
	last := -1
	for i := range free {
		if free[i].ok {
			last = i
		}
	}
	for _, d := range shapes {
		if d.site != n.Site || (d.partition != "" && (n.Batch == nil || !slices.Contains(n.Batch.Partitions, d.partition))) {
			continue
		}
		var before [daySteps + 1]int // number of earlier steps with enough capacity
		for i := range free {
			before[i+1] = before[i]
			if d.couldRunOn(&free[i]) {
				before[i+1]++
				if d.steps[i] > 0 {
					used[i] = min(free[i].cores, used[i]+d.cores*float64(d.steps[i]))
				}
			}
		}
		now := n.Up && last >= 0 && d.couldRunOn(&free[last])
		for _, w := range d.jobs {
			had := w.from < w.to && before[w.to] > before[w.from]
			if had {
				out.Jobs++
			}
			if w.still && now {
				out.Now++
				if !had {
					out.Jobs++
				}
			}
		}
	}
	for _, cores := range used {
		out.CoreSeconds += cores * stepLength.Seconds()
	}
	return &out
}
