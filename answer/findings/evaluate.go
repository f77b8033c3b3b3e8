package findings

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/storage"

	"reckon/analysis/efficiency"
	"reckon/analysis/fairshare"
	"reckon/analysis/footprint"
	"reckon/analysis/misuse"
	"reckon/answer/invariant"
	"reckon/internal/phrase"
	"reckon/store"
	"reckon/workload"
)

// Evaluator applies the rules to a time range.
type Evaluator struct {
	Series storage.Queryable
	Facts  Facts
	// Hold withholds the figures of runs that exceed their bounds; nil withholds none.
	Hold func(ctx context.Context, rows []store.Workload)
	// Tariff returns the price of energy, nil if there is none; may be nil.
	Tariff func() *footprint.Rate

	mu     sync.Mutex // guards the holdings over days, which are summed periodically
	held   *holdings
	heldAt time.Time
	muted  []store.Finding

	// Inconsistent counts the findings that depend on a share above 1; nil counts nothing.
	Inconsistent *invariant.Ledger
}

// Facts is the part of the catalogue that findings read. Passed returns short process groups only as sums, because
// there may be hundreds of thousands a day.
type Facts interface {
	Lasting(ctx context.Context, since, until, now time.Time, groups store.GroupMinimum) ([]store.Workload, error)
	Passed(ctx context.Context, since, until time.Time, group time.Duration) ([]store.EndedGroups, error)
}

// nodeKey is a node of a site.
type nodeKey struct{ site, node string }

// rangeReading holds the data read for a time range.
type rangeReading struct {
	from, to time.Time
	step     time.Duration
	list     []misuse.Workload
}

// Evaluate applies a policy to the measurements between two times.
func (e *Evaluator) Evaluate(ctx context.Context, p *Policy, from, to time.Time) ([]misuse.Finding, error) {
	rows, err := e.readRuns(ctx, from, to, p)
	if err != nil {
		return nil, err
	}
	found, err := e.applyPolicies(ctx, from, to, rows, p)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// judgedRuns are the catalogue rows that policies are applied to.
type judgedRuns struct {
	rows   []store.Workload
	passed []misuse.EndedGroups
}

func (e *Evaluator) readRuns(ctx context.Context, from, to time.Time, policies ...*Policy) (w judgedRuns, err error) {
	least, alone, short := time.Minute, time.Hour, time.Duration(0)
	for _, p := range policies {
		least, alone, short = min(least, p.briefest), min(alone, p.alone), max(short, p.short)
	}
	// Groups that ran for longer than short ones and for less than any rule asks for are in no finding: thousands are not read.
	ran := least
	if short <= least {
		ran = max(least, alone)
	}
	if w.rows, err = e.Facts.Lasting(ctx, from, to, to, store.GroupMinimum{Ran: ran}); err != nil {
		return w, fmt.Errorf("read the workloads: %w", err)
	}
	passed, err := e.Facts.Passed(ctx, from, to, least)
	if err != nil {
		return w, fmt.Errorf("read the workloads: %w", err)
	}
	for _, p := range passed {
		w.passed = append(w.passed, misuse.EndedGroups(p))
	}
	return w, nil
}

// applyPolicies reads the series of some workloads once and applies several policies.
func (e *Evaluator) applyPolicies(ctx context.Context, from, to time.Time, work judgedRuns, policies ...*Policy) ([][]misuse.Finding,
	error) {
	rows := work.rows
	out := make([][]misuse.Finding, len(policies))
	if e.Hold != nil {
		e.Hold(ctx, rows)
	}
	names, err := listNodes(ctx, e.Series, from, to)
	if err != nil {
		return nil, err
	}
	r := &rangeReading{from: from, to: to, step: traceStep(to.Sub(from), len(names))}
	if r.stepCount() < 1 {
		return out, nil
	}
	all := newMachines()
	waits, wide, given := collectWaiting(r, rows), multiNodeRuns(rows), rowAllocations(r, rows)
	took := make([]ownerScores, len(policies))
	dead := make([][]misuse.Finding, len(policies))
	for i := range took {
		took[i].sums = map[ownerPart]*ownerScore{}
	}
	var mu sync.Mutex // machines are read and judged two at a time
	err = e.readMachines(ctx, r, names, wide, func(m *machine) {
		m.addAllocations(given[m.nodeKey], r.stepCount())
		traces := m.resourceTraces(r, waits.waitersFor(m))
		for i, p := range policies {
			mu.Lock()
			policy := p.For("", []string{m.node})
			mu.Unlock()
			zombies := m.deadProcesses(r, policy)
			found := make([][]fairshare.Score, len(traces))
			for k := range traces {
				found[k] = nodeScores(&traces[k], &policy.OverShare)
			}
			mu.Lock()
			dead[i] = append(dead[i], zombies...)
			for k := range traces {
				took[i].addScores(&traces[k], found[k], &policy.OverShare)
			}
			mu.Unlock()
		}
		mu.Lock()
		defer mu.Unlock()
		all.addMachine(m)
	})
	if err != nil {
		return nil, err
	}
	r.list = make([]misuse.Workload, 0, len(rows))
	for i := range rows {
		r.list = append(r.list, all.toWorkload(r, &rows[i], wide))
	}
	if err := e.addDetails(ctx, r); err != nil {
		return nil, err
	}
	over, err := e.findOverTime(ctx, to, policies)
	if err != nil {
		return nil, err
	}
	for i, p := range policies {
		out[i] = misuse.Judge(r.list, work.passed, p.For)
		slices.SortFunc(dead[i], func(a, b misuse.Finding) int {
			return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Node, b.Node), strings.Compare(a.Owner, b.Owner))
		})
		out[i] = slices.Concat(out[i], dead[i], took[i].aboveLimit(r, func(_ string, nodes []nodeScore) *misuse.OverShareRule {
			on := make([]string, len(nodes))
			for k := range nodes {
				on[k] = nodes[k].node
			}
			return &p.For("", on).OverShare
		}))
	}
	for i := range out {
		out[i] = e.mergeSingles(out[i], over[i], r.list, to)
		out[i] = slices.DeleteFunc(out[i], func(f misuse.Finding) bool { return !e.isConsistent(&f, to) })
	}
	return out, ctx.Err()
}

