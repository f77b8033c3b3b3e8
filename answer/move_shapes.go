package answer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"reckon/analysis/move"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/internal/quantiles"
	"reckon/query"
	"reckon/store"
	"reckon/workload"
)

// shapeKey identifies the nodes of one kind in a partition. class is empty if the file of shapes describes the
// partition. partition is empty for machines without a batch system.
type shapeKey struct{ site, partition, class string }

// moveShapes holds the kinds of nodes and their use by the runs of the period.
type moveShapes struct {
	shapes []move.Shape
	places []movePlace // of each shape
	at     map[shapeKey]int
	nodes  map[nodeName]*moveNode
	file   map[[2]string]*fileShape
	inFile map[nodeName]string // partition of a node; for a node without a name, the only partition of the site
	limits map[[2]string]float64
	sites  map[string][2]int // first and last hour with a run
}

// movePlace is the evidence of runs about a shape.
type movePlace struct {
	names         []string // of its nodes
	in            map[string]bool
	taken         [][2]float64 // core- and GPU-seconds of each hour
	waits         [][3]float64 // cores, GPUs and seconds of each job that began in the last 30 days
	runs, wholes  int          // with a known allocation; those that hold whole nodes
	joules, hours float64
}

// moveNode describes a node.
type moveNode struct {
	cores, memory, gpus, gpuMemory *float64
	vendor                         string
	fast                           *bool
	measured                       bool // how busy its GPUs are
	counted                        bool // its batch system reports how many it has
	partitions                     []string
}

