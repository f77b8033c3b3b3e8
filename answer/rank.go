package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"reckon/analysis/misuse"
	"reckon/analysis/rank"
	"reckon/answer/findings"
	"reckon/answer/forecast"
	"reckon/figure/wire"
	"reckon/store"
)

// Ranks ranks nodes for new work. It reads nodes again in the background after a few seconds. Meanwhile it uses the
// previous list, because schedulers query often and must not wait. It refits power curves after some hours. It is safe
// for concurrent use.
type Ranks struct {
	Views     NodeLists
	Rollups   NodeUse // nil: no curve is fitted
	Forecasts store.Forecasts
	// Findings has the open anomalies of nodes; nil: none is known.
	Findings interface {
		Findings(ctx context.Context, f store.FindingFilter) ([]store.Finding, int, error)
	}
	Data   DataPlaces // nil: the location of data is unknown
	Outage *Outage
	Gone   time.Duration // how long a node may be silent and still count as measured
	Clock  func() time.Time

	dataWanted atomic.Bool // a query named data
	mu         sync.Mutex
	nodesReading
	wanted chan struct{} // requests a refresh from Run
	curves map[nodeName]nodePower
	fitted time.Time
	placed []placement
	ready  rankedNodes
	out    []rank.Place
}

// nodesReading is one reading of the nodes.
type nodesReading struct {
	nodes []wire.Node
	apart map[nodeName]bool // nodes in no partition
	upper map[nodeFigure][]store.Forecast
	odd   map[nodeName]float64 // of nodes with an open anomaly: bytes an hour that their memory rises by, 0 for another one
	read  time.Time
	// listed is the time of the list of nodes, which is earlier if a kept list was used.
	listed time.Time
	data   []DataPlace
	// dataRead is the time when data was read; zero while no query named any.
	dataRead time.Time
}

// DataPlaces lists the nodes on which data is stored.
type DataPlaces interface {
	Places(ctx context.Context) ([]DataPlace, error)
}

// DataPlace is data on a node: stored there, or mounted by work that runs there.
type DataPlace struct {
	IRI, Name  string // Name is KIND/NAMESPACE/NAME, or KIND/NAME
	Site, Node string
}

type nodeFigure struct{ site, node, figure string }

// placement is work that was placed but is not yet measured.
type placement struct {
	work, site, node    string
	cores, memory, gpus float64
	at                  time.Time
}

// rankedNodes is the input of the ranker, with further parts of the answer about each node.
type rankedNodes struct {
	list []rank.Node
	how  []string // source of the curve
	site []string
}

const (
	// rankFresh is the time that a reading of the nodes is used.
	rankFresh = 10 * time.Second
	// rankOld is the time for which a reading is used while a new one is in progress, which may take up to rankRefresh.
	rankOld, rankRefresh = time.Minute, 30 * time.Second
	// Curves are refitted every refit, over fitDays days, fitAtOnce nodes at a time.
	refit         = 12 * time.Hour
	fitDays       = 35
	fitAtOnce     = 50
	defaultStay   = 24 * time.Hour
	forecastFresh = 2 * forecast.Old
)

