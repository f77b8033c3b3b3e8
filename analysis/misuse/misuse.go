// Package misuse finds work that holds what it does not use, or harms itself: on the
// wrong machine, far too large a request, held and dead, many small ones that together
// weigh, thrashing, and out of balance.
//
// Each rule looks at sustained figures (means, p95, totals over time), never at a single
// peak, except for memory, of which the peak is what a request must hold. What was not
// measured is nil, and makes no finding. Figures are SI base units. The package is pure:
// no file, no network, no clock; all functions are safe for concurrent use.
package misuse

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// The names of the rules.
const (
	Hog        = "hog"
	Misfit     = "misfit"
	Greedy     = "greedy"
	Deadweight = "deadweight"
	Vampire    = "vampire"
	Thrash     = "thrash"
	Imbalance  = "imbalance"
)

// Rules are the names of all rules.
func Rules() []string {
	return []string{Hog, Misfit, Greedy, Deadweight, Vampire, Thrash, Imbalance}
}

// Severity says how much a finding asks of its reader.
type Severity string

// The severities, the gravest first.
const (
	High   Severity = "high"
	Medium Severity = "medium"
	Low    Severity = "low"
)

// Evidence is one figure behind a finding, and the limit that it is held against.
type Evidence struct {
	Text  string   `json:"text"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"`
	Limit *float64 `json:"limit,omitempty"`
}

// Finding is what a rule found.
type Finding struct {
	Rule     string
	Severity Severity
	Site     string
	Owner    string
	Workload string // empty when it is about an owner
	Node     string // empty when it is not about one node
	Part     string // what tells findings of one rule and subject apart: cpu, memory, gpu
	Text     string // one sentence, without the owner's name
	First    time.Time
	Last     time.Time
	Evidence []Evidence
}

// Workload is what is known of one workload.
type Workload struct {
	Site, ID, Kind, Owner, Partition, State string

	Nodes       []string
	Start, Last time.Time // Last is the end, or the latest sample
	Running     bool

	CPUSeconds, CoresMean, CoresP95                          *float64
	MemoryPeak, SwapPeak, MajorFaults, Throttled             *float64
	GPUSeconds, GPUMemoryPeak                                *float64
	RequestCores, RequestMemory, RequestGPUs, RequestSeconds *float64

	// NodeCores is how many cores its nodes have together, and GPUNodes how many of its
	// nodes have GPUs whose use is measured.
	NodeCores *float64
	GPUNodes  int
	// IdleGPU is for how long it has held memory of a GPU and not used it, up to Last.
	IdleGPU *float64
	// Reports is whether all its nodes reported in its time: only then does silence say
	// that there was no process. Empty is for how long none was seen of it, up to Last; nil
	// when one was, or nobody looked.
	Reports bool
	Empty   *float64
	// Faults are its major faults per second, Swapped the share of its memory that was
	// swapped out, Throttles the share of time in which its quota held it back, over time;
	// nil where only the totals are known.
	Faults, Swapped, Throttles *Line
	// PerNode is its CPU time by node, PerGPU the busy time by device, in seconds.
	PerNode, PerGPU map[string]float64
}

// Wall is how long it lasted, in seconds.
func (w *Workload) Wall() float64 { return math.Max(0, w.Last.Sub(w.Start).Seconds()) }

func (w *Workload) finding(rule string, s Severity, part, text string, e ...Evidence) Finding {
	return Finding{Rule: rule, Severity: s, Site: w.Site, Owner: w.Owner, Workload: w.ID, Part: part, Text: text, First: w.Start, Last: w.Last, Evidence: e}
}

// Judge applies the rules that look at one workload at a time, then those that look at
// all of an owner's together. policy gives the policy for a workload.
func Judge(list []Workload, policy func(*Workload) *Policy) []Finding {
	var out []Finding
	small := map[[2]string]*heap{}
	for i := range list {
		w := &list[i]
		p := policy(w)
		out = append(out, misfit(w, p)...)
		found := greedy(w, p, 1)
		out = append(out, found...)
		out = append(out, deadweight(w, p)...)
		out = append(out, thrash(w, p)...)
		out = append(out, imbalance(w, p)...)
		if len(found) == 0 {
			gather(small, w, p)
		}
	}
	out = append(out, vampires(small)...)
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Workload, b.Workload))
	})
	return out
}

func rank(s Severity) int { return slices.Index([]Severity{High, Medium, Low}, s) }

func known(v *float64) bool { return v != nil && !math.IsNaN(*v) }

func limit(v float64) *float64 { return &v }

