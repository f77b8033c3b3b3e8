package findings

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"reckon/analysis/fairshare"
	"reckon/analysis/misuse"
	"reckon/internal/phrase"
	"reckon/store"
)

// traceStep returns the step of a trace. It is coarser for many nodes, so that an evaluation stays cheap.
func traceStep(span time.Duration, nodes int) time.Duration {
	step := time.Minute
	for span/step*time.Duration(max(nodes, 1)) > 100_000 && step < 15*time.Minute {
		step *= 5
	}
	return min(step, 15*time.Minute)
}

func (r *rangeReading) stepCount() int { return int(r.to.Sub(r.from) / r.step) }

// nodeTrace is one resource of one node.
type nodeTrace struct {
	nodeKey
	part, what string
	trace      fairshare.Trace
	waited     []line // seconds that threads of each owner of the trace waited for it; nil if not measured
}

// resourceTraces returns the resources of a node on which more than one owner worked or waited.
func (m *machine) resourceTraces(r *rangeReading, wait waiters) (out []nodeTrace) {
	second := 1 / r.step.Seconds()
	add := func(part, what, figure string, t fairshare.Trace, of func(*ownerUse) (use, want line)) {
		t.Step, t.Scheduled = r.step.Seconds(), m.scheduled
		waits := wait.any
		if part == "gpu" {
			waits = wait.gpu
		}
		for _, name := range slices.Sorted(maps.Keys(m.owners)) {
			if use, want := of(m.owners[name]); use != nil {
				t.Owners = append(t.Owners, fairshare.Owner{Name: name, Use: use, Want: want, Waits: waits[name],
					Allocated: m.sumAllocations(name, part, r.stepCount()), Inexact: m.inexactUse(m.owners[name], figure, r)})
			}
		}
		if len(t.Owners) == 0 {
			return
		}
		for name, w := range waits { // owners who wait and use nothing here
			if !slices.ContainsFunc(t.Owners, func(o fairshare.Owner) bool { return o.Name == name }) {
				t.Owners = append(t.Owners, fairshare.Owner{Name: name, Waits: w})
			}
		}
		if len(t.Owners) < 2 {
			return
		}
		slices.SortFunc(t.Owners, func(a, b fairshare.Owner) int { return strings.Compare(a.Name, b.Name) })
		out = append(out, nodeTrace{nodeKey: m.nodeKey, part: part, what: what, trace: t})
	}
	cores := float64(len(m.cpus))
	add("cpu", "CPUs", exactCPU, fairshare.Trace{
		Capacity: cores, Machine: m.used.divideBy(m.all).scaled(cores), Pressure: m.cpuWaits.divideBy(m.cpuWatched),
		Runnable: m.tasks.divideBy(m.tasksWatched),
	}, func(o *ownerUse) (use, want line) {
		use = o.cpu.scaled(second)
		return use, use.addLine(o.wait.scaled(second))
	})
	available := m.free.divideBy(m.total)
	inUse := make(line, len(available))
	for i, share := range available {
		inUse[i] = (1 - share) * m.size
	}
	add("memory", "memory", exactMemory,
		fairshare.Trace{Capacity: m.size, Machine: inUse, Pressure: m.memWaits.divideBy(m.memAll), Available: available},
		func(o *ownerUse) (use, want line) { return o.memory.scaled(second), nil })
	add("gpu", "GPUs", exactGPU, fairshare.Trace{Capacity: float64(len(m.gpus))},
		func(o *ownerUse) (use, want line) { return o.gpu.scaled(second), nil })
	for i := range out {
		if out[i].part == "cpu" {
			out[i].waited = m.waitedForCPU(&out[i].trace, r.step.Seconds())
		}
	}
	// A batch system does not allocate storage traffic, and no job queues for it.
	if t, waited := m.storageTrace(r); len(t.Owners) > 1 {
		out = append(out, nodeTrace{nodeKey: m.nodeKey, part: "storage", what: "storage traffic", trace: t, waited: waited})
	}
	return out
}

// waitedForCPU returns the seconds that threads of owners waited for a processor. At this point the lines of owners are rates.
func (m *machine) waitedForCPU(t *fairshare.Trace, step float64) (out []line) {
	some := false
	for i := range t.Owners {
		var l line
		if o := m.owners[t.Owners[i].Name]; o != nil {
			l = slices.Clone(o.wait).scaled(step)
		}
		out, some = append(out, l), some || l != nil
	}
	if !some {
		return nil
	}
	return out
}