// Rank orders the nodes for work.
func (r *Ranks) Rank(ctx context.Context, q wire.RankQuery) (wire.Ranking, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := wire.Ranking{Nodes: []wire.RankedNode{}}
	now := r.Clock()
	switch age := now.Sub(r.read); {
	case age > rankOld:
		found, err := r.readState(ctx, now)
		if err := r.Outage.addMissing(&out.Missing, "all nodes", err); err != nil {
			return out, err
		}
		if err == nil {
			r.nodesReading = found
		}
	case age > rankFresh:
		select {
		case r.refreshRequests() <- struct{}{}:
		default: // already requested
		}
	}
	if now.Sub(r.listed) > rankOld && !r.listed.IsZero() {
		at := r.listed
		out.AsOf = &at
	}
	if len(q.Data) > 0 {
		r.readData(ctx, now)
	}
	stay := defaultStay
	if q.Hours > 0 {
		stay = time.Duration(min(q.Hours, 1e4) * float64(time.Hour))
	}
	r.buildInput(q, now, stay)
	c := rank.Default()
	c.MaxAge, c.WattsOnly = max(r.Gone, rankFresh).Seconds()+rankFresh.Seconds(), q.WattsOnly
	w := rank.Work{Cores: q.Cores, Memory: q.MemoryBytes, GPUs: q.GPUs, UseCores: math.NaN(), GPUWatts: q.GPUWatts, Hours: stay.Hours()}
	if q.UseCores > 0 {
		w.UseCores = q.UseCores
	}
	r.out = rank.Rank(c, w, r.ready.list, r.out)
	scores := rank.Scores(r.out)
	for i, p := range r.out {
		if q.Limit > 0 && i == q.Limit {
			break
		}
		if p.Why&rank.NoGPUWatts != 0 {
			p.Watts = math.NaN()
		}
		out.Nodes = append(out.Nodes, wire.RankedNode{
			Node: r.ready.list[p.Node].Name, Site: r.ready.site[p.Node], Tier: tierName(p.Tier), Score: scores[i],
			Watts:    finiteOrNil(p.Watts),
			Headroom: finiteOrNil(p.Headroom), Data: p.Data, Why: formatReasons(&p), Curve: r.ready.how[p.Node],
		})
	}
	return out, nil
}

// Placed records that work was placed on a node, or removed from it. The work is added to the measured load until the
// node's measurements include it. If work with an id is placed again, it counts only on its last node.
func (r *Ranks) Placed(_ context.Context, site, node string, removed bool, q wire.RankQuery) error {
	if node == "" {
		return Invalid("give the node", errors.New("no node was named"))
	}
	if removed && q.Work == "" {
		return Invalid("give the id of the work that was removed", errors.New("no work was named"))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock()
	r.dropMeasured()
	if q.Work != "" {
		r.placed = slices.DeleteFunc(r.placed, func(p placement) bool { return p.work == q.Work })
	}
	if removed {
		return nil
	}
	if len(r.placed) >= 100_000 {
		return Busy("", errors.New("too much was placed in the last minutes"))
	}
	use := cmp.Or(q.UseCores, q.Cores)
	r.placed = append(r.placed, placement{q.Work, site, node, use, q.MemoryBytes, q.GPUs, now})
	return nil
}

// dropMeasured drops placements of work that the measurements of its node include by now.
func (r *Ranks) dropMeasured() {
	r.placed = slices.DeleteFunc(r.placed, func(p placement) bool { return r.listed.Sub(p.at) > max(r.Gone/2, time.Minute) })
}

// refreshRequests returns the channel of refreshes requested from Run; the lock must be held.
func (r *Ranks) refreshRequests() chan struct{} {
	if r.wanted == nil {
		r.wanted = make(chan struct{}, 1)
	}
	return r.wanted
}

// refreshNodes reads the nodes again. After an error the next query tries again once the reading is too old.
func (r *Ranks) refreshNodes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, rankRefresh)
	defer cancel()
	found, err := r.readState(ctx, r.Clock())
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && found.read.After(r.read) {
		r.nodesReading = found
	}
}

