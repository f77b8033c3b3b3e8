package answer

import (
	"cmp"
	"context"
	"maps"
	"math"
	"path"
	"slices"
	"time"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/store"
	"reckon/workload"
)

// Hours are stored by site, kind, owner, account, partition and program, and by node. Other properties of a run (QOS,
// size, length, nodes) are known only per run. Usage by those is the hourly usage divided among the runs of that hour:
// allocations by their facts, to the second, and use by the total of each run, spread evenly over its time. Sums always
// equal the hourly ones. Starts and waits are counted from the runs.

// Runs reads the runs that hours are made of; implemented by store.Facts.
type Runs interface {
	EachRun(ctx context.Context, q store.RunQuery, next func(*store.Workload)) error
}

// maxNodeOwners is the number of owners of a node that have their own row; the rest are "other".
const maxNodeOwners = 200

// needsRuns reports whether the query needs dimensions that hours do not have.
func needsRuns(q wire.UsageQuery) bool {
	node, others := slices.Contains(q.By, "node"), len(q.Owners)+len(q.Accounts)+len(q.Partitions)+len(q.Kinds) > 0 || q.Command != ""
	for _, by := range q.By {
		if slices.Index(wire.UsageDimensions(), by) >= dimQOS {
			return true
		}
		others = others || by != "node" && by != "site"
	}
	return (node || len(q.Nodes) > 0) && (others || !node)
}

// runSum adds up the allocations and use of the runs of one group in one stretch of time.
type runSum struct {
	usageKey
	seconds float64 // of runs
	spread  float64 // of the CPU time, the time of runs that reach beyond the stretch or their node
	has     uint32  // the known figures, a bit each
	parts   bool    // some run was on other nodes too
	v       [figure.UsedLen]float64
}

func (s *runSum) addFigure(i int, v *float64, times float64) {
	if v != nil {
		s.v[i] += *v * times
		s.has |= 1 << i
	}
}

// Figures of hours by their numbers, and the figures of a run that they are sums of.
var (
	hourOf = func(key string) int { return figure.Index(figure.Hours, key) }

	usedCPU, usedCores, usedMemory, usedGPUs = hourOf("cpu_seconds"), hourOf("held_core_seconds"),
		hourOf("held_memory_byte_seconds"), hourOf("held_gpu_seconds")
	usedStarted, usedWaited, usedWait, usedWaitCores = hourOf("started"), hourOf("waited"), hourOf("wait_seconds"),
		hourOf("wait_core_seconds")
	usedSpread, usedEstimated = hourOf("cpu_interpolated_seconds"), hourOf("held_estimated_core_seconds")

	// spreading lists the figures common to hours and runs, by both numbers, and runKeys the figures read from runs.
	spreading, runKeys = func() (numbers [][2]int, keys []string) {
		for i, f := range figure.InScope(figure.Hours) {
			if at := figure.Index(figure.Runs, f.Key); at >= 0 {
				numbers, keys = append(numbers, [2]int{i, at}), append(keys, f.Key)
			}
		}
		return numbers, append(keys, "allocated_cores", "allocated_memory_bytes", "allocated_gpus", "request_cores", "request_memory_bytes",
			"request_gpus", "suspended_seconds")
	}()
)

// countsStarts reports whether a figure counts starts and waits.
func countsStarts(i int) bool { return i >= usedStarted && i <= usedWaitCores }

// runSums sums up runs by stretches of time and groups.
type runSums struct {
	from, to time.Time
	span     store.Span
	by       []int // dimensions that are distinguished
	nodes    bool  // nodes are
	projects map[string]string
	texts    *usageTexts
	sums     []*runSum
	room     []runSum // for the next ones
	slots    []uint64 // a hash table of places in the sums, from 1, each with the hash of its key
}

// stretchEnd returns the end of the stretch that contains a time, limited to the end of all.
func (r *runSums) stretchEnd(at time.Time) time.Time {
	end := r.to
	switch begin := store.SpanStart(r.span, at); r.span {
	case store.SpanHour, store.SpanHourOfWeek:
		end = at.Truncate(time.Hour).Add(time.Hour)
	case store.SpanDay:
		end = begin.AddDate(0, 0, 1)
	case store.SpanWeek:
		end = begin.AddDate(0, 0, 7)
	case store.SpanMonth:
		end = begin.AddDate(0, 1, 0)
	}
	return store.Earlier(end, r.to)
}