// ownerScores sums the use above a fair share by owner over all nodes. An owner with such use on twenty nodes thus gets
// a single finding.
type ownerScores struct {
	sums map[ownerPart]*ownerScore
}

type ownerPart struct{ site, owner, part string }

type ownerScore struct {
	what                              string
	over, grave                       float64 // the score in units of the limits of each node
	seconds, contended, share, others float64
	fair, held                        float64
	waited                            float64 // by others meanwhile
	hasWaited                         bool
	first, last                       int
	why                               map[string]int
	nodes                             []nodeScore
}

type nodeScore struct {
	node    string
	seconds float64
}

// nodeScores returns the scores of one resource of one node.
func nodeScores(t *nodeTrace, rule *misuse.OverShareRule) []fairshare.Score {
	if !rule.On {
		return nil
	}
	return fairshare.Scores(t.trace, toLimits(rule))
}

func toLimits(rule *misuse.OverShareRule) fairshare.Limits {
	return fairshare.Limits{Full: rule.Full, Pressure: rule.Pressure, Available: rule.Available, Wants: rule.Wants}
}

// addScores adds the scores of one resource of one node.
func (h *ownerScores) addScores(t *nodeTrace, scores []fairshare.Score, rule *misuse.OverShareRule) {
	for _, s := range scores {
		k := ownerPart{t.site, s.Owner, t.part}
		sum := h.sums[k]
		if sum == nil {
			sum = &ownerScore{what: t.what, first: s.First, last: s.Last, why: map[string]int{}}
			h.sums[k] = sum
		}
		sum.over += s.Seconds / rule.Seconds
		sum.grave += s.Seconds / rule.High
		sum.seconds += s.Seconds
		sum.contended += s.Contended
		sum.share += s.Share * s.Contended
		sum.others += s.Others * s.Contended
		sum.fair += s.Fair * s.Contended
		sum.held += s.Held * s.Contended
		if waited, known := t.waitedFor(s.Owner, toLimits(rule)); known {
			sum.waited, sum.hasWaited = sum.waited+waited, true
		}
		sum.first, sum.last = min(sum.first, s.First), max(sum.last, s.Last)
		for why, n := range s.Why {
			sum.why[why] += n
		}
		sum.nodes = append(sum.nodes, nodeScore{t.node, s.Seconds})
	}
}

// maxShownNodes is the number of nodes in the evidence, the worst first.
const maxShownNodes = 5

// aboveLimit returns the owners with a score above the limit.
func (h *ownerScores) aboveLimit(r *rangeReading, rule func(site string, nodes []nodeScore) *misuse.OverShareRule) (out []misuse.Finding) {
	for k, s := range h.sums {
		if s.over < 1 || k.owner == systemOwner || rule(k.site, s.nodes).Exempts(k.owner) {
			continue
		}
		severity := misuse.Medium
		if s.grave >= 1 {
			severity = misuse.High
		}
		why, most := "", 0
		for _, w := range slices.Sorted(maps.Keys(s.why)) {
			if s.why[w] > most {
				why, most = w, s.why[w]
			}
		}
		slices.SortFunc(s.nodes, func(a, b nodeScore) int {
			return cmp.Or(cmp.Compare(b.seconds, a.seconds), strings.Compare(a.node, b.node))
		})
		where := phrase.Join(s.nodes[0].node)
		if n := len(s.nodes) - 1; n > 0 {
			where = phrase.Join(where, " and ", phrase.Count(float64(n)), map[bool]string{true: " more node", false: " more nodes"}[n == 1])
		}
		limit, by := s.seconds/s.over, misuse.FairBy(s.held/s.contended)
		f := misuse.Finding{
			Rule: misuse.OverShare, Severity: severity, Site: k.site, Node: s.nodes[0].node, Owner: k.owner, Part: k.part,
			First: r.from.Add(time.Duration(s.first) * r.step), Last: r.from.Add(time.Duration(s.last+1) * r.step),
			Evidence: []misuse.Evidence{
				{Text: "score: seconds of the whole machine above a fair share, all nodes together", Value: s.seconds, Unit: "seconds",
					Limit: &limit},
				{Text: "mean share of the capacity in that time", Value: s.share / s.contended, Unit: "ratio"},
				{Text: "share that was fair in that time: " + by.String(), Value: s.fair / s.contended,
					Unit: "ratio"},
				{Text: "owners who wanted it too, on average", Value: s.others / s.contended, Unit: "count"},
				{Text: "time in which it was contended and the owner above a fair share; most often: " + reasons[why], Value: s.contended,
					Unit: "seconds"},
			},
		}
		f.SetText(misuse.OverShareText(misuse.Excess{Share: s.share / s.contended, Fair: s.fair / s.contended, Held: s.held / s.contended,
			What: s.what, Where: where, Seconds: s.contended, Waited: s.waited}))
		if s.hasWaited {
			f.Evidence = append(f.Evidence,
				misuse.Evidence{Text: "time that others waited for it meanwhile, added up over threads", Value: s.waited, Unit: "seconds"})
		}
		for i := range min(len(s.nodes), maxShownNodes) {
			if len(s.nodes) > 1 {
				f.Evidence = append(f.Evidence,
					misuse.Evidence{Text: "of it on " + s.nodes[i].node, Value: s.nodes[i].seconds, Unit: "seconds"})
			}
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b misuse.Finding) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Owner, b.Owner), strings.Compare(a.Part, b.Part))
	})
	return out
}

