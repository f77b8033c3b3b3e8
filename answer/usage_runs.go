package answer

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"time"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/store"
	"reckon/workload"
)

// Hours are kept by site, kind, owner, account, partition and program, and by node. What a run is besides (its QOS, its size, how
// long it ran, its nodes) is known of the run alone. So usage by these is that of hours, divided among the runs that were there
// then: allocations, starts and waits by their facts, to the second, and what was used by what each run used in all, spread evenly
// over its time. Sums are those of the hours, whatever they are divided by.

// Runs reads the runs that hours are made of; implemented by store.Facts.
type Runs interface {
	EachRun(ctx context.Context, f store.Filter, figures []string, next func(*store.Workload)) error
}

// runClass is the name of a range of numbers up to a limit.
type runClass struct {
	upTo float64 // included of sizes, not of lengths
	name string
}

// The classes of the dimensions size (allocated cores), gpus and length (seconds), in order; the last has no limit.
var (
	coreClasses   = []runClass{{1, "1"}, {8, "2-8"}, {32, "9-32"}, {128, "33-128"}, {512, "129-512"}, {0, "more than 512"}}
	gpuClasses    = []runClass{{0, "0"}, {1, "1"}, {4, "2-4"}, {0, "more than 4"}}
	lengthClasses = []runClass{{60, "< 1 min"}, {3600, "< 1 h"}, {6 * 3600, "< 6 h"}, {86400, "< 1 d"}, {7 * 86400, "< 7 d"},
		{0, "7 d or more"}, {0, "running"}}
)

func classOf(list []runClass, v *float64) string {
	if v == nil {
		return ""
	}
	for _, c := range list[:len(list)-1] {
		if *v <= c.upTo {
			return c.name
		}
	}
	return list[len(list)-1].name
}

// lengthOf is the class of how long a run ran.
func lengthOf(w *store.Workload) string {
	if w.End.IsZero() {
		return lengthClasses[len(lengthClasses)-1].name
	}
	ran := w.End.Sub(w.Start).Seconds()
	for _, c := range lengthClasses[:len(lengthClasses)-2] {
		if ran < c.upTo {
			return c.name
		}
	}
	return lengthClasses[len(lengthClasses)-2].name
}

// ownersOfNode is how many owners of a node are distinguished; the others together are "other".
const ownersOfNode = 200

// byRunsOnly reports whether hours alone do not tell apart what the query wants told apart.
func byRunsOnly(q wire.UsageQuery) bool {
	node, others := false, len(q.Owners)+len(q.Accounts)+len(q.Partitions)+len(q.Kinds) > 0 || q.Command != ""
	for _, by := range q.By {
		switch by {
		case "qos", "size", "gpus", "length":
			return true
		case "node":
			node = true
		case "site":
		default:
			others = true
		}
	}
	return (node || len(q.Nodes) > 0) && (others || !node)
}

// runSum is what the runs of one group hold and use in one stretch of time.
type runSum struct {
	usageKey
	v       [figure.UsedLen]float64
	has     [figure.UsedLen]bool
	seconds float64 // of runs
	spread  float64 // of the CPU time, that of runs which reach beyond the stretch or their node
	parts   bool    // some run was on other nodes too
}

func (s *runSum) add(i int, v float64) { s.v[i], s.has[i] = s.v[i]+v, true }

// Figures of hours by their numbers, and those of a run that they are sums of.
var (
	hourOf = func(key string) int { return figure.Index(figure.Hours, key) }

	usedCPU, usedCores, usedMemory, usedGPUs = hourOf("cpu_seconds"), hourOf("held_core_seconds"),
		hourOf("held_memory_byte_seconds"), hourOf("held_gpu_seconds")
	usedStarted, usedWaited, usedWait, usedWaitCores = hourOf("started"), hourOf("waited"), hourOf("wait_seconds"),
		hourOf("wait_core_seconds")
	usedSpread, usedEstimated = hourOf("cpu_interpolated_seconds"), hourOf("held_estimated_core_seconds")

	spreadHours, runKeys = func() (numbers []int, keys []string) {
		for i, f := range figure.Of(figure.Hours) {
			if figure.Index(figure.Runs, f.Key) >= 0 {
				numbers, keys = append(numbers, i), append(keys, f.Key)
			}
		}
		return numbers, append(keys, "allocated_cores", "allocated_memory_bytes", "allocated_gpus", "request_cores", "request_memory_bytes",
			"request_gpus", "suspended_seconds")
	}()
)

