package catalogue

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/store"
	"reckon/workload"
)

const hourMS = int64(time.Hour / time.Millisecond)

// pass computes the roll-ups of a few consecutive periods: hours, or parts of the current hours.
type pass struct {
	from, to int64   // milliseconds
	edges    []int64 // start of each stretch, and to
	near     int     // the stretch found last
	back     int64   // the earliest time before from that a gap reaches back to
	// samples from this time on were unknown when the time before from was made; 0: they were known as far as it reads ahead
	fresh  int64
	known  int64 // the newest sample that was read when the time before from was made; 0: that is not known
	newest int64 // the newest sample of those that count
	reach  int64 // for how long before from samples are read, milliseconds
	older  bool  // there are samples before that
	short  bool  // a series may have some which count
	apart  int64 // the longest time between two samples of a counter that counted something, milliseconds
	spreadSums
	batch   bool         // it holds runs of a batch system
	history *historyPass // nil but for imported time

	starts map[partKey][]counterBegin // by owner, and of all owners of the part by none
	boots  map[nodeKey]nodeBoots
	facts  map[workloadKey]workloadFact
	// watched is the time since which an agent watches a node, as far as samples were read.
	// Imported nodes have none.
	watched map[nodeKey]int64
	doubts  map[kindFigure][]inexactSpan

	cells    map[useCell]*figureSums
	ahead    time.Duration // how far beyond the hours samples are read
	software map[useCell]map[string]float64
	nodes    map[nodeCell]*nodeFigures
	held     map[workloadKey]map[string]*holding // by node
	byFacts  map[workloadKey]bool                // cells has their allocations: see allocations
	starting []store.Use                         // of the workloads that began
	use      []store.Use                         // of the parts that were read before

	names series.Labels
}

// nodeKey names a node.
type nodeKey struct{ site, node string }

// partKey identifies the part of a workload that one owner has. Each part counts from its own start.
type partKey struct {
	workloadKey
	partPlace
}

// workloadFact describes a workload in the hours of the pass.
type workloadFact struct{ owner, kind, account, partition, command string }

type useCell struct {
	workloadKey
	hour  int64
	owner string // owner of a process group, which may have several users with their own use; empty for other kinds
}

// seriesCell returns the cell of an hour that a series counts in.
func seriesCell(n *series.Labels, hour int64) useCell {
	c := useCell{workloadKey: workloadKey{n.Site, n.Workload}, hour: hour}
	if workload.Kind(n.Kind).Group() {
		c.owner = n.Owner
	}
	return c
}

type nodeCell struct {
	nodeKey
	hour int64
}

// figureSums holds sums by figure. A figure without a bit in has was not measured.
type figureSums struct {
	has       [(figure.UsedLen + 63) / 64]uint64
	sum       [figure.UsedLen]float64
	exactness figure.Degrees
}

func (f *figureSums) addValue(i int, v float64) {
	f.has[i/64] |= 1 << (i % 64)
	f.sum[i] += v
}

var (
	usedMemory       = figure.Index(figure.Hours, "memory_byte_seconds")
	usedCPU          = figure.Index(figure.Hours, "cpu_seconds")
	usedInterpolated = figure.Index(figure.Hours, "cpu_interpolated_seconds")
)

func (f *figureSums) usedRow() (u store.Used) {
	for i, v := range f.sum {
		if f.has[i/64]&(1<<(i%64)) != 0 && (v != 0 || i != usedMemory) { // a running workload has memory: none was measured over a time
			*u.At(i) = new(v)
		}
	}
	u.Exactness = f.exactness
	return u
}

type nodeFigures struct {
	figureSums
	cpus               map[string]float64 // by processor: the seconds it was there
	used, guess        float64            // of processors
	total, free, power *float64
	was                struct{ total, free float64 } // of the parts that were read before
}

// holding is the requested allocation of a workload on one node: core seconds by hour.
type holding struct {
	cores float64
	hours []float64
}

