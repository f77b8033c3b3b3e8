package account

import (
	"slices"

	"reckon/metric"
)

// wantedCores is the distribution of the cores that a workload used or that its threads waited for.
type wantedCores struct {
	cores  metric.Histogram
	waited uint64 // nanoseconds outside observations, because a wait is known only when it ends and may belong partly to earlier ticks
	alive  uint32 // threads in this tick
	series *metric.Series
}

// recordWait records the CPU wait of a part in this tick. The distribution of wanted cores starts when the wait first reaches
// a hundredth of a core. Before that, it equals the distribution of cores in use.
func (g *group) recordWait(p *Part, elapsed uint64) {
	if g.wanted == nil {
		if p.now.used.wait < elapsed/100 || p.kind.Folded() || p.kind.System() {
			return
		}
		g.wanted = &wantedCores{cores: g.cores}
		g.wanted.cores.Buckets = slices.Clone(g.cores.Buckets)
	}
	g.wanted.waited += p.now.used.wait
	g.wanted.alive += p.now.threads
}

// observe adds an observation of now nanoseconds of CPU time in a tick of elapsed nanoseconds. A
// thread cannot want more than one core, so the excess is moved to the next ticks. w may be nil.
func (w *wantedCores) observe(now, elapsed uint64) {
	if w == nil {
		return
	}
	all := min(now+w.waited, max(uint64(w.alive)*elapsed, now))
	w.waited -= all - now
	w.cores.Observe(float64(all) / float64(elapsed))
	w.alive = 0
}

// exportWanted appends the distribution. p is the leading part of the workload.
func (g *group) exportWanted(p *Part, b *metric.Batch) {
	w := g.wanted
	if w == nil {
		return
	}
	if w.series == nil {
		w.series = metric.NewSeries(coresWanted, string(p.id), string(p.kind), "", p.owner)
	}
	b.AddHistogram(w.series, &w.cores)
}