// runSums sums up runs by stretches of time and groups.
type runSums struct {
	from, to  time.Time
	span      store.Span
	by        []string
	projects  map[string]string
	spreading []int // numbers of figures of runs, in the order of spreadHours
	sums      map[usageKey]*runSum
}

func newRunSums(q wire.UsageQuery, by []string, projects map[string]string) *runSums {
	r := &runSums{from: store.SpanStart(store.SpanHour, q.Since), to: store.SpanStart(store.SpanHour, q.Until.Add(time.Hour-1)),
		span: store.Span(q.Span), by: by, projects: projects, sums: map[usageKey]*runSum{}}
	for _, i := range spreadHours {
		r.spreading = append(r.spreading, figure.Index(figure.Runs, figure.Of(figure.Hours)[i].Key))
	}
	return r
}

// next is the end of the stretch that holds a time, not after the end of all.
func (r *runSums) next(at time.Time) time.Time {
	var end time.Time
	switch begin := store.SpanStart(r.span, at); r.span {
	case store.SpanHour, store.SpanHourOfWeek:
		end = at.Truncate(time.Hour).Add(time.Hour)
	case store.SpanDay:
		end = begin.AddDate(0, 0, 1)
	case store.SpanWeek:
		end = begin.AddDate(0, 0, 7)
	case store.SpanMonth:
		end = begin.AddDate(0, 1, 0)
	default:
		return r.to
	}
	if end.After(r.to) {
		return r.to
	}
	return end
}

// add adds a run, on each of its nodes if nodes are told apart.
func (r *runSums) add(w *store.Workload) {
	if !w.Began() {
		return
	}
	end := w.End
	if end.IsZero() {
		end = w.Seen
	}
	var k usageKey
	node := false
	for _, by := range r.by {
		if node = node || by == "node"; by == "account" {
			k.account = cmp.Or(w.Account, r.projects[w.Owner])
			continue
		}
		if p := k.at(by); p != nil {
			*p = dimensionOf(w, by)
		}
	}
	wall := end.Sub(w.Start).Seconds()
	at := w.Start
	if at.Before(r.from) {
		at = r.from
	}
	for {
		until := r.next(at)
		if until.After(end) {
			until = end
		}
		if !at.Before(until) && (!at.Equal(w.Start) || !at.Before(r.to)) { // a run of no length has begun nevertheless
			return
		}
		share := 1.0
		if wall > 0 {
			share = until.Sub(at).Seconds() / wall
		}
		if r.span != store.SpanWhole {
			k.from = store.SpanStart(r.span, at).UnixMilli()
		}
		switch {
		case !node:
			r.group(k).overlap(r, w, at, until, share, 1)
		default:
			for _, n := range w.Nodes {
				k.node = n
				r.group(k).overlap(r, w, at, until, share, len(w.Nodes))
			}
		}
		if at = until; !at.Before(end) || !at.Before(r.to) {
			return
		}
	}
}

func (r *runSums) group(k usageKey) *runSum {
	s := r.sums[k]
	if s == nil {
		s = &runSum{usageKey: k}
		r.sums[k] = s
	}
	return s
}