// newPass returns a pass over the hours of a time range.
func newPass(from, to time.Time) *pass {
	return newPassAt(appendHours(nil, from.UnixMilli(), to.UnixMilli()), 0)
}

// appendHours appends to edges the time from and the hours after it, up to to.
func appendHours(edges []int64, from, to int64) []int64 {
	for at := from; at < to; at += hourMS - at%hourMS {
		edges = append(edges, at)
	}
	return append(edges, to)
}

// newPassAt creates a pass over the intervals between edges, in Unix milliseconds. The first before intervals are
// already computed, and the pass adds use that it finds for them.
func newPassAt(edges []int64, before int) *pass {
	n := len(edges) - 1
	return &pass{
		from: edges[before], to: edges[n], back: edges[before], edges: edges, reach: lookAround.Milliseconds(), ahead: lookAround,
		spreadSums: spreadSums{sum: make([]float64, n), guess: make([]float64, n), has: make([]bool, n)},
		starts:     map[partKey][]counterBegin{}, boots: map[nodeKey]nodeBoots{}, watched: map[nodeKey]int64{},
		doubts: map[kindFigure][]inexactSpan{},
		facts:  map[workloadKey]workloadFact{}, cells: map[useCell]*figureSums{},
		software: map[useCell]map[string]float64{}, nodes: map[nodeCell]*nodeFigures{}, held: map[workloadKey]map[string]*holding{},
		byFacts: map[workloadKey]bool{},
	}
}

// limitTo limits the next readings to a part of the pass; parts must be consecutive. Earlier data is kept as rows.
func (p *pass) limitTo(from, to int64) {
	p.flushRows()
	p.from, p.to = from, to
	if from > p.edges[0] {
		p.known = from // all samples up to there were read
	}
}

// flushRows converts the workloads read so far to rows, because a pass over many hours could not hold them all.
func (p *pass) flushRows() {
	p.use = mergeUse(append(p.useRows(), p.use...))
	for _, m := range p.nodes {
		if m.total != nil && m.free != nil {
			m.was.total, m.was.free = m.was.total+*m.total, m.was.free+*m.free
			m.total, m.free = nil, nil
		}
	}
	p.starting = nil
	clear(p.starts)
	clear(p.boots)
	clear(p.watched)
	clear(p.doubts)
	clear(p.facts)
	clear(p.cells)
	clear(p.software)
	clear(p.held)
	clear(p.byFacts)
}

func (p *pass) read(ctx context.Context, q storage.Queryable, out store.Rollups, oldest time.Time) error {
	if err := p.readGauges(ctx, q); err != nil {
		return err
	}
	if p.short {
		return nil
	}
	if err := p.readCounters(ctx, q, oldest); err != nil || p.short {
		return err
	}
	var runs []*store.Workload // of batch systems
	take := func(w *store.Workload) {
		if !w.Began() {
			return
		}
		p.addStarted(w)
		if workload.Kind(w.Kind).Batch() { // accounting may report allocations of any batch system's jobs
			run := *w
			runs = append(runs, &run)
		}
	}
	kinds := workload.KindNames(workload.KindsWith(workload.Kind.Batch))
	if p.history.hasRuns(p.from) {
		kinds = nil
		for _, w := range p.history.runs {
			if w.Start.UnixMilli() < p.from && (w.End.IsZero() || w.End.UnixMilli() >= p.from) {
				take(w)
			}
		}
	}
	if err := out.Began(ctx, time.UnixMilli(p.from), time.UnixMilli(p.to), kinds, take); err != nil {
		return err
	}
	p.history.addRuns(runs, p.to)
	return p.addAllocations(ctx, q, runs)
}

// stretchIndex returns the index of the stretch that contains a time.
func (p *pass) stretchIndex(t int64) int {
	for t < p.edges[p.near] {
		p.near--
	}
	for t >= p.edges[p.near+1] {
		p.near++
	}
	return p.near
}