func (r *Ranks) readState(ctx context.Context, now time.Time) (nodesReading, error) {
	out := nodesReading{read: now, upper: map[nodeFigure][]store.Forecast{}, odd: map[nodeName]float64{}}
	var err error
	if out.nodes, out.listed, err = r.Views.NodesAsOf(ctx, now); err != nil {
		return out, err
	}
	out.apart = unscheduledNodes(out.nodes)
	list, err := r.Forecasts.Forecasts(ctx,
		store.ForecastFilter{Subject: forecast.Node, Figures: []string{"cores", "memory_bytes"}, Since: now.Add(-forecastFresh),
			Newest: true})
	if err != nil {
		return out, err
	}
	if r.Findings != nil {
		odd, _, err := r.Findings.Findings(ctx, store.FindingFilter{Rules: []string{string(misuse.Anomaly)},
			States: []string{store.FindingNew, store.FindingOpen}, Now: now})
		if err != nil {
			return out, err
		}
		for i := range odd {
			evidence, _, err := findings.Figures(&odd[i])
			if id := (nodeName{odd[i].Site, odd[i].Node}); id.node != "" && err == nil {
				out.odd[id] = max(out.odd[id], forecast.MemoryPerHour(evidence))
			}
		}
	}
	if r.dataWanted.Load() {
		if out.data, err = r.Data.Places(ctx); err != nil {
			return out, err
		}
		out.dataRead = now
	}
	daily, err := r.Forecasts.Forecasts(ctx,
		store.ForecastFilter{Subject: forecast.Node, Figures: []string{"cores", "memory_bytes"}, Since: now.Add(-forecast.Old)})
	if err != nil {
		return out, err
	}
	for _, f := range append(slices.DeleteFunc(daily, func(f store.Forecast) bool { return len(f.Point) < forecast.DailySteps }), list...) {
		id := nodeFigure{f.Site, f.Name, f.Figure}
		out.upper[id] = append(out.upper[id], f)
	}
	return out, nil
}

