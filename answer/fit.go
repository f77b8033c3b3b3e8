package answer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/store"
)

// Fit returns the places where a job would fit, based on the nodes and on the waits of earlier jobs there.
type Fit struct {
	Views NodeLists
	Waits store.Waits
	// Rollups lists recent nodes while the series are unavailable. Outage is nil if they never are.
	Rollups NodeUse
	GPUs    GPUViews // nil: sharing of GPUs is not answered
	Outage  *Outage
	Clock   func() time.Time
}

// NodeUse returns the capacity of nodes and its use; implemented by store.Rollups.
type NodeUse interface {
	NodeUse(ctx context.Context, q store.RollupQuery) ([]store.NodeUse, error)
}

// recentNodes is the time over which nodes are listed from the roll-ups alone.
const recentNodes = 7 * 24 * time.Hour

// recentNodes lists the nodes of the last days, with unknown current state.
func (f *Fit) recentNodes(ctx context.Context, now time.Time) ([]wire.Node, error) {
	if f.Rollups == nil {
		return nil, nil
	}
	rows, err := f.Rollups.NodeUse(ctx,
		store.RollupQuery{From: now.Add(-recentNodes), To: now, Span: store.SpanWhole, By: []string{"site", "node"}})
	nodes := make([]wire.Node, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		nodes = append(nodes, wire.Node{Site: r.Site, Node: r.Node, Agent: true, Cores: figure.Ratio(r.CoreSeconds, r.UpSeconds),
			MemoryBytes: figure.Ratio(r.NodeMemoryByteSeconds, r.UpSeconds)})
	}
	return nodes, err
}

// nodeClass is a set of nodes with equal cores and GPUs and about equal memory. Memory may differ by a
// sixteenth, because the kernel's reservation varies.
type nodeClass struct {
	wire.Place
	gpusKnown bool
	// unscheduled means that the site's batch system allocates none of these nodes, as for login and service nodes.
	unscheduled bool
	waits       []float64

	up, free int // numbers of nodes
}

// nodeClasses groups nodes.
type nodeClasses struct {
	all    map[string]*nodeClass
	byNode map[nodeName]*nodeClass
}

// unscheduledNodes returns the nodes in no partition of a site that has partitions, such as login and service nodes.
func unscheduledNodes(nodes []wire.Node) map[nodeName]bool {
	sites, out := map[string]bool{}, map[nodeName]bool{}
	partitions := func(n *wire.Node) bool { return n.Batch != nil && len(n.Batch.Partitions) > 0 }
	for i := range nodes {
		sites[nodes[i].Site] = sites[nodes[i].Site] || partitions(&nodes[i])
	}
	for i := range nodes {
		if n := &nodes[i]; sites[n.Site] && !partitions(n) {
			out[nodeName{n.Site, n.Node}] = true
		}
	}
	return out
}

// classifyNodes groups nodes and counts those with free capacity for the query.
func classifyNodes(nodes []wire.Node, q wire.FitQuery) nodeClasses {
	apart := unscheduledNodes(nodes)
	out := nodeClasses{map[string]*nodeClass{}, map[nodeName]*nodeClass{}}
	for i := range nodes {
		n := &nodes[i]
		c := out.classOf(n, apart[nodeName{n.Site, n.Node}])
		if n.Batch != nil {
			c.addPartitions(n.Batch.Partitions...)
		}
		out.byNode[nodeName{n.Site, n.Node}] = c
		c.Nodes++
		if n.Up {
			c.up++
			if !c.unscheduled && hasFree(n, q) {
				c.free++
			}
		}
	}
	return out
}