// startsLate reports whether a series has an older sample that was not read but matters. first is the first sample
// read, and begin is the time when the series began. Longer passes read so far back that such a sample is a gap instead.
func (p *pass) startsLate(first, begin int64) bool {
	return p.older && p.reach < lookAround.Milliseconds() && first > p.from && begin < p.from-p.reach
}

func (p *pass) clear() {
	clear(p.sum)
	clear(p.guess)
	clear(p.has)
}

// addSpread adds the spread amounts of one series.
func (p *pass) addSpread(n *series.Labels, s slot) {
	k := workloadKey{n.Site, n.Workload}
	at := nodeKey{n.Site, n.Node}
	for i, has := range p.has {
		if !has {
			continue
		}
		hour, v := p.edges[i], p.sum[i]
		switch {
		case s == commandSlot:
			c := seriesCell(n, hour)
			if p.software[c] == nil {
				p.software[c] = map[string]float64{}
			}
			p.software[c][n.Rest["command"]] += v
		case s == nodeCPUSlot:
			m := p.nodeSums(nodeCell{at, hour})
			switch n.Rest["mode"] {
			case "guest", "guest_nice": // contained in user and nice
			case "idle", "iowait":
				m.cpus[n.Rest["cpu"]] += v
			default:
				m.cpus[n.Rest["cpu"]] += v
				m.used += v
				m.guess += p.guess[i]
			}
		case s == nodeEnergySlot:
			m := p.nodeSums(nodeCell{at, hour})
			if m.power == nil {
				m.power = new(float64)
			}
			*m.power += v
		default:
			c := seriesCell(n, hour)
			f := p.cells[c]
			if f == nil {
				f = &figureSums{}
				p.cells[c] = f
			}
			for _, number := range hourSlots.list[s].figures {
				if number == usedCPU && p.guess[i] > 0 {
					f.addValue(usedInterpolated, p.guess[i])
					p.nodeSums(nodeCell{at, hour}).addValue(usedInterpolated, p.guess[i])
				}
				e := p.worstExactness(&hourFigures[number], hour)
				f.addValue(number, v)
				f.exactness.Add(hourFigures[number].Key, e)
				if n.Node != "" {
					m := p.nodeSums(nodeCell{at, hour})
					m.addValue(number, v)
					m.exactness.Add(hourFigures[number].Key, e)
				}
			}
			p.fillFacts(k, workloadFact{owner: n.Owner, kind: n.Kind})
		}
	}
}

func (p *pass) nodeSums(c nodeCell) *nodeFigures {
	m := p.nodes[c]
	if m == nil {
		m = &nodeFigures{cpus: map[string]float64{}}
		p.nodes[c] = m
	}
	return m
}

// fillFacts fills unknown facts.
func (p *pass) fillFacts(k workloadKey, f workloadFact) {
	have := p.facts[k]
	for _, x := range []struct {
		to   *string
		from string
	}{{&have.owner, f.owner}, {&have.kind, f.kind}, {&have.account, f.account}, {&have.partition, f.partition},
		{&have.command, f.command}} {
		if *x.to == "" {
			*x.to = x.from
		}
	}
	p.facts[k] = have
}

// learnRun fills in facts from a catalogue row. The owner of a job is the owner of its row, because a node may know only a
// number.
func (p *pass) learnRun(k workloadKey, w *store.Workload) {
	p.fillFacts(k, workloadFact{w.Owner, w.Kind, w.Account, w.Partition, w.Command})
	if w.Owner != "" && workload.Kind(w.Kind).Batch() {
		have := p.facts[k]
		have.owner = w.Owner
		p.facts[k] = have
	}
}

// readStart returns the time from which the pass reads.
func (p *pass) readStart() time.Time { return time.UnixMilli(p.from - p.reach) }

// seriesFacts holds the facts of a series and the time of its last sample.
type seriesFacts struct {
	workloadFact
	t int64
}

