package answer

import (
	"context"
	"maps"
	"slices"
	"time"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/store"
)

// Usage returns history from the roll-ups.
type Usage struct {
	Rollups    Rollups
	Catalogue  Catalogue
	Runs       Runs        // nil distinguishes usage only by dimensions of hours
	Partitions *Partitions // nil for a site without a batch system
	Outage     *Outage     // nil if the series are stored in this process
	Bounds     *Bounds     // nil withholds nothing
	// Proof returns the agreement of usage with the counters; may be nil.
	Proof func(context.Context) string
	// Counted returns the time up to which usage was counted; zero if unknown. It may be nil.
	Counted func(context.Context) time.Time
	// Projects are the accounts of owners with work that has no reported account, by owner.
	Projects map[string]string
	Clock    func() time.Time
}

// Rollups returns hourly usage; implemented by store.Rollups.
type Rollups interface {
	NodeUse
	Use(ctx context.Context, q store.RollupQuery) ([]store.Use, error)
}

// Usage adds up the selected usage.
func (u *Usage) Usage(ctx context.Context, q wire.UsageQuery) (wire.UsageList, error) {
	list := wire.UsageList{
		Since: store.SpanStart(store.SpanHour, q.Since), Until: store.SpanStart(store.SpanHour, q.Until.Add(time.Hour-1)),
		Span: q.Span, By: q.By, Rows: []wire.Usage{}, Missing: u.Outage.Missing(ctx, q.Since, q.Until),
	}
	if u.Proof != nil {
		list.Proof = u.Proof(ctx)
	}
	if u.Counted != nil {
		if at := u.Counted(ctx); !at.IsZero() && at.Before(list.Until) {
			list.AsOf = &at
		}
	}
	c, err := u.addCapacity(ctx, q, &list)
	if err != nil {
		return list, err
	}
	if err = u.addRows(ctx, q, c, &list); err == nil && !slices.Contains(q.By, "node") {
		list.Pending, err = u.pendingWork(ctx, q)
	}
	if err != nil {
		return list, err
	}
	for i := range list.Rows {
		figure.Add(&list.Total.UsageFigures, &list.Rows[i].UsageFigures)
	}
	list.Total.CapacityShare = figure.Ratio(list.Total.CPUSeconds, list.Total.CoreSeconds)
	if err := u.limitShares(ctx, q, &list); err != nil {
		return list, err
	}
	for i := range list.Rows {
		list.Rows[i].UsedShare = figure.Ratio(list.Rows[i].CPUSeconds, list.Total.CPUSeconds)
		markUsage(&list.Rows[i], q.Span == string(store.SpanHour))
	}
	markUsage(&list.Total, false)
	u.Bounds.checkUsage(&list)
	return list, nil
}

// interpolatedHour is the share of interpolated CPU time from which the figures of an hour are marked.
// interpolatedShare applies to longer times, because interpolation within a longer time does not change its sum.
const interpolatedHour, interpolatedShare = 0.01, 0.1

// markUsage marks figures as estimated. It marks allocated core time that is partly based on requests, and a figure counted across a gap
// in the samples, because its distribution over the hours is unknown. hour means that r covers an hour.
func markUsage(r *wire.Usage, hour bool) {
	most := interpolatedShare
	if hour {
		most = interpolatedHour
	}
	if r.HeldCoreSeconds != nil && orZero(r.HeldEstimatedCoreSeconds) > 0 {
		r.Exactness.Add("held_core_seconds", figure.Estimated)
	}
	if orZero(r.CoreUsedInterpolatedSeconds) > most*orZero(r.CoreUsedSeconds) {
		r.Exactness.Add("core_used_seconds", figure.Estimated)
	}
	if orZero(r.CPUInterpolatedSeconds) <= most*orZero(r.CPUSeconds) {
		return
	}
	for i, f := range figure.InScope(figure.Hours) {
		if *r.UsageFigures.At(i) != nil && len(f.From) > 0 {
			r.Exactness.Add(f.Key, figure.Estimated)
		}
	}
}

func rollupQuery(q wire.UsageQuery) store.RollupQuery {
	return store.RollupQuery{
		From: q.Since, To: q.Until, Span: store.Span(q.Span), By: q.By, Sites: q.Sites, Kinds: q.Kinds, Owners: q.Owners,
		Accounts:   q.Accounts,
		Partitions: q.Partitions, Nodes: q.Nodes, Command: q.Command,
	}
}

// capacities holds the capacity of all nodes per interval; the key is the start in Unix milliseconds. If the query is
// about known partitions, it also holds the capacity of each partition.
type capacities struct {
	nodes      map[int64]*store.NodeUse
	partitions map[capacityKey]*store.NodeUse
}

// forRow returns the capacity for the share of a row; nil when unknown.
func (c *capacities) forRow(r *wire.Usage) *store.NodeUse {
	from := time.Time{}.UnixMilli() // of all the time
	if r.From != nil {
		from = r.From.UnixMilli()
	}
	if c.partitions != nil && r.Partition != "" {
		return c.partitions[capacityKey{from, r.Site, r.Partition}]
	}
	return c.nodes[from]
}

