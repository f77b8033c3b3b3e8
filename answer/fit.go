package answer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"reckon/client"
	"reckon/store"
)

// Fit answers where a job would fit, from what nodes are and what jobs on them waited.
type Fit struct {
	Views NodeViews
	Waits store.Waits
	// Rollups tell what nodes there were lately while the series are away; Outage is nil
	// where they never are.
	Rollups NodeUse
	Outage  *Outage
	Clock   func() time.Time
}

// NodeUse tells what nodes had and what was used of it; store.Rollups has it.
type NodeUse interface {
	NodeUse(ctx context.Context, q store.RollupQuery) ([]store.NodeUse, error)
}

// fitMemory is how long ago nodes may have been up that are known from the past only.
const fitMemory = 7 * 24 * time.Hour

// before is the nodes of the last days, of which it is not known what they do now.
func (f *Fit) before(ctx context.Context, now time.Time) ([]client.Node, error) {
	if f.Rollups == nil {
		return nil, nil
	}
	rows, err := f.Rollups.NodeUse(ctx, store.RollupQuery{From: now.Add(-fitMemory), To: now, Span: store.SpanWhole, By: []string{"site", "node"}})
	nodes := make([]client.Node, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		nodes = append(nodes, client.Node{Site: r.Site, Node: r.Node, Agent: true, Cores: over(r.CoreSeconds, r.UpSeconds), MemoryBytes: over(r.NodeMemoryByteSeconds, r.UpSeconds)})
	}
	return nodes, err
}

// class is nodes that are alike. Memory that differs by less than a sixteenth is alike:
// what the kernel keeps for itself differs.
type class struct {
	client.Place
	gpus bool // it is known how many there are
	// outside is whether the batch system of the site gives none of the nodes out: it is
	// where people log in, or services run.
	outside bool
	waits   []float64

	up, free int // nodes
}

// Fit lists classes of nodes that are alike, the best place first.
func (f *Fit) Fit(ctx context.Context, q client.FitQuery) (client.FitList, error) {
	now := f.Clock()
	var list client.FitList
	nodes, err := f.Views.Nodes(ctx, now)
	if err := f.Outage.lacks(&list.Missing, "which nodes are up, in which partitions, and what is free on them", err); err != nil {
		return client.FitList{}, err
	}
	present := err == nil
	if !present {
		if nodes, err = f.before(ctx, now); err != nil {
			return client.FitList{}, err
		}
	}
	given := map[string]bool{} // sites of which a batch system gives nodes out
	for i := range nodes {
		if b := nodes[i].Batch; b != nil && len(b.Partitions) > 0 {
			given[nodes[i].Site] = true
		}
	}
	classes := map[string]*class{}
	of := map[string]*class{} // by site and node
	for i := range nodes {
		n := &nodes[i]
		// What a batch system gives out counts, not what the kernel sees.
		cores, memory := n.Cores, n.MemoryBytes
		if n.Batch != nil && n.Batch.Cores != nil && n.Batch.MemoryBytes != nil {
			cores, memory = n.Batch.Cores, n.Batch.MemoryBytes
		}
		k := fmt.Sprint(n.Site, "|", figure(cores), "|", math.Round(16*math.Log2(max(figure(memory), 1))), "|", known(n.GPUs))
		outside := given[n.Site] && (n.Batch == nil || len(n.Batch.Partitions) == 0)
		if outside {
			k += "|outside"
		}
		c := classes[k]
		if c == nil {
			c = &class{Place: client.Place{Site: n.Site, Cores: cores, MemoryBytes: memory, GPUs: n.GPUs, Partitions: []string{}}, gpus: n.GPUs != nil, outside: outside}
			classes[k] = c
		}
		if n.Batch != nil {
			c.take(n.Batch.Partitions...)
		}
		of[n.Site+"|"+n.Node] = c
		c.Nodes++
		if n.Up {
			c.up++
			if !outside && hasRoom(n, q) {
				c.free++
			}
		}
	}
	alike := func(asked float64) *store.Range {
		if asked <= 0 {
			return nil
		}
		return &store.Range{Low: asked / 2, High: 2 * asked}
	}
	// Half to twice of each amount that both name.
	wq := store.WaitQuery{Since: now.AddDate(0, 0, -30), Until: now, Begun: true, Cores: alike(q.Cores), MemoryBytes: alike(q.MemoryBytes), GPUs: alike(q.GPUs)}
	err = f.Waits.Waits(ctx, wq, func(w *store.Wait) error {
		f.compare(w, q, of)
		return nil
	})
	if err != nil {
		return client.FitList{}, err
	}
	list.Places = make([]client.Place, 0, len(classes))
	for _, c := range classes {
		if present {
			c.Up, c.FreeNow = &c.up, &c.free
		}
		c.judge(q)
		list.Places = append(list.Places, c.Place)
	}
	slices.SortFunc(list.Places, better)
	return list, nil
}

