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

// NodePast knows what nodes did in the last day and week, and what waited for what they
// had free. It reads that anew when it is older than a minute and than fifty times what
// the reading took, and is safe for concurrent use.
type NodePast struct {
	Rollups NodeUse
	Waits   store.Waits
	Views   interface {
		HeldByBatch(ctx context.Context, from time.Time, step time.Duration, steps int) ([]query.NodeHeld, error)
	}
	Clock func() time.Time

	mu    sync.Mutex
	until time.Time // what is known holds
	known map[nodeName]*pastOf
}

type nodeName struct{ site, node string }

type pastOf struct {
	day, week *client.NodeSpan
	hours     [dayHours]*store.NodeUse // of the day, the last one under way
	waiting   *client.NodeWaiting
}

const (
	dayHours = 25 // and the hour under way
	perHour  = 4  // steps in which it is looked for room
	roomSpan = time.Hour / perHour
	daySteps = dayHours * perHour
)

// fill adds the past to nodes.
func (p *NodePast) fill(ctx context.Context, nodes []client.Node) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.Clock(); !now.Before(p.until) {
		known, err := p.read(ctx, now, nodes)
		if err != nil {
			return err
		}
		p.known, p.until = known, now.Add(max(time.Minute, 50*p.Clock().Sub(now)))
	}
	for i := range nodes {
		n := &nodes[i]
		if k := p.known[nodeName{n.Site, n.Node}]; k != nil {
			n.Day, n.Week, n.Waiting = k.day, k.week, k.waiting
		}
	}
	return nil
}