var reasons = map[string]string{
	"full": "nine tenths or more were in use", "pressure": "tasks waited (PSI)", "runnable": "more tasks could run than there are cores",
	"available": "memory was nearly full", "waiting": "a request of another owner waited for the node",
}

// capacityReasons lists the pending reasons of jobs that wait for capacity on a node. Other jobs wait for a date, a dependency
// or their own limits, and no other owner causes that.
var capacityReasons = []string{"", "none", "resources", "priority"}

// waitingRequests records when requests waited, by partition, shape and owner.
type waitingRequests struct {
	parts map[partition]map[nodeRequest]map[string][]bool
	of    map[nodeKey][]partition
}

type partition struct{ site, name string }

// waiters holds the owners with requests that wait for a node, step by step: for any resources, and for GPUs.
type waiters struct{ any, gpu map[string][]bool }

// collectWaiting collects the waiting requests. A job waits for all nodes on which other jobs of its partition run.
func collectWaiting(r *rangeReading, rows []store.Workload) *waitingRequests {
	w := &waitingRequests{parts: map[partition]map[nodeRequest]map[string][]bool{}, of: map[nodeKey][]partition{}}
	steps := r.stepCount()
	for i := range rows {
		row := &rows[i]
		if row.Partition == "" {
			continue
		}
		k := partition{row.Site, row.Partition}
		for _, n := range row.Nodes {
			if p := (nodeKey{row.Site, n}); !slices.Contains(w.of[p], k) {
				w.of[p] = append(w.of[p], k)
			}
		}
		until := row.Start
		if row.State == "pending" {
			if until = r.to; !slices.Contains(capacityReasons, strings.ToLower(row.Reason)) {
				continue
			}
		}
		if row.Submit.IsZero() || row.Owner == "" || until.Sub(row.Submit) < time.Minute {
			continue
		}
		first, last := max(0, int(math.Floor(row.Submit.Sub(r.from).Seconds()/r.step.Seconds()))), min(steps, int(until.Sub(r.from)/r.step))
		if first >= last {
			continue
		}
		shapes := w.parts[k]
		if shapes == nil {
			shapes = map[nodeRequest]map[string][]bool{}
			w.parts[k] = shapes
		}
		need := toNodeRequest(row)
		flags := shapes[need]
		if flags == nil {
			flags = map[string][]bool{}
			shapes[need] = flags
		}
		if flags[row.Owner] == nil {
			flags[row.Owner] = make([]bool, steps)
		}
		for s := first; s < last; s++ {
			flags[row.Owner][s] = true
		}
	}
	return w
}

// waitersFor returns the owners with requests that wait for a node. Requests that could never run there are excluded.
func (w *waitingRequests) waitersFor(m *machine) (out waiters) {
	cores, gpus := float64(len(m.cpus)), float64(len(m.gpus))
	for _, k := range w.of[m.nodeKey] {
		for need, owners := range w.parts[k] {
			if !need.couldRun(cores, m.size, gpus) {
				continue
			}
			out.any = mergeFlags(out.any, owners)
			if need.gpus > 0 {
				out.gpu = mergeFlags(out.gpu, owners)
			}
		}
	}
	return out
}

func mergeFlags(into, from map[string][]bool) map[string][]bool {
	if into == nil {
		into = map[string][]bool{}
	}
	for owner, flags := range from {
		if into[owner] == nil {
			into[owner] = slices.Clone(flags)
			continue
		}
		for i, f := range flags {
			into[owner][i] = into[owner][i] || f
		}
	}
	return into
}