// overlap adds what a run held and used between two times, on one of its nodes.
func (s *runSum) overlap(r *runSums, w *store.Workload, at, until time.Time, share float64, nodes int) {
	seconds, part := until.Sub(at).Seconds(), 1/float64(nodes)
	s.seconds += seconds
	s.parts = s.parts || nodes > 1
	for k, i := range spreadHours {
		if v := *w.Row.At(r.spreading[k]); v != nil {
			s.add(i, *v*share*part)
		}
	}
	if w.CPUSeconds != nil && (share < 1 || nodes > 1) {
		s.spread += *w.CPUSeconds * share * part
	}
	held := seconds
	if w.SuspendedSeconds != nil {
		held = max(held-*w.SuspendedSeconds*share, 0)
	}
	given := func(i int, v *float64, _ bool) {
		if v != nil {
			s.add(i, *v*held*part)
		}
	}
	cores, known := w.GivenCores()
	given(usedCores, cores, known)
	memory, known := w.GivenMemory()
	given(usedMemory, memory, known)
	gpus, known := w.GivenGPUs()
	given(usedGPUs, gpus, known)
	if nodes > 1 || !at.Equal(w.Start) {
		return
	}
	s.add(usedStarted, 1)
	if !w.Submit.IsZero() && !w.Start.Before(w.Submit) {
		wait := w.Start.Sub(w.Submit).Seconds()
		s.add(usedWaited, 1)
		s.add(usedWait, wait)
		if w.RequestCores != nil {
			s.add(usedWaitCores, wait**w.RequestCores)
		}
	}
}

// dimensionOf is what a run is of a dimension other than node.
func dimensionOf(w *store.Workload, by string) string {
	sum := workload.Kind(w.Kind).Sum() // of many: it has no size of its own
	switch by {
	case "site":
		return w.Site
	case "kind":
		return w.Kind
	case "owner":
		return w.Owner
	case "partition":
		return w.Partition
	case "command":
		return w.Command
	case "qos":
		return w.QOS
	case "size":
		cores, _ := w.GivenCores()
		return classOf(coreClasses, cores)
	case "gpus":
		n, _ := w.GivenGPUs()
		if cores, _ := w.GivenCores(); n == nil && cores != nil && !sum {
			n = new(0.0) // what a batch system reports has GPUs where it was given any
		}
		return classOf(gpuClasses, n)
	case "length":
		if !sum {
			return lengthOf(w)
		}
	}
	return ""
}

// coarser are the groups that hours are compared with, one after the other, until there are runs in one: a job may have had another
// program or account when an hour was made.
var coarser = []func(*usageKey){
	func(*usageKey) {},
	func(k *usageKey) { k.command = "" },
	func(k *usageKey) { k.command, k.account, k.partition = "", "", "" },
}