// isConsistent reports whether no share in the evidence of a finding exceeds 1.
func (e *Evaluator) isConsistent(f *misuse.Finding, at time.Time) bool {
	held := 0
	for _, x := range f.Evidence {
		if value := new(x.Value); x.Unit == "ratio" {
			held += e.Inconsistent.Hold(strings.Join([]string{"finding", ID(f)}, " "), at,
				invariant.Check{Figure: f.Rule, Rule: invariant.ShareWithinWhole, Value: &value, Bound: new(1.0), Of: x.Text})
		}
	}
	return held == 0
}

// deadProcesses returns findings for owners with lasting zombies.
func (m *machine) deadProcesses(r *rangeReading, policy *misuse.Policy) (out []misuse.Finding) {
	for _, z := range m.zombies {
		if f, ok := misuse.DeadProcesses(misuse.Zombies{Site: m.site, Node: m.node, Owner: z.owner, Times: z.times, Counts: z.counts,
			Now: r.to}, policy); ok {
			out = append(out, f)
		}
	}
	return out
}

// multiNodeRuns returns the workloads for which the use by node and by GPU is needed.
func multiNodeRuns(rows []store.Workload) map[workloadKey]bool {
	out := map[workloadKey]bool{}
	for i := range rows {
		w := &rows[i]
		gpus, _ := w.GivenGPUs()
		if (len(w.Nodes) > 1 || (gpus != nil && *gpus > 1)) && !workload.Kind(w.Kind).Sum() {
			out[workloadKey{w.Site, w.ID}] = true
		}
	}
	return out
}

// machines holds the stored data of all nodes.
type machines struct {
	cores, gpus    map[nodeKey]int
	latest         map[nodeKey]int64
	inexact        map[inexactKey]inexactSpans
	measured       map[nodeKey]map[string]int64 // GPUs with measured use, and the time of the last report
	perNode        map[workloadKey]map[string]float64
	perGPU         map[workloadKey]map[string]float64
	perNodeWritten map[workloadKey]map[string]float64
	gpu            map[workloadKey]*nodeUse
}