// addRun adds a run, on each of its nodes if nodes are distinguished.
func (r *runSums) addRun(w *store.Workload) {
	if !w.Began() {
		return
	}
	k, end, at := r.runKey(w), w.End, w.Start
	if end.IsZero() {
		end = w.Seen
	}
	wall := end.Sub(at).Seconds()
	if at.Before(r.from) {
		at = r.from
	}
	for begun := at.Equal(w.Start); at.Before(r.to) && (at.Before(end) || begun); begun = false { // a run without length also began
		until, share := store.Earlier(r.stretchEnd(at), end), 1.0
		if wall > 0 {
			share = until.Sub(at).Seconds() / wall
		}
		if r.span != store.SpanWhole {
			k.from = store.SpanStart(r.span, at).UnixMilli()
		}
		nodes := w.Nodes
		if !r.nodes {
			nodes = nil
		}
		parts := max(len(nodes), 1) // without known nodes, in a row without a node
		for i := range parts {
			if k.of[dimNode] = 0; i < len(nodes) {
				k.of[dimNode] = r.texts.textNumber(nodes[i])
			}
			sum := r.sumFor(&k)
			if sum.addOverlap(w, at, until, share, parts); i == 0 && at.Equal(w.Start) {
				sum.addStart(w)
			}
		}
		at = until
	}
}

// runKey returns the values of a run in the dimensions, except for the node.
func (r *runSums) runKey(w *store.Workload) (k usageKey) {
	words := [...]string{dimOwner: w.Owner, dimAccount: w.Account, dimPartition: w.Partition, dimNode: "", dimCommand: w.Command,
		dimKind: w.Kind, dimSite: w.Site, dimQOS: w.QOS}
	if w.Account == "" {
		words[dimAccount] = r.projects[w.Owner]
	}
	for _, n := range r.by {
		if n < len(words) {
			k.of[n] = r.texts.textNumber(words[n])
		} else {
			k.of[n] = r.texts.textNumber(classOfRun(w, n))
		}
	}
	return k
}

// classOfRun returns the class of a run in a dimension. A row that sums many runs has no size.
func classOfRun(w *store.Workload, dim int) string {
	cores, _ := w.GivenCores()
	gpus, _ := w.GivenGPUs()
	switch {
	case workload.Kind(w.Kind).Sum():
	case dim == dimLength && w.End.IsZero():
		return stillRunning
	case dim == dimLength:
		return className(runLengths, w.End.Sub(w.Start).Seconds())
	case dim == dimGPUs && gpus != nil:
		return className(gpuClasses, *gpus)
	case dim == dimGPUs && cores != nil:
		return gpuClasses[0].name // none if no GPU was reported
	case cores != nil:
		return className(coreClasses, *cores)
	}
	return ""
}

// sumFor returns the sum for a key. It uses a custom hash table, because a map with such keys takes twice the time.
func (r *runSums) sumFor(k *usageKey) *runSum {
	hash := r.hashKey(k)
	at := r.findSlot(hash, k)
	if r.slots[at] == 0 {
		if len(r.room) == 0 {
			r.room = make([]runSum, 64)
		}
		r.room[0].usageKey = *k
		r.sums, r.room = append(r.sums, &r.room[0]), r.room[1:]
		if r.slots[at] = hash | uint64(len(r.sums)); 2*len(r.sums) > len(r.slots) {
			old := r.slots
			r.slots = make([]uint64, 2*len(old))
			for _, x := range old {
				if x != 0 {
					r.slots[r.findSlot(x&hashBits, nil)] = x
				}
			}
			return r.sums[len(r.sums)-1]
		}
	}
	return r.sums[uint32(r.slots[at])-1]
}

// hashBits are the bits of a hash that the table stores above the number of a sum, so that most other sums need not be compared.
const hashBits = uint64(math.MaxUint32) << 32

// hashKey returns the hash of a key, in those bits.
func (r *runSums) hashKey(k *usageKey) uint64 {
	hash := uint64(k.from)
	for _, n := range r.by {
		hash = (hash ^ uint64(k.of[n])) * 0x9e3779b97f4a7c15
		hash ^= hash >> 32
	}
	return hash << 32
}

// findSlot returns the slot of a key in the table, or the free slot where it belongs.
func (r *runSums) findSlot(hash uint64, k *usageKey) int {
	for at := int(hash>>32) & (len(r.slots) - 1); ; at = (at + 1) & (len(r.slots) - 1) {
		x := r.slots[at]
		if x == 0 || k != nil && x&hashBits == hash && r.sums[uint32(x)-1].usageKey == *k {
			return at
		}
	}
}

