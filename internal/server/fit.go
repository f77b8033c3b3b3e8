package server

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
	"reckon/web/api"
)

// fit answers where a job would fit, from what nodes are and what jobs on them waited.
type fit struct {
	nodes func(ctx context.Context, now time.Time) ([]client.Node, error)
	facts store.Catalogue
	clock func() time.Time
}

var _ api.Fit = (*fit)(nil)

// class is nodes that are alike. Memory that differs by less than a sixteenth is alike:
// what the kernel keeps for itself differs.
type class struct {
	client.Place
	waits []float64
}

// Fit implements api.Fit.
func (f *fit) Fit(ctx context.Context, q client.FitQuery) (client.FitList, error) {
	now := f.clock()
	nodes, err := f.nodes(ctx, now)
	if err != nil {
		return client.FitList{}, err
	}
	classes := map[string]*class{}
	of := map[string]*class{} // by site and node
	for i := range nodes {
		n := &nodes[i]
		k := fmt.Sprint(n.Site, "|", figure(n.Cores), "|", math.Round(16*math.Log2(max(figure(n.MemoryBytes), 1))))
		c := classes[k]
		if c == nil {
			c = &class{Place: client.Place{Site: n.Site, Cores: n.Cores, MemoryBytes: n.MemoryBytes, Partitions: []string{}}}
			classes[k] = c
		}
		of[n.Site+"|"+n.Node] = c
		c.Nodes++
		if n.Up {
			c.Up++
			if room(n, q) {
				c.FreeNow++
			}
		}
	}
	rows, _, err := f.facts.Workloads(ctx, store.Filter{Since: now.AddDate(0, 0, -30), Until: now, Sort: "-start", Limit: comparedJobs})
	if err != nil {
		return client.FitList{}, err
	}
	for i := range rows {
		f.compare(&rows[i], q, of)
	}
	list := client.FitList{Places: make([]client.Place, 0, len(classes))}
	for _, c := range classes {
		c.judge(q)
		list.Places = append(list.Places, c.Place)
	}
	slices.SortFunc(list.Places, better)
	return list, nil
}

// comparedJobs is how many jobs, the latest first, are looked through.
const comparedJobs = 50_000

func figure(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// room reports whether a node has what is asked for, unused at this moment. GPUs are
// not counted on nodes yet: with them nothing is promised.
func room(n *client.Node, q client.FitQuery) bool {
	if n.Cores == nil || n.CoresUsed == nil || n.MemoryBytes == nil || n.MemoryUsed == nil || q.GPUs > 0 {
		return false
	}
	return *n.Cores-*n.CoresUsed >= q.Cores && *n.MemoryBytes-*n.MemoryUsed >= q.MemoryBytes
}

// compare takes a job into the class of its nodes, if it asked for about as much: half
// to twice of each amount that both name.
func (f *fit) compare(w *store.Workload, q client.FitQuery, of map[string]*class) {
	if len(w.Nodes) == 0 {
		return
	}
	c := of[w.Site+"|"+w.Nodes[0]]
	if c == nil {
		return
	}
	if w.Partition != "" && !slices.Contains(c.Partitions, w.Partition) {
		c.Partitions = append(c.Partitions, w.Partition)
	}
	if gpus := figure(w.RequestGPUs); gpus > 0 {
		c.GPUs = at(max(gpus/float64(len(w.Nodes)), figure(c.GPUs))) // at least so many were given
	}
	for _, x := range []struct {
		asked float64
		had   *float64
	}{{q.Cores, w.RequestCores}, {q.MemoryBytes, w.RequestMemoryBytes}, {q.GPUs, w.RequestGPUs}} {
		if x.asked > 0 && (x.had == nil || *x.had < x.asked/2 || *x.had > 2*x.asked) {
			return
		}
	}
	end := w.End
	if end.IsZero() {
		end = w.Seen
	}
	ran := end.Sub(w.Start)
	if w.Submit.IsZero() || w.Start.Before(w.Submit) || (q.Time > 0 && ran > 2*q.Time) {
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
	}{{"cores", q.Cores, c.Cores, true}, {"memory", q.MemoryBytes, c.MemoryBytes, true}, {"GPUs", q.GPUs, c.GPUs, false}} {
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
	case len(small) > 0:
		fits = false
		c.Fits, c.Why = &fits, "too few or too little: "+strings.Join(small, ", ")
	case len(unknown) > 0:
		c.Why = "not known how much it has: " + strings.Join(unknown, ", ")
	case c.Up == 0:
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
		if p.FreeNow > 0 {
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