func newMachines() *machines {
	return &machines{cores: map[nodeKey]int{}, gpus: map[nodeKey]int{}, latest: map[nodeKey]int64{},
		measured: map[nodeKey]map[string]int64{},
		inexact:  map[inexactKey]inexactSpans{},
		perNode:  map[workloadKey]map[string]float64{}, perGPU: map[workloadKey]map[string]float64{},
		perNodeWritten: map[workloadKey]map[string]float64{},
		gpu:            map[workloadKey]*nodeUse{}}
}

func (a *machines) addMachine(m *machine) {
	a.cores[m.nodeKey], a.gpus[m.nodeKey], a.latest[m.nodeKey], a.measured[m.nodeKey] = len(m.cpus), len(m.gpus), m.latest, m.measured
	for k, list := range m.inexact {
		a.inexact[k] = list
	}
	for k, w := range m.work {
		if a.perNode[k] == nil {
			a.perNode[k], a.perGPU[k] = map[string]float64{}, map[string]float64{}
		}
		a.perNode[k][m.node] += w.cpu
		if w.hasWritten {
			if a.perNodeWritten[k] == nil {
				a.perNodeWritten[k] = map[string]float64{}
			}
			a.perNodeWritten[k][m.node] += w.written
		}
		for device, v := range w.gpus {
			a.perGPU[k][m.node+" "+device] += v
		}
		all := a.gpu[k]
		if all == nil {
			all = &nodeUse{}
			a.gpu[k] = all
		}
		if w.held != 0 && (all.held == 0 || w.held < all.held) {
			all.held = w.held
		}
		for device := range w.devices { // a measured device without use by any workload was idle
			all.seen = max(all.seen, m.measured[device])
		}
		all.used, all.seen = max(all.used, w.used), max(all.seen, w.seen)
	}
}

// toWorkload returns a row of the catalogue with the measurements of its nodes.
func (a *machines) toWorkload(r *rangeReading, w *store.Workload, wide map[workloadKey]bool) misuse.Workload {
	m := misuse.Workload{Run: *w, Last: w.Seen, Running: w.End.IsZero() && w.State != "pending", Lines: map[string]*misuse.Line{}}
	m.Cores, _ = w.GivenCores()
	m.Memory, _ = w.GivenMemory()
	m.GPUs, _ = w.GivenGPUs()
	if w.Waits() {
		m.Waited = w.Seen.Sub(w.Submit).Seconds()
		if why, stuck := efficiency.Stuck(w.Reason); stuck {
			m.Stuck = phrase.Join(why)
		}
	}
	if m.Running && w.State == "" && w.Reason != "" && w.Restarts != nil {
		m.Stuck, _ = efficiency.NotStarted(w.Reason, *w.Restarts)
	}
	if !w.End.IsZero() {
		m.Last = w.End
	}
	sum, all := 0.0, len(w.Nodes) > 0
	m.Reports = len(w.Nodes) > 0
	lately := r.to.Add(-silent).UnixMilli()
	for _, n := range w.Nodes {
		p := nodeKey{w.Site, n}
		c := a.cores[p]
		sum, all = sum+float64(c), all && c > 0
		if a.gpus[p] > 0 {
			m.GPUNodes++
		}
		m.Reports = m.Reports && a.latest[p] >= lately
	}
	if all {
		m.NodeCores = &sum
	}
	// Work without a responsible person causes no finding.
	if workload.Kind(w.Kind).Sum() {
		m.Nodes, m.GPUNodes = nil, 0
		return m // connections of short work count nevertheless: [Evaluator.addDetails]
	}
	a.markInexact(&m)
	k := workloadKey{w.Site, w.ID}
	if wide[k] && a.perNode[k] != nil {
		m.PerNode, m.PerGPU = a.perNode[k], a.perGPU[k]
		if len(a.perNodeWritten[k]) == len(w.Nodes) { // otherwise the writes of some nodes are unknown
			m.PerNodeWritten = a.perNodeWritten[k]
		}
		for _, n := range w.Nodes { // a reporting node without series of the workload was idle
			if _, ok := m.PerNode[n]; !ok && m.Reports {
				m.PerNode[n] = 0
			}
		}
	}
	if g := a.gpu[k]; g != nil && m.Running && g.held != 0 && g.seen >= lately {
		since := max(g.held, g.used, w.Start.UnixMilli())
		idle := r.to.Sub(time.UnixMilli(since)).Seconds()
		m.IdleGPU = &idle
	}
	return m
}