// readGauges reads starts, facts, memory and requests.
func (p *pass) readGauges(ctx context.Context, q storage.Queryable) error {
	to := time.UnixMilli(p.to).Add(p.ahead)
	latest := map[workloadKey]int64{}          // sample of each fact
	several := map[workloadKey][]seriesFacts{} // facts that more than one series reports
	// Each workload has these. They are many, and to sort them would take longer than to read them.
	err := series.EachUnordered(ctx, q, p.readStart(), to, func(l labels.Labels, it chunkenc.Iterator) error {
		n := &p.names
		n.Read(l, hourLabels...)
		k := workloadKey{n.Site, n.Workload}
		if n.Metric == figure.StartTime {
			at := partKey{k, seriesPlace(n)}
			all := at
			all.Owner = ""
			for _, r := range valueSpans(at.partPlace, it) {
				p.starts[at] = append(p.starts[at], counterBegin{r.start, r.first})
				if at != all {
					p.starts[all] = append(p.starts[all], counterBegin{r.start, r.first})
				}
			}
			return nil
		}
		t, _, _, ok := series.Last(it)
		f := seriesFacts{workloadFact{n.Owner, n.Kind, n.Rest["account"], n.Rest["partition"], n.Rest["command"]}, t}
		switch had, known := p.facts[k]; {
		case !ok:
		case !known:
			p.facts[k], latest[k] = f.workloadFact, t
		case len(several[k]) == 0:
			several[k] = []seriesFacts{{had, latest[k]}, f}
		default:
			several[k] = append(several[k], f)
		}
		return nil
	}, series.OneOf("__name__", []string{figure.StartTime, figure.Info}))
	if err != nil {
		return err
	}
	for k, list := range several { // the latest facts win; missing ones come from the previous ones
		slices.SortFunc(list, func(a, b seriesFacts) int {
			return cmp.Or(cmp.Compare(b.t, a.t), cmp.Compare(b.account, a.account), cmp.Compare(b.command, a.command),
				cmp.Compare(b.kind, a.kind), cmp.Compare(b.owner, a.owner), cmp.Compare(b.partition, a.partition))
		})
		delete(p.facts, k)
		for _, f := range list {
			p.fillFacts(k, f.workloadFact)
		}
	}
	return series.ForEach(ctx, q, p.readStart(), to, func(l labels.Labels, it chunkenc.Iterator) error {
		n := &p.names
		n.Read(l, hourLabels...)
		k := workloadKey{n.Site, n.Workload}
		switch n.Metric {
		case figure.NodeBoot:
			p.recordBoot(nodeKey{n.Site, n.Node}, l, it)
		case figure.ExactnessOf:
			p.readInexact(it)
		case memoryTotal, memoryFree:
			p.clear()
			p.integrate(it, 0)
			for i, has := range p.has {
				if !has {
					continue
				}
				m := p.nodeSums(nodeCell{nodeKey{n.Site, n.Node}, p.edges[i]})
				into := &m.total
				if n.Metric == memoryFree {
					into = &m.free
				}
				*into = new(p.sum[i])
			}
		case figure.RequestCores:
			p.clear()
			p.fillFacts(k, workloadFact{owner: n.Owner, kind: n.Kind})
			if n.Node == "" {
				break // of a batch system: see allocations
			}
			o := p.findOrigin(n, firstHourFigure)
			p.keepRequest(k, n.Node, p.integrate(it, o.counterStart(math.MaxInt64)))
		}
		return nil
	}, series.OneOf("__name__", []string{figure.NodeBoot, memoryTotal, memoryFree, figure.RequestCores, figure.ExactnessOf}))
}