// addCapacity reads the capacity of the query's nodes and adds it to the total.
func (u *Usage) addCapacity(ctx context.Context, q wire.UsageQuery, list *wire.UsageList) (capacities, error) {
	c := capacities{nodes: map[int64]*store.NodeUse{}}
	nodes, err := u.Rollups.NodeUse(ctx,
		store.RollupQuery{From: q.Since, To: q.Until, Span: store.Span(q.Span), Sites: q.Sites, Nodes: q.Nodes})
	if err != nil {
		return c, err
	}
	if slices.Contains(q.By, "partition") || len(q.Partitions) > 0 {
		c.partitions, err = u.partitionCapacity(ctx, q)
		if err := u.Outage.addMissing(&list.Missing, "which nodes are in which partition", err); err != nil {
			return c, err
		}
	}
	for i := range nodes {
		n, at := &nodes[i], nodes[i].At.UnixMilli()
		if c.partitions != nil && len(q.Partitions) > 0 { // of the nodes of the selected partitions
			if n = c.partitions[capacityKey{at: at}]; n == nil {
				continue
			}
		}
		c.nodes[at] = n
		figure.Add(&list.Total.Capacity, &n.Capacity)
	}
	return c, nil
}

// limitShares limits shares of capacity to the time for which the capacity is known. Imported history has CPU time but
// no machines.
func (u *Usage) limitShares(ctx context.Context, q wire.UsageQuery, list *wire.UsageList) error {
	if list.Total.CoreSeconds == nil || q.Span == string(store.SpanHourOfWeek) {
		return nil
	}
	step := store.SpanHour
	if q.Until.Sub(q.Since) > 62*24*time.Hour {
		step = store.SpanDay
	}
	hours, err := u.Rollups.NodeUse(ctx, store.RollupQuery{From: q.Since, To: q.Until, Span: step, Sites: q.Sites, Nodes: q.Nodes})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(hours, func(h store.NodeUse) bool { return h.CoreSeconds != nil && *h.CoreSeconds > 0 })
	if i <= 0 && (i < 0 || !hours[i].At.After(store.SpanStart(step, q.Since))) {
		return nil
	}
	q.Since = hours[i].At
	since := wire.UsageList{}
	if err = u.addRows(ctx, q, capacities{}, &since); err != nil {
		return err
	}
	cpu, texts := map[usageKey]*float64{}, newUsageTexts()
	var total wire.UsageFigures
	for i := range since.Rows {
		cpu[texts.groupKey(&since.Rows[i])] = since.Rows[i].CPUSeconds
		figure.Add(&total, &since.Rows[i].UsageFigures)
	}
	for i := range list.Rows {
		r := &list.Rows[i]
		r.CapacityShare = figure.Ratio(cpu[texts.groupKey(r)], r.CoreSeconds)
	}
	list.Total.CapacityShare = figure.Ratio(total.CPUSeconds, list.Total.CoreSeconds)
	return nil
}

// The dimensions by their numbers, in the order of [wire.UsageDimensions].
const (
	dimOwner = iota
	dimAccount
	dimPartition
	dimNode
	dimCommand
	dimKind
	dimSite
	dimQOS
	dimSize
	dimGPUs
	dimLength
	dimensions
)

func dimensionNumbers(by []string) (out []int) {
	for _, name := range by {
		out = append(out, slices.Index(wire.UsageDimensions(), name))
	}
	return out
}

// usageKey identifies the subject of a row.
type usageKey struct {
	of   [dimensions]uint32 // numbers of texts
	from int64              // Unix milliseconds, 0 for all the time
}

// projectTo returns the key with the given dimensions and the time.
func (k *usageKey) projectTo(by []int) usageKey {
	out := usageKey{from: k.from}
	for _, n := range by {
		out.of[n] = k.of[n]
	}
	return out
}

// dropDimensions returns the key without the given dimensions.
func (k usageKey) dropDimensions(dims []int) usageKey {
	for _, n := range dims {
		k.of[n] = 0
	}
	return k
}

// usageTexts are the texts of keys by their numbers, 0 for the empty one. A million runs have few different texts.
type usageTexts struct {
	text    []string
	numbers map[string]uint32
}

func newUsageTexts() *usageTexts {
	return &usageTexts{text: []string{""}, numbers: map[string]uint32{"": 0}}
}

func (t *usageTexts) textNumber(s string) uint32 {
	n, ok := t.numbers[s]
	if !ok {
		n = uint32(len(t.text))
		t.text, t.numbers[s] = append(t.text, s), n
	}
	return n
}

// runClass is the name of a range of numbers below a limit.
type runClass struct {
	below float64
	name  string
}

// The classes of the dimensions size (allocated cores), gpus (allocated) and length (seconds), in order; the last has no limit.
var (
	coreClasses = []runClass{{2, "1"}, {9, "2-8"}, {33, "9-32"}, {129, "33-128"}, {513, "129-512"}, {0, "more than 512"}}
	gpuClasses  = []runClass{{1e-9, "0"}, {2, "1"}, {5, "2-4"}, {0, "more than 4"}}
	runLengths  = []runClass{{60, "< 1 min"}, {3600, "< 1 h"}, {6 * 3600, "< 6 h"}, {86400, "< 1 d"}, {7 * 86400, "< 7 d"},
		{0, "7 d or more"}}
)

