package answer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"reckon/analysis/rank"
	"reckon/answer/forecast"
	"reckon/client"
	"reckon/store"
)

// Ranks answers where work should go. Nodes are read again after a few seconds, while what was read before answers; curves of power are
// fitted again after hours: a scheduler asks often, and waits for no reading.
// It is safe for concurrent use.
type Ranks struct {
	Views     NodeViews
	Rollups   NodeUse // nil: no curve is fitted
	Forecasts store.Forecasts
	Data      DataPlaces // nil: nothing says where data is
	Outage    *Outage
	Gone      time.Duration // for how long a node may be silent and still count as measured
	Clock     func() time.Time

	dataWanted atomic.Bool // a question named data
	mu         sync.Mutex
	rankedLook
	wanted chan struct{} // a look that Run shall take
	curves map[nodeName]nodePower
	fitted time.Time
	placed []placement
	ready  rankedNodes
	out    []rank.Place
}

// rankedLook is one look at the nodes.
type rankedLook struct {
	nodes []client.Node
	upper map[nodeFigure][]store.Forecast
	read  time.Time
	data  []DataPlace
	// dataRead is when data was; zero while no question named any.
	dataRead time.Time
}

// DataPlaces says which data is on which node.
type DataPlaces interface {
	Places(ctx context.Context) ([]DataPlace, error)
}

// DataPlace is data on a node: it is stored there, or work that runs there has it mounted.
type DataPlace struct {
	IRI, Name  string // Name is KIND/NAMESPACE/NAME, or KIND/NAME
	Site, Node string
}

type nodeFigure struct{ site, node, figure string }

// placement is work that was placed and is not measured yet.
type placement struct {
	work, site, node    string
	cores, memory, gpus float64
	at                  time.Time
}

// rankedNodes is what the ranker is given, and what the answer says of each beside its verdict.
type rankedNodes struct {
	list []rank.Node
	how  []string // of the curve
	site []string
}

const (
	// rankFresh is for how long nodes that were read answer questions.
	rankFresh = 10 * time.Second
	// rankOld is for how long they do while they are read again, which may take so long.
	rankOld, rankRefresh = time.Minute, 30 * time.Second
	// refit is after how long curves are fitted again, to so many days, so many nodes at a time.
	refit         = 12 * time.Hour
	fitDays       = 35
	fitAtOnce     = 50
	defaultStay   = 24 * time.Hour
	forecastFresh = 2 * forecast.Old
)

// Rank orders the nodes for work.
func (r *Ranks) Rank(ctx context.Context, q client.RankQuery) (client.Ranking, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := client.Ranking{Nodes: []client.RankedNode{}}
	now := r.Clock()
	switch age := now.Sub(r.read); {
	case age > rankOld:
		found, err := r.look(ctx, now)
		if err := r.Outage.degrade(&out.Missing, "all nodes", err); err != nil {
			return out, err
		}
		if err == nil {
			r.rankedLook = found
		}
	case age > rankFresh:
		select {
		case r.again() <- struct{}{}:
		default: // it is under way
		}
	}
	if len(q.Data) > 0 {
		r.readData(ctx, now)
	}
	stay := defaultStay
	if q.Hours > 0 {
		stay = time.Duration(min(q.Hours, 1e4) * float64(time.Hour))
	}
	r.prepare(q, now, stay)
	c := rank.Default()
	c.MaxAge = max(r.Gone, rankFresh).Seconds() + rankFresh.Seconds()
	w := rank.Work{Cores: q.Cores, Memory: q.MemoryBytes, GPUs: q.GPUs, UseCores: math.NaN(), GPUWatts: q.GPUWatts}
	if q.UseCores > 0 {
		w.UseCores = q.UseCores
	}
	r.out = rank.Rank(c, w, r.ready.list, r.out)
	scores := rank.Scores(r.out)
	for i, p := range r.out {
		if q.Limit > 0 && i == q.Limit {
			break
		}
		out.Nodes = append(out.Nodes, client.RankedNode{
			Node: r.ready.list[p.Node].Name, Site: r.ready.site[p.Node], Tier: tierWord(p.Tier), Score: scores[i], Watts: finite(p.Watts), Headroom: finite(p.Headroom), Data: p.Data, Why: reasonWords(p.Why), Curve: r.ready.how[p.Node],
		})
	}
	return out, nil
}