// classOf returns the class of a node and creates it if needed. It prefers the capacity configured in a batch system to
// the capacity that the kernel reports.
func (cs *nodeClasses) classOf(n *wire.Node, unscheduled bool) *nodeClass {
	cores, memory := n.Cores, n.MemoryBytes
	if n.Batch != nil && n.Batch.Cores != nil && n.Batch.MemoryBytes != nil {
		cores, memory = n.Batch.Cores, n.Batch.MemoryBytes
	}
	gpus := "unknown"
	if n.GPUs != nil {
		gpus = fmt.Sprint(*n.GPUs)
	}
	key := fmt.Sprint(n.Site, "|", orZero(cores), "|", math.Round(16*math.Log2(max(orZero(memory), 1))), "|", gpus, "|", unscheduled)
	c := cs.all[key]
	if c == nil {
		c = &nodeClass{Place: wire.Place{Site: n.Site, Cores: cores, MemoryBytes: memory, GPUs: n.GPUs, Partitions: []string{}},
			gpusKnown: n.GPUs != nil, unscheduled: unscheduled}
		cs.all[key] = c
	}
	return c
}

// Fit lists classes of similar nodes, the best one first.
func (f *Fit) Fit(ctx context.Context, q wire.FitQuery) (wire.FitList, error) {
	now := f.Clock()
	var list wire.FitList
	nodes, at, err := f.Views.NodesAsOf(ctx, now)
	if err := f.Outage.addMissing(&list.Missing, "which nodes are up, in which partitions, and how much is free on them", err); err != nil {
		return wire.FitList{}, err
	}
	present := err == nil
	if !present {
		if nodes, err = f.recentNodes(ctx, now); err != nil {
			return wire.FitList{}, err
		}
	}
	if present && at.Before(now) {
		list.AsOf, list.Missing = &at, f.Outage.Missing(ctx, time.Time{}, time.Time{})
	}
	found := classifyNodes(nodes, q)
	// Comparable jobs requested half to twice of each amount in the query.
	about := func(amount float64) *store.Range {
		if amount <= 0 {
			return nil
		}
		return &store.Range{Low: amount / 2, High: 2 * amount}
	}
	wq := store.WaitQuery{Since: now.AddDate(0, 0, -30), Until: now, Begun: true, Cores: about(q.Cores), MemoryBytes: about(q.MemoryBytes),
		GPUs: about(q.GPUs)}
	err = f.Waits.Waits(ctx, wq, func(w *store.Wait) error {
		found.addWait(w, q.Time)
		return nil
	})
	if err != nil {
		return wire.FitList{}, err
	}
	list.Places = make([]wire.Place, 0, len(found.all))
	for _, c := range found.all {
		if present {
			c.Up, c.FreeNow = &c.up, &c.free
		}
		c.checkFit(q)
		list.Places = append(list.Places, c.Place)
	}
	slices.SortFunc(list.Places, comparePlaces)
	if q.Shares() && f.GPUs != nil {
		err := f.judgeSharing(ctx, &list, q, now)
		if err := f.Outage.addMissing(&list.Missing, "which GPUs can be shared", err); err != nil {
			return wire.FitList{}, err
		}
	}
	return list, nil
}

func (c *nodeClass) addPartitions(names ...string) {
	for _, p := range names {
		if p != "" && !slices.Contains(c.Partitions, p) {
			c.Partitions = append(c.Partitions, p)
		}
	}
}

// orZero returns 0 for an unknown figure.
func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// hasFree reports whether a node has the requested amounts free now. On a node of a batch system, free means
// unallocated; on other nodes, it means unused.
func hasFree(n *wire.Node, q wire.FitQuery) bool {
	r := freeCapacityAt{ok: true}
	switch b := n.Batch; {
	case b != nil:
		if !b.Open || b.Cores == nil || b.CoresHeld == nil {
			return false
		}
		r.cores = *b.Cores - *b.CoresHeld
		switch {
		case b.MemoryBytes != nil && b.MemoryHeld != nil:
			r.memory = *b.MemoryBytes - *b.MemoryHeld
		case n.MemoryBytes != nil && n.MemoryUsed != nil:
			r.memory = *n.MemoryBytes - *n.MemoryUsed
		}
		if b.GPUs != nil && b.GPUsHeld != nil {
			r.gpus = new(*b.GPUs - *b.GPUsHeld)
		}
	case n.Cores == nil || n.CoresUsed == nil || n.MemoryBytes == nil || n.MemoryUsed == nil:
		return false
	default: // free GPUs are unknown, so a request for them is not met
		r.cores, r.memory = *n.Cores-*n.CoresUsed, *n.MemoryBytes-*n.MemoryUsed
	}
	return (&pendingDemand{cores: q.Cores, memory: q.MemoryBytes, gpus: q.GPUs}).couldRunOn(&r)
}