// misfit: on a machine with GPUs without using them, or too small for what it holds.
func misfit(w *Workload, p *Policy) (out []Finding) {
	m := p.Misfit
	wall := w.Wall()
	if !m.On || wall < m.Minimum.Seconds() {
		return nil
	}
	noGPU := w.GPUSeconds == nil || *w.GPUSeconds < 1
	asks := known(w.RequestGPUs) && *w.RequestGPUs > 0
	switch {
	case w.GPUNodes == 0 && !asks: // no GPU near it
	case !asks && w.GPUNodes == len(w.Nodes) && len(w.Nodes) > 0 && noGPU && known(w.CoresMean) && known(w.NodeCores) && *w.CoresMean >= m.CPUShare**w.NodeCores:
		share := *w.CoresMean / *w.NodeCores
		out = append(out, w.finding(Misfit, Medium, "cpu", fmt.Sprintf("uses %.0f %% of the CPUs of a GPU node and no GPU", 100*share),
			Evidence{Text: "share of the node's CPUs", Value: share, Unit: "ratio", Limit: limit(m.CPUShare)}, Evidence{Text: "GPU time", Value: 0, Unit: "seconds"}, Evidence{Text: "for", Value: wall, Unit: "seconds", Limit: limit(m.Minimum.Seconds())}))
	case asks && w.GPUNodes > 0 && known(w.GPUSeconds) && wall >= m.GPUMinimum.Seconds():
		busy := *w.GPUSeconds / wall / *w.RequestGPUs
		if busy < m.GPUBusy {
			s := Medium
			if wall**w.RequestGPUs >= m.GPUHighHours*3600 {
				s = High
			}
			out = append(out, w.finding(Misfit, s, "gpu", fmt.Sprintf("keeps %s busy for %.1f %% of the time", theGPUs(*w.RequestGPUs), 100*busy),
				Evidence{Text: "GPUs busy", Value: busy, Unit: "ratio", Limit: limit(m.GPUBusy)}, Evidence{Text: "GPU time held", Value: wall * *w.RequestGPUs, Unit: "seconds"}, Evidence{Text: "for", Value: wall, Unit: "seconds", Limit: limit(m.GPUMinimum.Seconds())}))
		}
	}
	return out
}

func stands(n int) string {
	if n == 1 {
		return "stands"
	}
	return "stand"
}

func theGPUs(n float64) string {
	if n == 1 {
		return "its GPU"
	}
	return fmt.Sprintf("its %.3g GPUs", n)
}

// size says bytes as people do.
func size(v float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; v >= 1000 && i < len(units)-1; i++ { // 1000 MiB are said as 0.977 GiB
		v /= 1024
	}
	return fmt.Sprintf("%.3g %s", v, units[i])
}

// waste is what a request holds above what it uses: core-seconds and byte-seconds.
func waste(w *Workload, g *GreedyRule) (cores, coreSeconds, share float64, memory, byteSeconds, mshare float64) {
	wall := w.Wall()
	if known(w.RequestCores) && known(w.CoresP95) && *w.RequestCores >= g.MinCores {
		share = *w.CoresP95 / *w.RequestCores
		cores = *w.RequestCores - *w.CoresP95
		coreSeconds = math.Max(0, cores) * wall
	} else {
		share = math.NaN()
	}
	if known(w.RequestMemory) && known(w.MemoryPeak) && *w.RequestMemory >= g.MinMemory {
		mshare = *w.MemoryPeak / *w.RequestMemory
		memory = *w.RequestMemory - *w.MemoryPeak
		byteSeconds = math.Max(0, memory) * wall
	} else {
		mshare = math.NaN()
	}
	return
}

// greedy: a request far above what is used at p95, with a waste that matters. weight
// scales the waste that matters.
func greedy(w *Workload, p *Policy, weight float64) (out []Finding) {
	g := &p.Greedy
	if !g.On || w.Wall() < g.Minimum.Seconds() {
		return nil
	}
	_, coreSeconds, share, _, byteSeconds, mshare := waste(w, g)
	if share < g.Share && coreSeconds >= weight*g.CoreHours*3600 {
		s := Medium
		if coreSeconds >= 10*g.CoreHours*3600 {
			s = High
		}
		out = append(out, w.finding(Greedy, s, "cpu", fmt.Sprintf("holds %.4g cores and uses at most %.3g for 95 %% of the time", *w.RequestCores, *w.CoresP95),
			Evidence{Text: "p95 of the cores held", Value: share, Unit: "ratio", Limit: limit(g.Share)}, Evidence{Text: "held and not used", Value: coreSeconds, Unit: "core-seconds", Limit: limit(g.CoreHours * 3600)}))
	}
	if mshare < g.Share && byteSeconds >= weight*g.GiBHours*3600*(1<<30) {
		out = append(out, w.finding(Greedy, Low, "memory", fmt.Sprintf("holds %s of memory and used %s at its peak", size(*w.RequestMemory), size(*w.MemoryPeak)),
			Evidence{Text: "peak of the memory held", Value: mshare, Unit: "ratio", Limit: limit(g.Share)}, Evidence{Text: "held and not used", Value: byteSeconds, Unit: "byte-seconds", Limit: limit(g.GiBHours * 3600 * (1 << 30))}))
	}
	return out
}