// Placed notes that work was placed on a node, or is not any more: until it is measured there it counts beside what is. Work with an
// id counts once, where it was placed last.
func (r *Ranks) Placed(_ context.Context, site, node string, removed bool, q client.RankQuery) error {
	if node == "" {
		return Invalid("give the node", errors.New("no node was named"))
	}
	if removed && q.Work == "" {
		return Invalid("give the id of the work that was removed", errors.New("no work was named"))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock()
	r.forget(now)
	if q.Work != "" {
		r.placed = slices.DeleteFunc(r.placed, func(p placement) bool { return p.work == q.Work })
	}
	if removed {
		return nil
	}
	if len(r.placed) >= 100_000 {
		return Busy("", errors.New("too much was placed in the last minutes"))
	}
	use := q.UseCores
	if use == 0 {
		use = q.Cores
	}
	r.placed = append(r.placed, placement{q.Work, site, node, use, q.MemoryBytes, q.GPUs, now})
	return nil
}

// forget drops placements that are measured by now.
func (r *Ranks) forget(now time.Time) {
	r.placed = slices.DeleteFunc(r.placed, func(p placement) bool { return now.Sub(p.at) > max(r.Gone/2, time.Minute) })
}

// again is the channel of looks that Run shall take; the lock must be held.
func (r *Ranks) again() chan struct{} {
	if r.wanted == nil {
		r.wanted = make(chan struct{}, 1)
	}
	return r.wanted
}

// refresh looks again; what fails is tried again when the look is too old.
func (r *Ranks) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, rankRefresh)
	defer cancel()
	found, err := r.look(ctx, r.Clock())
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && found.read.After(r.read) {
		r.rankedLook = found
	}
}

func (r *Ranks) look(ctx context.Context, now time.Time) (rankedLook, error) {
	out := rankedLook{read: now, upper: map[nodeFigure][]store.Forecast{}}
	var err error
	if out.nodes, err = r.Views.Nodes(ctx, now); err != nil {
		return out, err
	}
	list, err := r.Forecasts.Forecasts(ctx, store.ForecastFilter{Subject: forecast.Node, Figures: []string{"cores", "memory_bytes"}, Since: now.Add(-forecastFresh), Newest: true})
	if err != nil {
		return out, err
	}
	if r.dataWanted.Load() {
		if out.data, err = r.Data.Places(ctx); err != nil {
			return out, err
		}
		out.dataRead = now
	}
	daily, err := r.Forecasts.Forecasts(ctx, store.ForecastFilter{Subject: forecast.Node, Figures: []string{"cores", "memory_bytes"}, Since: now.Add(-forecast.Old)})
	if err != nil {
		return out, err
	}
	for _, f := range append(slices.DeleteFunc(daily, func(f store.Forecast) bool { return len(f.Point) < forecast.DailySteps }), list...) {
		id := nodeFigure{f.Site, f.Name, f.Figure}
		out.upper[id] = append(out.upper[id], f)
	}
	return out, nil
}

// Fit fits the curves of power again if that is due; it takes seconds where there are many nodes.
func (r *Ranks) Fit(ctx context.Context) error {
	now := r.Clock()
	r.mu.Lock()
	due := r.Rollups != nil && now.Sub(r.fitted) > refit
	r.mu.Unlock()
	if !due {
		return nil
	}
	recent, err := r.Rollups.NodeUse(ctx, store.RollupQuery{From: now.AddDate(0, 0, -1), To: now, Span: store.SpanWhole, By: []string{"site", "node"}})
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
		rows, err := r.Rollups.NodeUse(ctx, store.RollupQuery{From: now.AddDate(0, 0, -fitDays), To: now, Span: store.SpanHour, By: []string{"site", "node"}, Nodes: some})
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

// nodePower is what the power of a node depends on.
type nodePower struct {
	curve rank.Curve
	gpu   float64 // watts of a busy GPU; 0 where that is not known
}

func fitCurves(rows []store.NodeUse, into map[nodeName]nodePower) {
	loads := map[nodeName][]rank.Load{}
	for i := range rows {
		u := &rows[i]
		if u.NodeJoules == nil || u.CoreUsedSeconds == nil || u.CoreSeconds == nil || u.UpSeconds == nil || *u.UpSeconds < 900 || *u.CoreSeconds <= 0 {
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
		if c, ok := rank.FitCurve(l); ok {
			into[id] = nodePower{c, rank.GPUWatts(l)}
		}
	}
}

// orNaN is what analyses take for a figure that is not known.
func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// prepare makes what the ranker is given.
func (r *Ranks) prepare(q client.RankQuery, now time.Time, stay time.Duration) {
	r.forget(now)
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
			Name: n.Node, Cores: orNaN(n.Cores), Memory: orNaN(n.MemoryBytes), GPUs: orNaN(n.GPUs), UsedCores: orNaN(n.CoresUsed), UsedMemory: orNaN(n.MemoryUsed),
			HeldCores: math.NaN(), HeldMemory: math.NaN(), HeldGPUs: math.NaN(), Age: now.Sub(n.Seen).Seconds(), Closed: !n.Up,
			Pressure: math.NaN(), Data: r.share(q.Data, n), UpperCores: math.NaN(), UpperMemory: math.NaN(),
		}
		if !n.Agent {
			one.Age = math.NaN()
		}
		for _, v := range []*float64{n.CPUPressure, n.MemoryPressure, n.IOPressure} {
			if v != nil && !(one.Pressure >= *v) {
				one.Pressure = *v
			}
		}
		if b := n.Batch; b != nil {
			one.Closed = one.Closed || !b.Open
			one.HeldCores, one.HeldMemory, one.HeldGPUs = orNaN(b.CoresHeld), orNaN(b.MemoryHeld), orNaN(b.GPUsHeld)
		}
		var change float64
		change, one.UpperCores = r.expected(n, "cores", now, stay)
		_, one.UpperMemory = r.expected(n, "memory_bytes", now, stay)
		one.ExpectedCores = max(one.UsedCores+change, 0) // NaN stays
		r.addPlaced(q.Work, n, &one)
		how := ""
		one.Curve, how = r.curve(n)
		one.GPUWatts = r.curves[nodeName{n.Site, n.Node}].gpu
		p.list, p.how, p.site = append(p.list, one), append(p.how, how), append(p.site, n.Site)
	}
}