// byRuns adds rows of usage divided among runs.
func (u *Usage) byRuns(ctx context.Context, q wire.UsageQuery, c capacities, list *wire.UsageList) error {
	node := slices.Contains(q.By, "node") || len(q.Nodes) > 0
	of := []string{"site", "kind", "owner", "account", "partition"} // dimensions of the hours
	if slices.Contains(q.By, "command") || q.Command != "" {
		of = append(of, "command")
	}
	hours := map[usageKey]*store.Used{}
	f := store.Filter{Since: q.Since, Until: q.Until, Sites: q.Sites, Nodes: q.Nodes}
	by := slices.Concat(of, q.By)
	machines := map[usageKey]*figure.Capacity{}
	if node {
		rows, err := u.Rollups.NodeUse(ctx, store.RollupQuery{From: q.Since, To: q.Until, Span: store.Span(q.Span),
			By: []string{"site", "node"}, Sites: q.Sites, Nodes: q.Nodes})
		if err != nil {
			return err
		}
		for i := range rows {
			k := usageKey{site: rows[i].Site, node: rows[i].Node, from: stampOf(q, rows[i].At)}
			hours[k], machines[k] = &rows[i].Used, &rows[i].Capacity
		}
		by, of = append(by, "node"), []string{"site", "node"}
	} else {
		x := rollupQuery(q)
		x.By = of
		if len(u.Projects) > 0 {
			x.Accounts = nil
		}
		rows, err := u.Rollups.Use(ctx, x)
		if err != nil {
			return err
		}
		for i := range rows {
			r := &rows[i]
			k := usageKey{site: r.Site, kind: r.Kind, owner: r.Owner, account: cmp.Or(r.Account, u.Projects[r.Owner]),
				partition: r.Partition, command: r.Command, from: stampOf(q, r.At)}
			if have := hours[k]; have != nil {
				figure.Add(have, &r.Used)
			} else {
				hours[k] = &r.Used
			}
		}
		f.Kinds, f.Owners, f.Partitions = q.Kinds, q.Owners, q.Partitions
	}
	runs := newRunSums(q, by, u.Projects)
	if err := u.Runs.EachRun(ctx, f, runKeys, runs.add); err != nil {
		return err
	}
	d := divided{q: q, index: make([]map[usageKey][]*runSum, len(coarser)), rows: map[usageKey]*wire.Usage{}}
	for i, cut := range coarser {
		d.index[i] = map[usageKey][]*runSum{}
		for _, s := range runs.sums {
			k := s.usageKey.only(of)
			cut(&k)
			d.index[i][k] = append(d.index[i][k], s)
		}
	}
	for k, used := range hours {
		d.divide(k, used)
	}
	for _, s := range runs.sums {
		if node && hours[s.usageKey.only(of)] == nil { // imported: nobody measured the node
			d.direct(s)
		}
	}
	d.boundOwners()
	for k, row := range d.rows {
		if m := machines[usageKey{site: k.site, node: k.node, from: k.from}]; m != nil && slices.Contains(q.By, "node") {
			row.Capacity, row.CapacityShare = *m, ratio(row.CPUSeconds, m.CoreSeconds)
		} else if n := c.of(k); n != nil {
			row.Capacity, row.CapacityShare = n.Capacity, ratio(row.CPUSeconds, n.CoreSeconds)
		}
		list.Rows = append(list.Rows, *row)
	}
	slices.SortFunc(list.Rows, func(a, b wire.Usage) int { return usageGroup(&a).compare(usageGroup(&b)) })
	return nil
}

func stampOf(q wire.UsageQuery, at time.Time) int64 {
	if q.Span == string(store.SpanWhole) {
		return 0
	}
	return at.UnixMilli()
}

// divided divides hours among runs.
type divided struct {
	q     wire.UsageQuery
	index []map[usageKey][]*runSum
	rows  map[usageKey]*wire.Usage
}

// selected reports whether the filters of the query select a group. Those of a node are made of all that was on it.
func (d *divided) selected(k *usageKey) bool {
	in := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	if ok, err := path.Match(d.q.Command, k.command); d.q.Command != "" && (err != nil || !ok) {
		return false
	}
	return in(d.q.Owners, k.owner) && in(d.q.Accounts, k.account) && in(d.q.Partitions, k.partition) && in(d.q.Kinds, k.kind) &&
		in(d.q.Nodes, k.node)
}

func (d *divided) row(k usageKey) *wire.Usage {
	k = k.only(d.q.By)
	r := d.rows[k]
	if r == nil {
		r = &wire.Usage{}
		for _, by := range d.q.By {
			*usageField(r, by) = *k.at(by)
		}
		if d.q.Span != string(store.SpanWhole) {
			at := time.UnixMilli(k.from).UTC()
			r.From = &at
		}
		d.rows[k] = r
	}
	return r
}