// addWait adds the wait of a job that is comparable to the query to the class of the job's nodes. length is the run
// time in the query, or 0 for any.
func (cs *nodeClasses) addWait(w *store.Wait, length time.Duration) {
	if len(w.Nodes) == 0 {
		return
	}
	c := cs.byNode[nodeName{w.Site, w.Nodes[0]}]
	if c == nil {
		return
	}
	c.addPartitions(w.Partition)
	if gpus := orZero(w.RequestGPUs); gpus > 0 && !c.gpusKnown {
		c.GPUs = new(max(gpus/float64(len(w.Nodes)), orZero(c.GPUs))) // the most that any job had
	}
	ran := w.End.Sub(w.Start)
	if w.Start.Before(w.Submit) || (length > 0 && ran > 2*length) {
		return
	}
	c.waits = append(c.waits, w.Start.Sub(w.Submit).Seconds())
	c.LongestRun = new(max(ran.Seconds(), orZero(c.LongestRun)))
}

// checkFit decides whether one node is large enough, and fills in the waits of comparable jobs.
func (c *nodeClass) checkFit(q wire.FitQuery) {
	slices.Sort(c.Partitions)
	slices.Sort(c.waits)
	if c.Comparable = len(c.waits); c.Comparable > 0 {
		c.WaitP50 = new(c.waits[(c.Comparable-1)/2])
		c.WaitP90 = new(c.waits[int(0.9*float64(c.Comparable-1))])
	}
	var small, unknown []string
	for _, x := range []struct {
		name   string
		amount float64
		has    *float64
		exact  bool
	}{{"cores", q.Cores, c.Cores, true}, {"memory", q.MemoryBytes, c.MemoryBytes, true}, {"GPUs", q.GPUs, c.GPUs, c.gpusKnown}} {
		switch {
		case x.amount <= 0:
		case x.has != nil && *x.has >= x.amount:
		case x.has == nil || !x.exact:
			unknown = append(unknown, x.name)
		default:
			small = append(small, x.name)
		}
	}
	fits := true
	switch {
	case c.unscheduled:
		fits = false
		c.Fits, c.Why = &fits, "in no partition"
	case len(small) > 0:
		fits = false
		c.Fits, c.Why = &fits, "too few or too little: "+strings.Join(small, ", ")
	case len(unknown) > 0:
		c.Why = "unknown capacity: " + strings.Join(unknown, ", ")
	case c.Up != nil && *c.Up == 0:
		fits = false
		c.Fits, c.Why = &fits, "no node is up"
	default:
		c.Fits = &fits
	}
}

// comparePlaces orders places. Places that fit come first, then those with more free capacity, with a shorter wait, and
// with smaller nodes. Larger nodes thus stay free.
func comparePlaces(a, b wire.Place) int {
	rank := func(p *wire.Place) int {
		switch {
		case p.Fits == nil:
			return 1
		case *p.Fits:
			return 0
		}
		return 2
	}
	full := func(p *wire.Place) int {
		if p.FreeNow != nil && *p.FreeNow > 0 {
			return 0
		}
		return 1
	}
	wait := func(p *wire.Place) float64 {
		if p.WaitP50 == nil {
			return math.Inf(1)
		}
		return *p.WaitP50
	}
	return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(full(&a), full(&b)), cmp.Compare(wait(&a), wait(&b)),
		cmp.Compare(orZero(a.Cores), orZero(b.Cores)), cmp.Compare(orZero(a.MemoryBytes), orZero(b.MemoryBytes)),
		cmp.Compare(a.Site, b.Site))
}