// addOverlap adds the allocation and use of a run between two times on one of its nodes.
func (s *runSum) addOverlap(w *store.Workload, at, until time.Time, share float64, nodes int) {
	seconds, part := until.Sub(at).Seconds(), 1/float64(nodes)
	s.seconds += seconds
	s.parts = s.parts || nodes > 1
	for _, n := range spreading {
		s.addFigure(n[0], *w.Row.At(n[1]), share*part)
	}
	if w.CPUSeconds != nil && (share < 1 || nodes > 1) {
		s.spread += *w.CPUSeconds * share * part
	}
	held := max(seconds-orZero(w.SuspendedSeconds)*share, 0) * part
	cores, _ := w.GivenCores()
	memory, _ := w.GivenMemory()
	gpus, _ := w.GivenGPUs()
	s.addFigure(usedCores, cores, held)
	s.addFigure(usedMemory, memory, held)
	s.addFigure(usedGPUs, gpus, held)
}

// addStart counts the start of a run and its wait. A run on several nodes counts on the first.
func (s *runSum) addStart(w *store.Workload) {
	one := 1.0
	s.addFigure(usedStarted, &one, 1)
	if !w.Submit.IsZero() && !w.Start.Before(w.Submit) {
		wait := w.Start.Sub(w.Submit).Seconds()
		s.addFigure(usedWaited, &one, 1)
		s.addFigure(usedWait, &one, wait)
		s.addFigure(usedWaitCores, w.RequestCores, wait)
	}
}

// droppedDimensions lists sets of dimensions to ignore, one after the other, until an hour matches some runs. The program or
// account of a job may have changed after the hour was computed.
var droppedDimensions = [][]int{nil, {dimCommand}, {dimCommand, dimAccount, dimPartition}}

// addRunRows adds rows of usage divided among runs.
func (u *Usage) addRunRows(ctx context.Context, q wire.UsageQuery, c capacities, list *wire.UsageList) error {
	d := dividedHours{q: q, texts: newUsageTexts(), by: dimensionNumbers(q.By), hours: map[usageKey]*store.Used{},
		machines: map[usageKey]*figure.Capacity{}, rows: map[usageKey]*wire.Usage{}}
	d.filters = map[int][]string{dimOwner: q.Owners, dimAccount: q.Accounts, dimPartition: q.Partitions, dimKind: q.Kinds, dimNode: q.Nodes}
	maps.DeleteFunc(d.filters, func(_ int, list []string) bool { return len(list) == 0 })
	f := store.Filter{Since: q.Since, Until: q.Until, Sites: q.Sites, Nodes: q.Nodes}
	of := []int{dimSite, dimKind, dimOwner, dimAccount, dimPartition} // dimensions of the hours
	if slices.Contains(q.By, "command") || q.Command != "" {
		of = append(of, dimCommand)
	}
	by := slices.Concat(of, d.by)
	var err error
	if node := slices.Contains(q.By, "node") || len(q.Nodes) > 0; node {
		of = []int{dimSite, dimNode}
		by = slices.Concat(of, d.by)
		by = slices.AppendSeq(by, maps.Keys(d.filters))
		if q.Command != "" {
			by = append(by, dimCommand)
		}
		err = d.divideNodes(ctx, u)
	} else {
		f.Kinds, f.Owners, f.Partitions = q.Kinds, q.Owners, q.Partitions
		err = d.divideGroups(ctx, u, of)
	}
	if err != nil {
		return err
	}
	runs := &runSums{from: store.SpanStart(store.SpanHour, q.Since), to: store.SpanStart(store.SpanHour, q.Until.Add(time.Hour-1)),
		span: store.Span(q.Span), nodes: slices.Contains(by, dimNode), projects: u.Projects, texts: d.texts, slots: make([]uint64, 1024)}
	slices.Sort(by)
	runs.by = slices.Compact(by)
	if err := u.Runs.EachRun(ctx, store.RunQuery{Filter: f, Figures: runKeys}, runs.addRun); err != nil {
		return err
	}
	d.of, d.sums, d.index = of, runs.sums, make([]map[usageKey][]*runSum, len(droppedDimensions))
	for _, k := range d.order {
		d.divideGroup(k, d.hours[k])
	}
	imported := false
	for _, s := range runs.sums {
		var own store.Used
		some := false
		if runs.nodes {
			imported = d.hours[s.projectTo(of)] == nil // the node was not measured
		}
		for i := range s.v {
			if s.has>>i&1 != 0 && (imported || countsStarts(i)) {
				*own.At(i), some = &s.v[i], true
			}
		}
		if !imported {
			s.spread = 0
		}
		if some {
			d.addShare(s.usageKey, s, own, s.spread)
		}
	}
	d.limitOwners()
	keys := slices.Collect(maps.Keys(d.rows))
	slices.SortFunc(keys, d.rowOrder())
	list.Rows = slices.Grow(list.Rows, len(keys))
	for i := range keys {
		row := d.rows[keys[i]]
		if slices.Contains(d.by, dimNode) {
			if m := d.machines[d.nodeKey(&keys[i])]; m != nil {
				row.Capacity = *m
			}
		} else if n := c.forRow(row); n != nil {
			row.Capacity = n.Capacity
		}
		row.CapacityShare = figure.Ratio(row.CPUSeconds, row.CoreSeconds)
		list.Rows = append(list.Rows, *row)
	}
	return nil
}