// divide divides the use of one group of hours.
func (d *divided) divide(k usageKey, used *store.Used) {
	var runs []*runSum
	level := 0
	for ; level < len(coarser) && len(runs) == 0; level++ {
		x := k
		coarser[level](&x)
		runs = d.index[level][x]
	}
	if len(runs) == 0 { // nothing is known of what it was
		if d.selected(&k) {
			figure.Add(&d.row(k).UsageFigures, used)
		}
		return
	}
	whole := true // all goes to one row
	for _, s := range runs[1:] {
		whole = whole && s.only(d.q.By) == runs[0].only(d.q.By)
	}
	var sum [figure.UsedLen]float64
	seconds := 0.0
	for _, s := range runs {
		for i, v := range s.v {
			sum[i] += v
		}
		seconds += s.seconds
	}
	for _, s := range runs {
		to := s.usageKey
		if level > 1 {
			to.command, to.account, to.partition = k.command, k.account, k.partition // what the hours know
		}
		if !d.selected(&to) {
			continue
		}
		var part store.Used
		for i := range s.v {
			switch total := *used.At(i); {
			case total == nil && s.has[i] && (i == usedCores || i == usedMemory || i == usedGPUs || i == usedStarted && !s.parts):
				*part.At(i) = new(s.v[i]) // hours of nodes have none
			case total != nil:
				*part.At(i) = new(*total * weight(s, i, &sum, seconds, len(runs)))
			}
		}
		for key, e := range used.Exactness {
			part.Exactness.Add(key, e)
		}
		if !whole && s.spread > 0 && sum[usedCPU] > 0 && used.CPUSeconds != nil {
			v := *used.CPUSeconds * s.spread / sum[usedCPU]
			if part.CPUInterpolatedSeconds != nil {
				v = max(v, *part.CPUInterpolatedSeconds)
			}
			part.CPUInterpolatedSeconds = &v
		}
		if s.parts && part.HeldCoreSeconds != nil {
			part.Exactness.Add("held_core_seconds", figure.Estimated)
		}
		figure.Add(&d.row(to).UsageFigures, &part)
	}
}

// direct adds what runs held and used themselves.
func (d *divided) direct(s *runSum) {
	if !d.selected(&s.usageKey) {
		return
	}
	var part store.Used
	for i, v := range s.v {
		if s.has[i] {
			*part.At(i) = &v
		}
	}
	if s.spread > 0 {
		part.CPUInterpolatedSeconds = &s.spread
	}
	if s.parts && part.HeldCoreSeconds != nil {
		part.Exactness.Add("held_core_seconds", figure.Estimated)
	}
	figure.Add(&d.row(s.usageKey).UsageFigures, &part)
}

// weight is the share of a figure of hours that a group of runs gets: its share of that figure of the runs, else of their CPU time,
// of what they held, or of their time.
func weight(s *runSum, i int, sum *[figure.UsedLen]float64, seconds float64, n int) float64 {
	first, second := usedCPU, usedCores
	if i == usedEstimated {
		first, second = usedCores, usedCPU
	}
	for _, k := range [...]int{i, first, second} {
		if sum[k] > 0 && k != usedSpread {
			return s.v[k] / sum[k]
		}
	}
	if seconds > 0 {
		return s.seconds / seconds
	}
	return 1 / float64(n)
}

// boundOwners makes those owners of a node that used least one: there may be thousands.
func (d *divided) boundOwners() {
	if !slices.Contains(d.q.By, "node") || !slices.Contains(d.q.By, "owner") {
		return
	}
	on := map[usageKey]map[string]float64{}
	place := func(k usageKey) usageKey { return usageKey{site: k.site, node: k.node, from: k.from} }
	for k, r := range d.rows {
		if on[place(k)] == nil {
			on[place(k)] = map[string]float64{}
		}
		on[place(k)][k.owner] += orZero(r.CPUSeconds)
	}
	for at, owners := range on {
		if len(owners) <= ownersOfNode {
			continue
		}
		names := slices.SortedFunc(maps.Keys(owners), func(a, b string) int {
			return cmp.Or(cmp.Compare(owners[b], owners[a]), cmp.Compare(a, b))
		})
		less := map[string]bool{}
		for _, o := range names[ownersOfNode:] {
			less[o] = true
		}
		for _, k := range slices.Collect(maps.Keys(d.rows)) {
			if r := d.rows[k]; place(k) == at && less[k.owner] {
				delete(d.rows, k)
				k.owner = "other"
				figure.Add(&d.row(k).UsageFigures, &r.UsageFigures)
			}
		}
	}
}