// readShapes reads nodes and partitions as of the end of the period.
func (g *moveQuestion) readShapes(ctx context.Context, file []fileShape) error {
	g.moveShapes = moveShapes{at: map[shapeKey]int{}, nodes: map[nodeName]*moveNode{}, file: map[[2]string]*fileShape{},
		inFile: map[nodeName]string{}, limits: map[[2]string]float64{}, sites: map[string][2]int{}}
	count := map[string]int{}
	for i := range file {
		f := &file[i]
		g.file[[2]string{f.Site, f.Partition}] = f
		count[f.Site]++
		for _, n := range append(f.names, "") {
			g.inFile[nodeName{f.Site, n}] = f.Partition
		}
	}
	for i := range file {
		f := &file[i]
		if count[f.Site] > 1 {
			delete(g.inFile, nodeName{site: f.Site})
		}
		g.shapeIndex(shapeKey{f.Site, f.Partition, ""})
	}
	err := g.Views.PartitionLimits(ctx, g.until,
		func(site, partition string, seconds float64) { g.limits[[2]string{site, partition}] = seconds })
	if err == nil {
		err = g.readNodes(ctx)
	}
	if err != nil {
		return err
	}
	at, err := g.Partitions.readSnapshots(ctx, g.from, g.until)
	if k := len(at.what); err == nil && k > 0 {
		for _, p := range at.what[k-1] {
			if n := g.findNode(p.Site, p.Node); !slices.Contains(n.partitions, p.Name) {
				n.partitions = append(n.partitions, p.Name)
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(g.nodes), func(a, b nodeName) int {
		return cmp.Or(strings.Compare(a.site, b.site), strings.Compare(a.node, b.node))
	}) {
		n := g.nodes[k]
		if len(n.partitions) == 0 {
			n.partitions = []string{cmp.Or(g.inFile[k], g.inFile[nodeName{site: k.site}])}
		}
		for _, p := range n.partitions {
			g.addNode(g.shapeIndex(g.nodeShapeKey(k.site, p, n)), k.node)
		}
	}
	return err
}

// readNodes reads the resources of nodes from their hours, their last reports and their batch system's, and their GPUs.
func (g *moveQuestion) readNodes(ctx context.Context) error {
	rows, err := g.Rollups.NodeUse(ctx, store.RollupQuery{From: g.from, To: g.until, Span: store.SpanWhole, By: []string{"site", "node"}})
	if err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		n := g.findNode(r.Site, r.Node)
		n.cores, n.memory = figure.Ratio(r.CoreSeconds, r.UpSeconds), figure.Ratio(r.NodeMemoryByteSeconds, r.UpSeconds)
	}
	list, _, err := g.Views.NodesAsOf(ctx, g.until)
	if err != nil {
		return err
	}
	for i := range list {
		x := &list[i]
		n := g.findNode(x.Site, x.Node)
		n.cores, n.memory = cmp.Or(x.Cores, n.cores), cmp.Or(x.MemoryBytes, n.memory)
		if b := x.Batch; b != nil {
			n.cores, n.memory, n.gpus, n.partitions = cmp.Or(b.Cores, n.cores), cmp.Or(b.MemoryBytes, n.memory), b.GPUs, b.Partitions
			if b.GPUs == nil && b.Cores != nil {
				n.gpus = new(float64) // its resources are listed
			}
			n.counted = orZero(b.GPUs) > 0
		}
		if x.InterconnectBytes != nil {
			n.fast = new(true)
		}
	}
	return g.Views.GPUNodes(ctx, g.from, g.until, func(x query.NodeGPUs) {
		n := g.findNode(x.Site, x.Node)
		if !n.counted {
			n.gpus = new(orZero(n.gpus) + x.Devices)
		}
		n.vendor, n.gpuMemory = cmp.Or(x.Vendor, n.vendor), cmp.Or(x.MemoryBytes, n.gpuMemory)
		n.measured = n.measured || x.Measured
	})
}

func (g *moveQuestion) findNode(site, name string) *moveNode {
	k := nodeName{site, name}
	if g.nodes[k] == nil {
		g.nodes[k] = &moveNode{}
	}
	return g.nodes[k]
}

// nodeShapeKey returns the key of a node in a partition. Nodes of a class are alike; memory may differ by the kernel's reservation.
func (g *moveQuestion) nodeShapeKey(site, partition string, n *moveNode) shapeKey {
	if g.file[[2]string{site, partition}] != nil {
		return shapeKey{site, partition, ""}
	}
	memory := math.Round(4 * math.Log2(max(orZero(n.memory), 1)))
	return shapeKey{site, partition, fmt.Sprint(orZero(n.cores), "|", memory, "|", orZero(n.gpus), n.vendor)}
}

// shapeIndex returns the index of a shape, and creates a new one if necessary.
func (g *moveQuestion) shapeIndex(k shapeKey) int {
	i, ok := g.at[k]
	if !ok {
		i = len(g.shapes)
		s := move.Shape{Site: k.site, Partition: k.partition}
		if f := g.file[[2]string{k.site, k.partition}]; f != nil {
			s = f.Shape
		}
		s.Bare = k.partition == ""
		if limit, ok := g.limits[[2]string{k.site, k.partition}]; ok {
			s.MaxTime = cmp.Or(s.MaxTime, &limit)
		}
		g.at[k], g.shapes, g.places = i, append(g.shapes, s), append(g.places, movePlace{})
	}
	return i
}

// addNode adds a node to a shape and merges the node's known figures. It does not count the node if the file gives the
// number.
func (g *moveQuestion) addNode(i int, name string) {
	s, p := &g.shapes[i], &g.places[i]
	if name == "" || p.in[name] {
		return
	}
	if p.in == nil {
		p.in = map[string]bool{}
	}
	p.names, p.in[name] = append(p.names, name), true
	if f := g.file[[2]string{s.Site, s.Partition}]; f == nil || f.Nodes == 0 {
		s.Nodes++
	}
	if n := g.nodes[nodeName{s.Site, name}]; n != nil {
		s.Cores, s.Memory, s.GPUs = cmp.Or(s.Cores, n.cores), cmp.Or(s.Memory, n.memory), cmp.Or(s.GPUs, n.gpus)
		s.GPUMemory, s.FastNetwork, s.Vendor = cmp.Or(s.GPUMemory, n.gpuMemory), cmp.Or(s.FastNetwork, n.fast), cmp.Or(s.Vendor, n.vendor)
	}
}

// runShape returns the shape that a run ran on; -1 if unknown.
func (g *moveQuestion) runShape(r *store.Workload) int {
	if len(r.Nodes) == 0 && r.Partition == "" {
		return -1
	}
	name, n := "", &moveNode{}
	if len(r.Nodes) > 0 {
		name = r.Nodes[0]
		host, _, _ := strings.Cut(name, ".")
		n = cmp.Or(g.nodes[nodeName{r.Site, name}], g.nodes[nodeName{r.Site, host}], n)
	}
	part, batch := r.Partition, workload.Kind(r.Kind).Batch()
	if !batch {
		part = cmp.Or(g.inFile[nodeName{r.Site, name}], g.inFile[nodeName{site: r.Site}])
	}
	i := g.shapeIndex(g.nodeShapeKey(r.Site, part, n))
	g.addNode(i, name)
	g.shapes[i].Bare = g.shapes[i].Bare || !batch && len(n.partitions) < 2
	return i
}

// countRun counts the hourly use, the wait and the power of a run for its shape.
func (g *moveQuestion) countRun(r *store.Workload, run *move.Run) {
	p, inside, hours := &g.places[run.Shape], g.durationInPeriod(r), int(g.until.Sub(g.from)/time.Hour)+1
	if p.taken == nil {
		p.taken = make([][2]float64, hours)
	}
	gpus := run.GPUs
	if run.Given == nil {
		gpus = orZero(run.GPUBusy)
	}
	since := max(r.Start.Sub(g.from), 0)
	first, last := int(since/time.Hour), min(int((since+inside)/time.Hour), hours-1)
	for h := first; h <= last; h++ {
		begin := time.Duration(h) * time.Hour
		share := (min(since+inside, begin+time.Hour) - max(since, begin)).Seconds() / max(inside.Seconds(), 1)
		p.taken[h][0] += 3600 * run.Hours * share
		p.taken[h][1] += gpus * inside.Seconds() * share
	}
	span, ok := g.sites[r.Site]
	if !ok {
		span = [2]int{first, last}
	}
	g.sites[r.Site] = [2]int{min(span[0], first), max(span[1], last)}
	if run.Given == nil {
		return
	}
	if run.Wait != nil && run.Start.After(g.until.Add(-movePeriod)) {
		p.waits = append(p.waits, [3]float64{*run.Given, run.GPUs, *run.Wait})
	}
	if p.runs++; *run.Given >= 0.95*orZero(g.shapes[run.Shape].Cores)*run.Nodes {
		p.wholes++
	}
	if j := run.JoulesPerCoreHour; j != nil {
		p.joules, p.hours = p.joules+*j*run.Hours, p.hours+run.Hours
	}
}

// medianWait returns the median wait of jobs of half to twice the size in a partition.
func (g *moveQuestion) medianWait(s int, cores, gpus float64) *move.Wait {
	var list []float64
	about := func(v, of float64) bool { return v >= of/2 && v <= of*2 }
	for i := range g.shapes {
		if g.shapes[i].Site != g.shapes[s].Site || g.shapes[i].Partition != g.shapes[s].Partition {
			continue // all kinds of nodes of a partition have one queue
		}
		for _, w := range g.places[i].waits {
			if about(w[0], cores) && (gpus == 0 || about(w[1], gpus)) {
				list = append(list, w[2])
			}
		}
	}
	if len(list) < move.LeastRuns {
		return nil
	}
	slices.Sort(list)
	return &move.Wait{Seconds: quantiles.Nearest(list, 0.5), Jobs: len(list), Source: move.ByJobs}
}

// setRunFigures sets the figures of shapes that come from runs.
func (g *moveQuestion) setRunFigures() {
	var memory, perCore []float64 // of nodes without GPUs
	for i := range g.shapes {
		s, p := &g.shapes[i], &g.places[i]
		if s.GPUs == nil && s.Cores != nil && !slices.ContainsFunc(p.taken, func(t [2]float64) bool { return t[1] > 0 }) {
			s.GPUs = new(float64) // none reported, and no run was given any
		}
		s.Whole = s.Cores != nil && p.runs >= move.LeastRuns && float64(p.wholes) >= 0.95*float64(p.runs)
		s.JoulesPerCoreHour = figure.Ratio(&p.joules, &p.hours)
		for range int(s.Nodes) {
			if s.Memory != nil && orZero(s.Cores) > 0 && orZero(s.GPUs) == 0 {
				memory, perCore = append(memory, *s.Memory), append(perCore, *s.Memory / *s.Cores)
			}
		}
	}
	slices.Sort(memory)
	slices.Sort(perCore)
	for i := range g.shapes {
		s := &g.shapes[i]
		s.Large = s.Memory != nil && s.Cores != nil && *s.Memory >= 2*quantiles.Nearest(memory, 0.5) &&
			*s.Memory / *s.Cores >= 2*quantiles.Nearest(perCore, 0.5)
		s.Busy = g.busyShare(i)
	}
}

// busyShare returns the share of hours in which more than half of the cores or GPUs of shape s were used. For nodes in
// several partitions, it counts the runs of all of them.
func (g *moveQuestion) busyShare(s int) *float64 {
	x := &g.shapes[s]
	span, known := g.sites[x.Site]
	if !known || x.Cores == nil || x.Nodes <= 0 {
		return nil
	}
	taken := make([][2]float64, span[1]+1)
	for t := range g.places {
		names, both := g.places[t].names, 0.0
		for _, n := range names {
			if g.shapes[t].Site == x.Site && g.places[s].in[n] {
				both++
			}
		}
		part := both / float64(max(len(names), 1)) // part of a shape's use on the nodes of this one
		if t == s {
			part = 1
		}
		for h := span[0]; part > 0 && g.shapes[t].Site == x.Site && h < min(len(taken), len(g.places[t].taken)); h++ {
			taken[h][0], taken[h][1] = taken[h][0]+part*g.places[t].taken[h][0], taken[h][1]+part*g.places[t].taken[h][1]
		}
	}
	busy, gpus := 0.0, orZero(x.GPUs)
	for _, t := range taken[span[0]:] {
		if half := x.Nodes * 1800; t[0] > half**x.Cores || gpus > 0 && t[1] > half*gpus {
			busy++
		}
	}
	return new(busy / float64(len(taken)-span[0]))
}

// placeName returns the display name of a shape: its partition or nodes, and its cluster if that is not home.
func (g *moveQuestion) placeName(i int, home string) string {
	s, names := &g.shapes[i], g.places[i].names
	name := cmp.Or(s.Partition, strings.Join(names[:min(len(names), 3)], ","))
	if s.Partition == "" && len(names) > 3 {
		name += fmt.Sprintf(" and %d more", len(names)-3)
	}
	if s.Site != home && s.Site != "" {
		name += " of " + s.Site
	}
	return name
}

// toWireMove converts the judgement of a work for the API.
func (g *moveQuestion) toWireMove(w *move.Work, r *move.Result) wire.Move {
	out := wire.Move{Owner: w.Owner, Name: w.Name, Rule: r.Rule, Runs: len(w.Runs), Hours: r.Hours, GPUHours: r.GPUHours,
		Jobs: append([]string{}, r.Top...), Unknown: []string{}}
	if r.From >= 0 {
		out.Site = g.shapes[r.From].Site
		out.From = g.placeName(r.From, out.Site)
	}
	said := r.Explain(w, g.shapes, func(i int) string { return g.placeName(i, out.Site) }, g.from, g.until)
	out.Why, out.Unknown, out.Text = said.Why, append(out.Unknown, said.Unknown...), said.Letter
	if r.Rule != "" {
		out.Share = &r.Share
	}
	if r.Here != nil && r.Here.Source == move.ByJobs {
		out.WaitHere, out.WaitHereRuns = &r.Here.Seconds, r.Here.Jobs
	}
	if r.To < 0 {
		return out
	}
	to := &g.shapes[r.To]
	out.ToSite, out.To, out.FreedCoreHours, out.FreedGPUHours = to.Site, to.Partition, r.FreedCores, r.FreedGPUs
	out.WaitThere, out.WaitThereRuns, out.WaitThereSource = &r.There.Seconds, r.There.Jobs, r.There.Source
	if to.JoulesPerCoreHour != nil && r.JoulesHere != nil {
		out.JoulesHere, out.JoulesThere = r.JoulesHere, to.JoulesPerCoreHour
	}
	return out
}