// deadweight: held and dead.
func deadweight(w *Workload, p *Policy) (out []Finding) {
	d := p.Deadweight
	if !d.On {
		return nil
	}
	if w.Running && known(w.IdleGPU) && *w.IdleGPU >= d.GPUIdle.Seconds() {
		out = append(out, w.finding(Deadweight, High, "gpu", "holds memory of a GPU and has not used it for long",
			Evidence{Text: "GPU memory held without use", Value: *w.IdleGPU, Unit: "seconds", Limit: limit(d.GPUIdle.Seconds())}))
	}
	if w.Running && w.State == "running" && w.Reports && (w.CPUSeconds == nil || w.Empty != nil) {
		text, span := "holds an allocation in which no process ever ran", w.Wall()
		if w.CPUSeconds != nil {
			text, span = "holds an allocation in which no process runs any more", *w.Empty
		}
		if span >= d.Empty.Seconds() {
			out = append(out, w.finding(Deadweight, High, "allocation", text,
				Evidence{Text: "allocation without a process, at least", Value: span, Unit: "seconds", Limit: limit(d.Empty.Seconds())}))
		}
	}
	return out
}

// imbalance: some of its nodes or GPUs stand still while others work.
func imbalance(w *Workload, p *Policy) (out []Finding) {
	b := p.Imbalance
	wall := w.Wall()
	if !b.On || wall < b.Minimum.Seconds() {
		return nil
	}
	for _, k := range []struct {
		part, what string
		by         map[string]float64
		floor      float64
		unit       string
	}{{"nodes", "nodes", w.PerNode, b.Busy, "cores"}, {"gpus", "GPUs", w.PerGPU, b.GPUBusy, "ratio"}} {
		if len(k.by) < 2 {
			continue
		}
		most := 0.0
		for _, v := range k.by {
			most = math.Max(most, v)
		}
		idle := 0
		for _, v := range k.by {
			if v < b.Idle*most {
				idle++
			}
		}
		// Something must work, or there is no imbalance but idleness.
		if idle == 0 || most/wall < k.floor {
			continue
		}
		s := Medium
		if idle*2 >= len(k.by) {
			s = High
		}
		out = append(out, w.finding(Imbalance, s, k.part, fmt.Sprintf("%d of its %d %s %s still while others work", idle, len(k.by), k.what, stands(idle)),
			Evidence{Text: k.what + " that stand still", Value: float64(idle), Unit: "count"}, Evidence{Text: "use of the busiest", Value: most / wall, Unit: k.unit, Limit: limit(k.floor)}))
	}
	return out
}

// heap is what the small workloads of an owner come to.
type heap struct {
	policy           *Policy
	owner, site      string
	count, short     int
	coreSeconds, cpu float64
	first, last      time.Time
	wasted           int
	shortWall        float64
}

// gather adds a workload that breaks no rule alone to those of its owner.
func gather(all map[[2]string]*heap, w *Workload, p *Policy) {
	v := p.Vampire
	if !v.On || w.Owner == "" || w.Running || exempt(v.Exempt, w.Owner) {
		return
	}
	k := [2]string{w.Site, w.Owner}
	h := all[k]
	if h == nil {
		h = &heap{policy: p, owner: w.Owner, site: w.Site, first: w.Start}
		all[k] = h
	}
	h.count++
	if w.Start.Before(h.first) {
		h.first = w.Start
	}
	if w.Last.After(h.last) {
		h.last = w.Last
	}
	small := p.Greedy
	small.MinCores = 0 // what is nobody's business alone adds up
	_, coreSeconds, share, _, _, _ := waste(w, &small)
	if share < p.Greedy.Share {
		h.wasted++
		h.coreSeconds += coreSeconds
	}
	if w.Wall() < v.Short.Seconds() {
		h.short++
		if known(w.CPUSeconds) {
			h.cpu += *w.CPUSeconds
		}
		h.shortWall += w.Wall()
	}
}

// vampires: many small ones that together break a rule that no one of them breaks.
func vampires(all map[[2]string]*heap) (out []Finding) {
	for _, h := range all {
		v := h.policy.Vampire
		f := Finding{Rule: Vampire, Severity: Medium, Site: h.site, Owner: h.owner, First: h.first, Last: h.last}
		if need := h.policy.Greedy.CoreHours * 3600; h.wasted >= v.Count && h.coreSeconds >= need {
			f.Part, f.Text = "cpu", fmt.Sprintf("%d jobs, each too small to matter, together held %.0f core-hours that they did not use", h.wasted, h.coreSeconds/3600)
			f.Evidence = []Evidence{{Text: "jobs", Value: float64(h.wasted), Unit: "count", Limit: limit(float64(v.Count))}, {Text: "held and not used", Value: h.coreSeconds, Unit: "core-seconds", Limit: limit(need)}}
			out = append(out, f)
		}
		if h.short >= v.ShortCount {
			f.Part, f.Text = "short", fmt.Sprintf("%d jobs shorter than %s, %s on average: each is started and ended for so little; put many into one", h.short, v.Short.text(), Duration(h.shortWall/float64(h.short)*1e9).text())
			f.Evidence = []Evidence{{Text: "short jobs", Value: float64(h.short), Unit: "count", Limit: limit(float64(v.ShortCount))}, {Text: "length of one, on average", Value: h.shortWall / float64(h.short), Unit: "seconds", Limit: limit(v.Short.Seconds())}, {Text: "CPU time of all of them", Value: h.cpu, Unit: "seconds"}}
			f.Severity = Low
			out = append(out, f)
		}
	}
	return out
}