func (p *NodePast) read(ctx context.Context, now time.Time, nodes []client.Node) (map[nodeName]*pastOf, error) {
	known := map[nodeName]*pastOf{}
	of := func(site, node string) *pastOf {
		k := nodeName{site, node}
		if known[k] == nil {
			known[k] = &pastOf{}
		}
		return known[k]
	}
	by := []string{"site", "node"}
	day := now.Truncate(time.Hour).Add(-(dayHours - 1) * time.Hour)
	for _, s := range []struct {
		since time.Time
		into  func(*pastOf) **client.NodeSpan
	}{
		{day, func(o *pastOf) **client.NodeSpan { return &o.day }},
		{now.Truncate(time.Hour).AddDate(0, 0, -7), func(o *pastOf) **client.NodeSpan { return &o.week }},
	} {
		rows, err := p.Rollups.NodeUse(ctx, store.RollupQuery{From: s.since, To: now, Span: store.SpanWhole, By: by})
		if err != nil {
			return nil, err
		}
		for i := range rows {
			*s.into(of(rows[i].Site, rows[i].Node)) = spanOf(&rows[i], s.since, now)
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
	shapes, err := p.demand(ctx, day, now)
	if err != nil {
		return nil, err
	}
	if len(shapes) == 0 {
		for i := range nodes { // a batch system that has a node would have told what waits
			if n := &nodes[i]; n.Batch != nil {
				of(n.Site, n.Node).waiting = &client.NodeWaiting{}
			}
		}
		return known, nil
	}
	held, err := p.Views.HeldByBatch(ctx, day, roomSpan, daySteps)
	if err != nil {
		return nil, err
	}
	steps := map[nodeName][]query.Held{}
	for i := range held {
		steps[nodeName{held[i].Site, held[i].Node}] = held[i].Steps
	}
	for i := range nodes {
		n := &nodes[i]
		o := of(n.Site, n.Node)
		o.waiting = serve(n, rooms(n, o, stepsOf(steps, n), now.Sub(day)), shapes)
	}
	return known, nil
}

// stepsOf finds a node that the batch system may call with or without its domain.
func stepsOf(steps map[nodeName][]query.Held, n *client.Node) []query.Held {
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

func spanOf(u *store.NodeUse, since, now time.Time) *client.NodeSpan {
	s := &client.NodeSpan{Since: since.UTC(), UpSeconds: u.UpSeconds, GPUSeconds: u.GPUSeconds, EnergyJoules: u.NodeJoules,
		CPUShare: over(u.CoreUsedSeconds, u.CoreSeconds), MemoryShare: over(u.NodeMemoryUsedByteSeconds, u.NodeMemoryByteSeconds), CoresUsed: over(u.CoreUsedSeconds, u.UpSeconds)}
	whole := now.Sub(since).Seconds()
	if s.UpShare = over(u.UpSeconds, &whole); s.UpShare != nil {
		s.UpShare = at(min(*s.UpShare, 1))
	}
	if u.CoreSeconds != nil && u.CoreUsedSeconds != nil {
		s.UnusedCoreSeconds = at(max(*u.CoreSeconds-*u.CoreUsedSeconds, 0))
	}
	return s
}

// room is what a node had free in one step; GPUs is nil when not known.
type room struct {
	ok            bool
	cores, memory float64
	gpus          *float64
}

// rooms is what was free of a node in each step of the day. Where a batch system gives
// the node out, free is what no job held, however little of it was used: nothing else
// could have been given out. Else free is what was not used.
func rooms(n *client.Node, o *pastOf, held []query.Held, day time.Duration) []room {
	out := make([]room, daySteps)
	for i := range out {
		r := &out[i]
		h := o.hours[i/perHour]
		if !n.Agent && n.Batch != nil {
			h = &store.NodeUse{} // that it was up the batch system says
		} else {
			if h == nil || h.UpSeconds == nil || h.CoreSeconds == nil {
				continue
			}
			whole := min(time.Hour, day-time.Duration(i/perHour)*time.Hour).Seconds()
			if up := *h.UpSeconds; up <= 0 || up < 0.9*whole { // it was down for a part of the hour
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
			case h.NodeMemoryByteSeconds != nil && h.NodeMemoryUsedByteSeconds != nil: // it does not say
				r.memory = (*h.NodeMemoryByteSeconds - *h.NodeMemoryUsedByteSeconds) / *h.UpSeconds
			}
			switch {
			case n.Batch.GPUs != nil && held[i].GPUs != nil:
				r.gpus = at(*n.Batch.GPUs - *held[i].GPUs)
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

// demand is jobs that asked for the same, and in which steps of the day they waited.
type demand struct {
	site, partition     string
	cores, memory, gpus float64 // on one node
	jobs                []waited
	steps               [daySteps]int // how many of them waited
}

type waited struct {
	from, to int // steps, to not included
	still    bool
}

// ownWish are reasons of Slurm that no free node would have helped.
var ownWish = []string{"dependency", "dependencyneversatisfied", "begintime", "jobheldadmin", "jobhelduser", "jobarraytasklimit"}

// demand collects what waited since the begin of the day for a whole step and more.
func (p *NodePast) demand(ctx context.Context, day, now time.Time) ([]*demand, error) {
	type shape struct {
		site, partition     string
		cores, memory, gpus float64
	}
	found := map[shape]*demand{}
	err := p.Waits.Waits(ctx, store.WaitQuery{Since: day, Until: now.Add(time.Second)}, func(w *store.Wait) error {
		if w.RequestCores == nil || slices.Contains(ownWish, strings.ReplaceAll(strings.ToLower(w.Reason), "_", "")) {
			return nil
		}
		until := w.Start
		if until.IsZero() {
			until = now
		}
		// Whole steps only: in less nobody can say that there was room all the time.
		from := max(int((w.Submit.Sub(day)+roomSpan-1)/roomSpan), 0)
		x := waited{from: from, to: min(int(until.Sub(day)/roomSpan), daySteps), still: w.Start.IsZero()}
		if x.from >= x.to && !x.still {
			return nil
		}
		nodes := max(figure(w.RequestNodes), float64(len(w.Nodes)), 1)
		k := shape{w.Site, w.Partition, *w.RequestCores / nodes, figure(w.RequestMemoryBytes) / nodes, figure(w.RequestGPUs) / nodes}
		d := found[k]
		if d == nil {
			d = &demand{site: k.site, partition: k.partition, cores: k.cores, memory: k.memory, gpus: k.gpus}
			found[k] = d
		}
		d.jobs = append(d.jobs, x)
		for i := x.from; i < x.to; i++ {
			d.steps[i]++
		}
		return nil
	})
	out := make([]*demand, 0, len(found))
	for _, d := range found {
		out = append(out, d)
	}
	return out, err
}

// fits reports whether one node of such a job fits into the room.
func (d *demand) fits(r *room) bool {
	return r.ok && r.cores >= d.cores-1e-9 && r.memory >= d.memory && (d.gpus == 0 || (r.gpus != nil && *r.gpus >= d.gpus))
}

// serve says what waited while the node had room for it; nil when it is not known what
// the node had free, or when it was never up.
func serve(n *client.Node, free []room, shapes []*demand) *client.NodeWaiting {
	if !slices.ContainsFunc(free, func(r room) bool { return r.ok }) {
		return nil
	}
	var out client.NodeWaiting
	var used [daySteps]float64 // cores that what waited would have used
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
		var before [daySteps + 1]int // steps with room until then
		for i := range free {
			before[i+1] = before[i]
			if d.fits(&free[i]) {
				before[i+1]++
				if d.steps[i] > 0 {
					used[i] = min(free[i].cores, used[i]+d.cores*float64(d.steps[i]))
				}
			}
		}
		now := n.Up && last >= 0 && d.fits(&free[last])
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
		out.CoreSeconds += cores * roomSpan.Seconds()
	}
	return &out
}