// Fit refits the power curves if they are old. With many nodes, that takes seconds.
func (r *Ranks) Fit(ctx context.Context) error {
	now := r.Clock()
	r.mu.Lock()
	due := r.Rollups != nil && now.Sub(r.fitted) > refit
	r.mu.Unlock()
	if !due {
		return nil
	}
	recent, err := r.Rollups.NodeUse(ctx,
		store.RollupQuery{From: now.AddDate(0, 0, -1), To: now, Span: store.SpanWhole, By: []string{"site", "node"}})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	var names []string
	for i := range recent {
		names = append(names, recent[i].Node)
	}
	slices.Sort(names)
	curves := map[nodeName]nodePower{}
	for some := range slices.Chunk(slices.Compact(names), fitAtOnce) {
		rows, err := r.Rollups.NodeUse(ctx,
			store.RollupQuery{From: now.AddDate(0, 0, -fitDays), To: now, Span: store.SpanHour, By: []string{"site", "node"}, Nodes: some})
		if err != nil {
			return fmt.Errorf("read the hours of nodes: %w", err)
		}
		fitCurves(rows, curves)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(curves) > 0 || len(names) > 0 {
		r.fitted = now
	}
	r.curves = curves
	return nil
}

// nodePower holds the parameters of the power of a node.
type nodePower struct {
	curve rank.Curve // unknown if there were too few loads, or all were alike
	gpu   float64    // watts of a busy GPU; 0 if unknown
}

func fitCurves(rows []store.NodeUse, into map[nodeName]nodePower) {
	loads := map[nodeName][]rank.Load{}
	for i := range rows {
		u := &rows[i]
		if u.NodeJoules == nil || u.CoreUsedSeconds == nil || u.CoreSeconds == nil || u.UpSeconds == nil || *u.UpSeconds < 900 ||
			*u.CoreSeconds <= 0 {
			continue
		}
		id := nodeName{u.Site, u.Node}
		load := rank.Load{Share: *u.CoreUsedSeconds / *u.CoreSeconds, Watts: *u.NodeJoules / *u.UpSeconds}
		if u.GPUSeconds != nil {
			load.GPUs = *u.GPUSeconds / *u.UpSeconds
		}
		loads[id] = append(loads[id], load)
	}
	for id, l := range loads {
		c, _ := rank.FitCurve(l)
		into[id] = nodePower{c, rank.GPUWatts(l)}
	}
}

// orNaN returns NaN for an unknown figure, as analyses expect.
func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// buildInput builds the input of the ranker.
func (r *Ranks) buildInput(q wire.RankQuery, now time.Time, stay time.Duration) {
	r.dropMeasured()
	p := &r.ready
	p.list, p.how, p.site = p.list[:0], p.how[:0], p.site[:0]
	wanted := map[string]bool{}
	for _, n := range q.Nodes {
		wanted[n] = true
	}
	for i := range r.nodes {
		n := &r.nodes[i]
		if q.Site != "" && n.Site != q.Site || len(wanted) > 0 && !wanted[n.Node] {
			continue
		}
		one := rank.Node{
			Name: n.Node, Cores: orNaN(n.Cores), Memory: orNaN(n.MemoryBytes), GPUs: orNaN(n.GPUs), UsedCores: orNaN(n.CoresUsed),
			UsedMemory: orNaN(n.MemoryUsed),
			HeldCores:  math.NaN(), HeldMemory: math.NaN(), HeldGPUs: math.NaN(), Age: now.Sub(n.Seen).Seconds(), Closed: !n.Up,
			Pressure: math.NaN(), Data: r.dataShare(q.Data, n), UpperCores: math.NaN(), UpperMemory: math.NaN(),
		}
		if !n.Agent {
			one.Age = math.NaN()
		}
		for _, v := range []*float64{n.CPUPressure, n.MemoryPressure, n.IOPressure} {
			if v != nil && !(one.Pressure >= *v) {
				one.Pressure = *v
			}
		}
		one.NoPartition = len(wanted) == 0 && r.apart[nodeName{n.Site, n.Node}]
		if b := n.Batch; b != nil {
			one.Closed = one.Closed || !b.Open
			one.HeldCores, one.HeldMemory, one.HeldGPUs = orNaN(b.CoresHeld), orNaN(b.MemoryHeld), orNaN(b.GPUsHeld)
		}
		var change float64
		one.MemoryPerHour, one.Unusual = r.odd[nodeName{n.Site, n.Node}]
		one.Unusual = one.Unusual && one.MemoryPerHour == 0
		change, one.UpperCores = r.expectedChange(n, "cores", now, stay)
		_, one.UpperMemory = r.expectedChange(n, "memory_bytes", now, stay)
		one.ExpectedCores = max(one.UsedCores+change, 0) // NaN is preserved
		r.addPlaced(q.Work, n, &one)
		how := ""
		one.Curve, how = r.powerCurve(n)
		one.GPUWatts = r.curves[nodeName{n.Site, n.Node}].gpu
		p.list, p.how, p.site = append(p.list, one), append(p.how, how), append(p.site, n.Site)
	}
}

// dataWithin is the time that a query waits for the location of its data; a scheduler waits 20 ms in all.
const dataWithin = 10 * time.Millisecond

// readData reads the locations of data. It does so when a query first names some, and later together with the nodes. If
// reading takes too long, it continues in the background, and the query is answered without them.
func (r *Ranks) readData(ctx context.Context, now time.Time) {
	if r.Data == nil || r.dataWanted.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dataWithin)
	defer cancel()
	list, err := r.Data.Places(ctx)
	if err != nil {
		select {
		case r.refreshRequests() <- struct{}{}:
		default:
		}
		return
	}
	r.data, r.dataRead = list, now
}

// dataShare returns the share of the named data that is on a node, or NaN if none is named or its location is unknown.
func (r *Ranks) dataShare(names []string, n *wire.Node) float64 {
	if len(names) == 0 || r.dataRead.IsZero() {
		return math.NaN()
	}
	there := 0
	for _, name := range names {
		if slices.ContainsFunc(r.data, func(p DataPlace) bool {
			return (p.IRI == name || p.Name == name) && p.Node == n.Node && (p.Site == n.Site || p.Site == "")
		}) {
			there++
		}
	}
	return float64(there) / float64(len(names))
}