const stillRunning = "running" // the length of a run that has not ended

func className(list []runClass, v float64) string {
	for _, c := range list[:len(list)-1] {
		if v < c.below {
			return c.name
		}
	}
	return list[len(list)-1].name
}

// rankTexts returns the order of the texts of a dimension by their numbers: classes by size.
func (t *usageTexts) rankTexts(dim int) []int {
	order := slices.Sorted(maps.Keys(t.numbers))
	if dim >= dimSize {
		order = []string{""}
		for _, c := range [][]runClass{coreClasses, gpuClasses, append(runLengths, runClass{name: stillRunning})}[dim-dimSize] {
			order = append(order, c.name)
		}
	}
	out := make([]int, len(t.text))
	for i, s := range order {
		if n, ok := t.numbers[s]; ok {
			out[n] = i
		}
	}
	return out
}

// usageField returns a dimension of a row by its number.
func usageField(r *wire.Usage, n int) *string {
	return [...]*string{&r.Owner, &r.Account, &r.Partition, &r.Node, &r.Command, &r.Kind, &r.Site, &r.QOS, &r.Size, &r.GPUs, &r.Length}[n]
}

func (t *usageTexts) groupKey(r *wire.Usage) (k usageKey) {
	for n := range k.of {
		k.of[n] = t.textNumber(*usageField(r, n))
	}
	if r.From != nil {
		k.from = r.From.UnixMilli()
	}
	return k
}

// addRows adds the rows of a query.
func (u *Usage) addRows(ctx context.Context, q wire.UsageQuery, c capacities, list *wire.UsageList) error {
	switch {
	case u.Runs != nil && (needsRuns(q) || len(u.Projects) > 0 && (slices.Contains(q.By, "account") || len(q.Accounts) > 0)):
		return u.addRunRows(ctx, q, c, list)
	case !slices.Contains(q.By, "node"):
		return u.addGroupRows(ctx, q, c, list)
	}
	if err := u.addNodeRows(ctx, q, list); err != nil || len(list.Rows) > 0 || u.Runs == nil {
		return err
	}
	return u.addRunRows(ctx, q, c, list) // imported: of nodes the runs alone are known
}

// addNodeRows adds a row for each node.
func (u *Usage) addNodeRows(ctx context.Context, q wire.UsageQuery, list *wire.UsageList) error {
	nodes, err := u.Rollups.NodeUse(ctx, rollupQuery(q))
	for i := range nodes {
		n := &nodes[i]
		list.Rows = append(list.Rows, wire.Usage{
			From: spanStart(store.Span(q.Span), n.At), Site: n.Site, Node: n.Node, UsageFigures: n.Used, Capacity: n.Capacity,
			CapacityShare: figure.Ratio(n.CPUSeconds, n.CoreSeconds),
		})
	}
	return err
}

// addGroupRows adds a row for each group of workloads.
func (u *Usage) addGroupRows(ctx context.Context, q wire.UsageQuery, c capacities, list *wire.UsageList) error {
	rows, err := u.Rollups.Use(ctx, rollupQuery(q))
	for i := range rows {
		r := &rows[i]
		row := wire.Usage{From: spanStart(store.Span(q.Span), r.At), Site: r.Site, Owner: r.Owner, Account: r.Account,
			Partition: r.Partition,
			Command:   r.Command, Kind: r.Kind, UsageFigures: r.Used}
		if n := c.forRow(&row); n != nil {
			row.Capacity, row.CapacityShare = n.Capacity, figure.Ratio(r.CPUSeconds, n.CoreSeconds)
		}
		list.Rows = append(list.Rows, row)
	}
	return err
}

// pendingWork returns the selected workloads that are waiting now; nil if there are none.
func (u *Usage) pendingWork(ctx context.Context, q wire.UsageQuery) (*wire.Pending, error) {
	rows, n, err := u.Catalogue.Workloads(ctx, store.Filter{
		States: []string{"pending"}, Kinds: q.Kinds, Owners: q.Owners, Accounts: q.Accounts, Partitions: q.Partitions, Command: q.Command,
	})
	if err != nil || n == 0 {
		return nil, err
	}
	p := &wire.Pending{Workloads: n}
	now := u.Clock()
	for i := range rows {
		p.Workloads += max(int(orZero(rows[i].WaitingTasks))-1, 0)
		figure.Plus(&p.RequestCores, rows[i].RequestCores)
		figure.Plus(&p.RequestGPUs, rows[i].RequestGPUs)
		if at := rows[i].Submit; !at.IsZero() && !at.After(now) {
			if s := now.Sub(at).Seconds(); p.LongestSeconds == nil || s > *p.LongestSeconds {
				p.LongestSeconds = &s
			}
		}
	}
	return p, nil
}

func spanStart(span store.Span, at time.Time) *time.Time {
	if span == store.SpanWhole {
		return nil
	}
	return &at
}