// take adds partitions.
func (c *class) take(partitions ...string) {
	for _, p := range partitions {
		if p != "" && !slices.Contains(c.Partitions, p) {
			c.Partitions = append(c.Partitions, p)
		}
	}
}

// known tells a figure that is not known from 0.
func known(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprint(*v)
}

func figure(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// hasRoom reports whether a node has what is asked for, free at this moment: held by no job
// where a batch system gives the node out, else unused.
func hasRoom(n *client.Node, q client.FitQuery) bool {
	r := room{ok: true}
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
			r.gpus = at(*b.GPUs - *b.GPUsHeld)
		}
	case n.Cores == nil || n.CoresUsed == nil || n.MemoryBytes == nil || n.MemoryUsed == nil:
		return false
	default: // which GPUs are free nobody says: with them nothing is promised
		r.cores, r.memory = *n.Cores-*n.CoresUsed, *n.MemoryBytes-*n.MemoryUsed
	}
	return (&demand{cores: q.Cores, memory: q.MemoryBytes, gpus: q.GPUs}).fits(&r)
}

// compare takes a job, which asked for about as much, into the class of its nodes.
func (f *Fit) compare(w *store.Wait, q client.FitQuery, of map[string]*class) {
	if len(w.Nodes) == 0 {
		return
	}
	c := of[w.Site+"|"+w.Nodes[0]]
	if c == nil {
		return
	}
	c.take(w.Partition)
	if gpus := figure(w.RequestGPUs); gpus > 0 && !c.gpus {
		c.GPUs = at(max(gpus/float64(len(w.Nodes)), figure(c.GPUs))) // at least so many were given
	}
	ran := w.End.Sub(w.Start)
	if w.Start.Before(w.Submit) || (q.Time > 0 && ran > 2*q.Time) {
		return
	}
	c.waits = append(c.waits, w.Start.Sub(w.Submit).Seconds())
	c.LongestRun = at(max(ran.Seconds(), figure(c.LongestRun)))
}

func at(v float64) *float64 { return &v }

// judge says whether one node is big enough, and what jobs waited.
func (c *class) judge(q client.FitQuery) {
	slices.Sort(c.Partitions)
	slices.Sort(c.waits)
	if c.Comparable = len(c.waits); c.Comparable > 0 {
		c.WaitP50 = at(c.waits[(c.Comparable-1)/2])
		c.WaitP90 = at(c.waits[int(0.9*float64(c.Comparable-1))])
	}
	var small, unknown []string
	for _, x := range []struct {
		what  string
		asked float64
		has   *float64
		exact bool
	}{{"cores", q.Cores, c.Cores, true}, {"memory", q.MemoryBytes, c.MemoryBytes, true}, {"GPUs", q.GPUs, c.GPUs, c.gpus}} {
		switch {
		case x.asked <= 0:
		case x.has != nil && *x.has >= x.asked:
		case x.has == nil || !x.exact:
			unknown = append(unknown, x.what)
		default:
			small = append(small, x.what)
		}
	}
	fits := true
	switch {
	case c.outside:
		fits = false
		c.Fits, c.Why = &fits, "in no partition"
	case len(small) > 0:
		fits = false
		c.Fits, c.Why = &fits, "too few or too little: "+strings.Join(small, ", ")
	case len(unknown) > 0:
		c.Why = "not known how much it has: " + strings.Join(unknown, ", ")
	case c.Up != nil && *c.Up == 0:
		fits = false
		c.Fits, c.Why = &fits, "no node is up"
	default:
		c.Fits = &fits
	}
}

// better orders places: those that fit, those with room now, those with the shorter
// wait, the smaller nodes, which leave the bigger ones to who needs them.
func better(a, b client.Place) int {
	rank := func(p *client.Place) int {
		switch {
		case p.Fits == nil:
			return 1
		case *p.Fits:
			return 0
		}
		return 2
	}
	full := func(p *client.Place) int {
		if p.FreeNow != nil && *p.FreeNow > 0 {
			return 0
		}
		return 1
	}
	wait := func(p *client.Place) float64 {
		if p.WaitP50 == nil {
			return math.Inf(1)
		}
		return *p.WaitP50
	}
	return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(full(&a), full(&b)), cmp.Compare(wait(&a), wait(&b)),
		cmp.Compare(figure(a.Cores), figure(b.Cores)), cmp.Compare(figure(a.MemoryBytes), figure(b.MemoryBytes)), cmp.Compare(a.Site, b.Site))
}