func (r *Ranks) addPlaced(work string, n *wire.Node, one *rank.Node) {
	for i := range r.placed {
		p := &r.placed[i]
		if work != "" && p.work == work || p.node != n.Node || p.site != "" && p.site != n.Site {
			continue
		}
		one.PlacedCores, one.PlacedMemory = one.PlacedCores+p.cores, one.PlacedMemory+p.memory
		one.HeldCores, one.HeldMemory, one.HeldGPUs = addKnown(one.HeldCores, p.cores), addKnown(one.HeldMemory, p.memory),
			addKnown(one.HeldGPUs, p.gpus)
	}
}

// addKnown adds more to a figure; if the figure is unknown, the result is more.
func addKnown(v, more float64) float64 {
	if math.IsNaN(v) {
		return more
	}
	return v + more
}

// expectedChange returns the forecast of a figure of a node over stay, the time that the work stays. change is the mean minus
// the current value, by the newest daily forecast; the current value includes work placed since then. highest is the
// highest upper bound of any forecast. Both are NaN without a forecast.
func (r *Ranks) expectedChange(n *wire.Node, figure string, now time.Time, stay time.Duration) (change, highest float64) {
	change, highest = math.NaN(), math.NaN()
	made := time.Time{}
	for _, f := range r.upper[nodeFigure{n.Site, n.Node, figure}] {
		first, sum, hours := math.NaN(), 0.0, 0.0
		mean := f.Mean
		if mean == nil { // made by an older version
			mean = f.Point
		}
		for k, v := range f.High {
			at := f.Made.Add(time.Duration(k) * f.Step)
			if !at.Add(f.Step).After(now) || !at.Before(now.Add(stay)) {
				continue
			}
			if hours == 0 {
				first = mean[k]
			}
			sum, hours = sum+mean[k], hours+1
			if !(highest >= v) {
				highest = v
			}
		}
		if len(f.Point) >= forecast.DailySteps && hours > 0 && f.Made.After(made) {
			change, made = sum/hours-first, f.Made
		}
	}
	return change, highest
}

// powerCurve returns the power of a node by load: fitted to its history, or a line from its idle power to its current power.
func (r *Ranks) powerCurve(n *wire.Node) (rank.Curve, string) {
	if c := r.curves[nodeName{n.Site, n.Node}].curve; c.Known() {
		return c, "fitted"
	}
	if n.Watts != nil && n.WattsIdle != nil && n.CoresUsed != nil && n.Cores != nil && *n.Cores > 0 {
		if c, ok := rank.Line(*n.WattsIdle, rank.Load{Share: *n.CoresUsed / *n.Cores, Watts: *n.Watts}); ok {
			return c, "line"
		}
	}
	return rank.Curve{}, "none"
}

func tierName(t rank.Tier) string {
	return [...]string{"room", "tight", "unknown", "none"}[t]
}

// formatReasons returns the reasons as texts.
func formatReasons(p *rank.Place) []string {
	out, power := []string{}, "power unknown (highest of the others used)"
	if math.IsNaN(p.Watts) {
		power = "power unknown"
	}
	for i, word := range []string{"accepts no work", "too few cores", "too little memory", "too few GPUs", "load not measured", "stale",
		"cores tight by forecast", "memory tight by forecast", "tasks wait", power, "data is elsewhere",
		"keeps GPUs or memory from other work", "in no partition", "power of its GPUs unknown",
		"memory climbs to its limit", "unusual behaviour"} {
		if p.Why&(1<<i) != 0 {
			out = append(out, word)
		}
	}
	return out
}

// Run refits curves when due, and reads the nodes again while queries come in, until the context ends.
func (r *Ranks) Run(ctx context.Context, every time.Duration, failed func(error)) {
	timer := time.NewTimer(min(every, time.Minute))
	defer timer.Stop()
	r.mu.Lock()
	wanted := r.refreshRequests()
	r.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wanted:
			r.refreshNodes(ctx)
			continue
		case <-timer.C:
		}
		if err := r.Fit(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		timer.Reset(every)
	}
}