// integrate adds the time integral of a gauge, without gaps, and returns its largest value. begin is when the series
// began. If that was earlier, samples before the first one may not have been read.
func (p *pass) integrate(it chunkenc.Iterator, begin int64) (most float64) {
	var t0 int64
	var v0 float64
	first := true
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		t, v := it.At()
		if first = first && p.startsLate(t, begin); first {
			p.short = true
		}
		first = false
		if value.IsStaleNaN(v) || v != v {
			t0 = 0
			continue
		}
		if t0 != 0 && t-t0 <= lookAround.Milliseconds() {
			p.spreadIncrease(t0, t, v0*float64(t-t0)/1000)
		}
		t0, v0, most = t, v, max(most, v)
	}
	return most
}

// toRows returns the rows: workloads by the dimensions of groups, CPU time by program.
func (p *pass) toRows() ([]store.Use, []store.NodeUse) {
	p.flushRows()
	return p.use, p.nodeRows()
}

// useRows converts the workloads read last to rows.
func (p *pass) useRows() []store.Use {
	var use []store.Use
	for c, f := range p.cells {
		about := p.facts[c.workloadKey]
		if c.owner != "" {
			about.owner = c.owner
		}
		u := p.newUseRow(c, about)
		u.Used = f.usedRow()
		parts := p.software[c]
		total := 0.0
		for _, v := range parts {
			total += v
		}
		if cpu := u.CPUSeconds; cpu != nil && total > 0 {
			// The counters of programs and of the workload come from different sources. The
			// programs' counters give the shares, the workload's the sum.
			for command, v := range parts {
				if command == u.Command || v == 0 {
					continue
				}
				other := p.newUseRow(c, about)
				other.Command, other.CPUSeconds = command, new(*cpu*v/total)
				other.Exactness.Add("cpu_seconds", u.Exactness["cpu_seconds"])
				use = append(use, other)
			}
			u.CPUSeconds = new(*cpu * parts[u.Command] / total)
		}
		use = append(use, u)
	}
	for k, by := range p.held {
		if p.byFacts[k] { // the batch system reported it for all nodes together
			continue
		}
		for i := range p.sum {
			sum := 0.0
			for _, h := range by {
				sum += h.hours[i]
			}
			if sum > 0 {
				u := p.newUseRow(useCell{workloadKey: k, hour: p.edges[i]}, p.facts[k])
				u.HeldCoreSeconds = &sum
				use = append(use, u)
			}
		}
	}
	return append(use, p.starting...)
}

// busiestProgram returns the program with the most use in the hour. It ignores "other", which stands for several programs.
// Without a program, it returns known, the program of the workload.
func (p *pass) busiestProgram(c useCell, known string) string {
	best, most := known, 0.0
	for command, v := range p.software[c] {
		if command != "other" && (v > most || (v == most && v > 0 && command < best)) {
			best, most = command, v
		}
	}
	return best
}

func (p *pass) newUseRow(c useCell, about workloadFact) store.Use {
	u := store.Use{At: time.UnixMilli(c.hour).UTC(), Site: c.Site, Kind: about.kind, Owner: about.owner,
		Account: about.account, Partition: about.partition, Command: p.busiestProgram(c, about.command)}
	if u.Kind == "" {
		u.Kind = string(workload.ID(c.ID).Kind())
	}
	return u
}

func (p *pass) nodeRows() []store.NodeUse {
	out := make([]store.NodeUse, 0, len(p.nodes))
	for c, m := range p.nodes {
		u := store.NodeUse{At: time.UnixMilli(c.hour).UTC(), Site: c.site, Node: c.node, Capacity: figure.Capacity{NodeJoules: m.power},
			Used: m.figureSums.usedRow()}
		if len(m.cpus) > 0 {
			sum, most := 0.0, 0.0
			for _, v := range m.cpus {
				sum, most = sum+v, max(most, v)
			}
			u.UpSeconds, u.CoreSeconds, u.CoreUsedSeconds = new(min(most, 3600)), &sum, new(m.used)
		}
		if m.was.total > 0 {
			u.NodeMemoryByteSeconds, u.NodeMemoryUsedByteSeconds = new(m.was.total), new(max(m.was.total-m.was.free, 0))
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b store.NodeUse) int { return a.At.Compare(b.At) })
	return out
}