// dataWithin is for how long a question waits for where its data is; a scheduler waits for 20 ms in all.
const dataWithin = 10 * time.Millisecond

// readData finds out where data is, the first time that a question names some; after that each look does. What takes too long is read in
// the background, and the question is answered without.
func (r *Ranks) readData(ctx context.Context, now time.Time) {
	if r.Data == nil || r.dataWanted.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dataWithin)
	defer cancel()
	list, err := r.Data.Places(ctx)
	if err != nil {
		select {
		case r.again() <- struct{}{}:
		default:
		}
		return
	}
	r.data, r.dataRead = list, now
}

// share is how much of the data is on a node; NaN where none is named or nothing says where it is.
func (r *Ranks) share(names []string, n *client.Node) float64 {
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

func (r *Ranks) addPlaced(work string, n *client.Node, one *rank.Node) {
	for i := range r.placed {
		p := &r.placed[i]
		if work != "" && p.work == work || p.node != n.Node || p.site != "" && p.site != n.Site {
			continue
		}
		one.PlacedCores, one.PlacedMemory = one.PlacedCores+p.cores, one.PlacedMemory+p.memory
		one.HeldCores, one.HeldMemory, one.HeldGPUs = addTo(one.HeldCores, p.cores), addTo(one.HeldMemory, p.memory), addTo(one.HeldGPUs, p.gpus)
	}
}

// addTo adds to a figure that may not be known: then what is added is all that is.
func addTo(v, more float64) float64 {
	if math.IsNaN(v) {
		return more
	}
	return v + more
}

// expected is what was forecast for the time that the work stays: by how much the mean differs from now, by the newest daily forecast (what was
// placed since it was made is in what is measured now), and the highest upper end of a band of any forecast; NaN where nothing was forecast.
func (r *Ranks) expected(n *client.Node, figure string, now time.Time, stay time.Duration) (change, highest float64) {
	change, highest = math.NaN(), math.NaN()
	made := time.Time{}
	for _, f := range r.upper[nodeFigure{n.Site, n.Node, figure}] {
		first, sum, hours := math.NaN(), 0.0, 0.0
		for k, v := range f.High {
			at := f.Made.Add(time.Duration(k) * f.Step)
			if !at.Add(f.Step).After(now) || !at.Before(now.Add(stay)) {
				continue
			}
			if hours == 0 {
				first = f.Point[k]
			}
			sum, hours = sum+f.Point[k], hours+1
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

// curve is the power of a node by use: fitted to its hours, or a line from its idle power to that of now.
func (r *Ranks) curve(n *client.Node) (rank.Curve, string) {
	if c, ok := r.curves[nodeName{n.Site, n.Node}]; ok {
		return c.curve, "fitted"
	}
	if n.Watts != nil && n.WattsIdle != nil && n.CoresUsed != nil && n.Cores != nil && *n.Cores > 0 {
		if c, ok := rank.Line(*n.WattsIdle, rank.Load{Share: *n.CoresUsed / *n.Cores, Watts: *n.Watts}); ok {
			return c, "line"
		}
	}
	return rank.Curve{}, "none"
}

func tierWord(t rank.Tier) string {
	return [...]string{"room", "tight", "unknown", "none"}[t]
}

// reasonWords says why in words.
func reasonWords(w rank.Reason) []string {
	out := []string{}
	for i, word := range []string{"takes no work", "too few cores", "too little memory", "too few GPUs", "load not measured", "stale", "cores tight by forecast", "memory tight by forecast", "tasks wait", "power not known (highest of the others)", "data is elsewhere"} {
		if w&(1<<i) != 0 {
			out = append(out, word)
		}
	}
	return out
}

// Run fits curves when that is due, and looks at the nodes again while questions come, until the context ends.
func (r *Ranks) Run(ctx context.Context, every time.Duration, failed func(error)) {
	timer := time.NewTimer(min(every, time.Minute))
	defer timer.Stop()
	r.mu.Lock()
	wanted := r.again()
	r.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wanted:
			r.refresh(ctx)
			continue
		case <-timer.C:
		}
		if err := r.Fit(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		timer.Reset(every)
	}
}