// rowOrder returns a function that compares rows by time and dimensions.
func (d *dividedHours) rowOrder() func(a, b usageKey) int {
	by := slices.Sorted(slices.Values(d.by))
	ranks := make([][]int, dimensions)
	for _, n := range by {
		ranks[n] = d.texts.rankTexts(n)
	}
	return func(a, b usageKey) int {
		if a.from != b.from {
			return cmp.Compare(a.from, b.from)
		}
		for _, n := range by {
			if x, y := a.of[n], b.of[n]; x != y {
				return ranks[n][x] - ranks[n][y]
			}
		}
		return 0
	}
}

// dividedHours divides the usage of hours among the runs in them.
type dividedHours struct {
	q        wire.UsageQuery
	by       []int
	texts    *usageTexts
	hours    map[usageKey]*store.Used
	order    []usageKey // of the hours
	machines map[usageKey]*figure.Capacity
	of       []int            // dimensions of the hours
	filters  map[int][]string // of the query, by dimension
	sums     []*runSum
	index    []map[usageKey][]*runSum // by the dimensions of the hours, without coarser ones; made when it is needed
	rows     map[usageKey]*wire.Usage
}

// findRuns returns the runs of a group of hours. It ignores the dimensions in droppedDimensions at the index level.
func (d *dividedHours) findRuns(level int, k usageKey) []*runSum {
	if d.index[level] == nil {
		d.index[level] = map[usageKey][]*runSum{}
		for _, s := range d.sums {
			x := s.projectTo(d.of).dropDimensions(droppedDimensions[level])
			d.index[level][x] = append(d.index[level][x], s)
		}
	}
	return d.index[level][k.dropDimensions(droppedDimensions[level])]
}

func (d *dividedHours) intervalStart(at time.Time) int64 {
	if d.q.Span == string(store.SpanWhole) {
		return 0
	}
	return at.UnixMilli()
}

// nodeKey returns the key with the node and, if sites are distinguished, the site.
func (d *dividedHours) nodeKey(k *usageKey) usageKey {
	out := k.projectTo([]int{dimNode})
	if slices.Contains(d.by, dimSite) {
		out.of[dimSite] = k.of[dimSite]
	}
	return out
}

// divideNodes reads the hours of nodes.
func (d *dividedHours) divideNodes(ctx context.Context, u *Usage) error {
	rows, err := u.Rollups.NodeUse(ctx, store.RollupQuery{From: d.q.Since, To: d.q.Until, Span: store.Span(d.q.Span),
		By: []string{"site", "node"}, Sites: d.q.Sites, Nodes: d.q.Nodes})
	for i := range rows {
		k := d.texts.groupKey(&wire.Usage{Site: rows[i].Site, Node: rows[i].Node})
		k.from = d.intervalStart(rows[i].At)
		d.hours[k], d.order = &rows[i].Used, append(d.order, k)
		if at := d.nodeKey(&k); d.machines[at] == nil {
			d.machines[at] = &rows[i].Capacity
		} else {
			figure.Add(d.machines[at], &rows[i].Capacity)
		}
	}
	return err
}

// divideGroups reads the hours of groups of workloads.
func (d *dividedHours) divideGroups(ctx context.Context, u *Usage, of []int) error {
	x := rollupQuery(d.q)
	x.By = nil
	for _, n := range of {
		x.By = append(x.By, wire.UsageDimensions()[n])
	}
	if len(u.Projects) > 0 {
		x.Accounts = nil // divide selects
	}
	rows, err := u.Rollups.Use(ctx, x)
	for i := range rows {
		r := &rows[i]
		k := d.texts.groupKey(&wire.Usage{Owner: r.Owner, Account: cmp.Or(r.Account, u.Projects[r.Owner]), Partition: r.Partition,
			Command: r.Command, Kind: r.Kind, Site: r.Site})
		k.from = d.intervalStart(r.At)
		if have := d.hours[k]; have != nil {
			figure.Add(have, &r.Used)
		} else {
			d.hours[k], d.order = &r.Used, append(d.order, k)
		}
	}
	return err
}

// addShare adds to the row of a group if the query selects it. Hours of a node include everything on it.
func (d *dividedHours) addShare(k usageKey, s *runSum, part store.Used, spread float64) {
	if d.q.Command != "" {
		if ok, err := path.Match(d.q.Command, d.texts.text[k.of[dimCommand]]); err != nil || !ok {
			return
		}
	}
	for dim, list := range d.filters {
		if !slices.Contains(list, d.texts.text[k.of[dim]]) {
			return
		}
	}
	if spread = max(spread, orZero(part.CPUInterpolatedSeconds)); spread > 0 {
		part.CPUInterpolatedSeconds = &spread
	}
	part.Exactness = maps.Clone(part.Exactness)
	if s != nil && s.parts && part.HeldCoreSeconds != nil {
		part.Exactness.Add("held_core_seconds", figure.Estimated)
	}
	k = k.projectTo(d.by)
	r := d.rows[k]
	if r == nil {
		r = &wire.Usage{UsageFigures: part}
		for _, n := range d.by {
			*usageField(r, n) = d.texts.text[k.of[n]]
		}
		if d.q.Span != string(store.SpanWhole) {
			at := time.UnixMilli(k.from).UTC()
			r.From = &at
		}
		d.rows[k] = r
		return
	}
	figure.Add(&r.UsageFigures, &part)
}

// divideGroup divides the use of one group of hours.
func (d *dividedHours) divideGroup(k usageKey, used *store.Used) {
	var runs []*runSum
	level := 0
	for ; level < len(droppedDimensions) && len(runs) == 0; level++ {
		runs = d.findRuns(level, k)
	}
	if len(runs) == 0 { // the class of the run is unknown
		d.addShare(k, nil, *used, 0)
		return
	}
	all := runSum{}
	one := true // all goes to one row
	for _, s := range runs {
		one = one && s.projectTo(d.by) == runs[0].projectTo(d.by)
		for i, v := range s.v {
			all.v[i] += v
		}
		all.seconds += s.seconds
	}
	for _, s := range runs {
		to, part, spread := s.usageKey, store.Used{Exactness: used.Exactness}, 0.0
		for _, n := range droppedDimensions[level-1] {
			to.of[n] = k.of[n] // dimensions of hours
		}
		for i := range s.v {
			switch total := *used.At(i); {
			case countsStarts(i): // counted once, by the runs
			case total != nil:
				*part.At(i) = new(*total * s.shareWeight(i, &all, len(runs)))
			case s.has>>i&1 != 0 && (i == usedCores || i == usedMemory || i == usedGPUs):
				*part.At(i) = new(s.v[i]) // hours of nodes have none
			}
		}
		if !one && all.v[usedCPU] > 0 {
			spread = orZero(used.CPUSeconds) * s.spread / all.v[usedCPU]
		}
		d.addShare(to, s, part, spread)
	}
}

// shareWeight returns the share of figure i of an hour that one of n groups of runs gets. It is proportional to the figure of
// the runs. If that is unknown, it is proportional to their CPU time, allocation or run time.
func (s *runSum) shareWeight(i int, all *runSum, n int) float64 {
	order := [...]int{i, usedCPU, usedCores}
	if i == usedEstimated {
		order = [...]int{i, usedCores, usedCPU}
	}
	for _, k := range order {
		if all.v[k] > 0 && k != usedSpread {
			return s.v[k] / all.v[k]
		}
	}
	if all.seconds > 0 {
		return s.seconds / all.seconds
	}
	return 1 / float64(n)
}

// limitOwners combines the owners of a node with the least use, because there may be thousands.
func (d *dividedHours) limitOwners() {
	if !slices.Contains(d.by, dimNode) || !slices.Contains(d.by, dimOwner) {
		return
	}
	on, compare := map[usageKey][]usageKey{}, d.rowOrder()
	for k := range d.rows {
		at := k.dropDimensions([]int{dimOwner})
		on[at] = append(on[at], k)
	}
	other := d.texts.textNumber("other")
	for _, keys := range on {
		if len(keys) <= maxNodeOwners {
			continue
		}
		slices.SortFunc(keys, func(a, b usageKey) int {
			return cmp.Or(cmp.Compare(orZero(d.rows[b].CPUSeconds), orZero(d.rows[a].CPUSeconds)), compare(a, b))
		})
		for _, k := range keys[maxNodeOwners:] {
			r := d.rows[k]
			delete(d.rows, k)
			if k.of[dimOwner] = other; d.rows[k] == nil {
				r.Owner, d.rows[k] = "other", r
			} else {
				figure.Add(&d.rows[k].UsageFigures, &r.UsageFigures)
			}
		}
	}
}
