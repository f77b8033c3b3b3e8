package account

import (
	"slices"

	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
)

var cacheBytes = &metric.Desc{
	Name: "reckon_workload_cache_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
	Help:   "Bytes of the last-level caches that the workload occupies, where a monitoring group of the kernel (resctrl) holds it.",
	Labels: with(),
}

// monitored is what monitoring groups of the kernel (resctrl) counted for a part.
type monitored struct {
	Bytes uint64 `json:"b"`
	Late  bool   `json:"l,omitempty"` // some of its time, or of its threads, was not in a group

	now      bool    // a group holds it
	rate     float64 // bytes per second at the last reading
	cache    uint64
	occupies bool
	rows     [2]*metric.Series
}

// monitoring is what the ledger holds of monitoring groups.
type monitoring struct {
	last  uint64 // boot time of the reading before
	parts []*Part
	held  map[*Part]bool
}

// Monitored takes in a reading of monitoring groups. A group is charged to the workload that all of its threads belong to; one that holds
// threads of several, or of a workload that another group holds too, to nobody.
func (l *Ledger) Monitored(pass *sensor.MonitorPass) {
	if l.monitors.held == nil {
		l.monitors.held = map[*Part]bool{}
	}
	held := l.monitors.held
	clear(held)
	for i := range pass.Groups {
		g := &pass.Groups[i]
		parts, threads := l.holders(g.Tasks)
		if len(parts) == 0 || held[parts[0]] {
			continue
		}
		for k, p := range parts {
			held[p] = true
			p.takeMonitored(l, g, k == 0, threads)
		}
	}
	for _, p := range l.order {
		if m := p.monitored; m != nil && !held[p] {
			m.Late = m.Late || m.now && p.live > 0
			m.now, m.occupies, m.rate, p.tally.Monitored = false, false, 0, false
		}
	}
	l.monitors.last = l.lastAt
}

// takeMonitored takes in that a group holds the part with so many threads, and what it counted where the part is to be charged with it.
func (p *Part) takeMonitored(l *Ledger, g *sensor.Monitored, charged bool, threads int) {
	if p.monitored == nil {
		p.monitored = new(monitored)
	}
	m := p.monitored
	first := !m.now
	fromBirth := g.Fresh && p.created != 0 && p.start >= l.monitors.last
	m.Late = m.Late || g.Gap || first && !fromBirth || 15*threads > 16*len(g.Tasks)+churn
	m.now, m.occupies, m.rate, p.tally.Monitored = true, false, 0, true
	if !charged {
		return
	}
	m.cache, m.occupies = g.Cache, g.Occupies
	if g.Counted && !(first && l.tallies.Counts(sensor.RateMemory)) { // else cache misses were charged until now
		m.Bytes += g.Bytes
		if span := grown(l.monitors.last, l.lastAt); span > 0 && l.monitors.last > 0 {
			m.rate = float64(g.Bytes) / (float64(span) / 1e9)
		}
	}
}

// churn is by how many threads, in fifteenths, the two readings may differ in which threads come and go, besides a fifteenth of them.
const churn = 64

// holders are the parts of one workload to which all threads of a list belong, and how many threads they have; none where the threads are of several
// workloads, or there are more than the workload has. The slice is valid until the next call.
func (l *Ledger) holders(tasks []int32) (parts []*Part, threads int) {
	parts = l.monitors.parts[:0]
	for _, t := range tasks {
		e := l.table[t]
		if e == nil || e.gone || slices.Contains(parts, e.part) {
			continue // a thread that leads no process, mostly
		}
		if len(parts) > 0 && e.part.group != parts[0].group || e.part.kind.Sum() {
			return nil, 0
		}
		parts = append(parts, e.part)
		threads += int(e.part.thread)
	}
	l.monitors.parts = parts
	if 15*len(tasks) > 16*threads+churn {
		return nil, 0
	}
	return parts, threads
}

func (p *Part) absorbMonitored(o *Part) {
	if o.monitored == nil {
		return
	}
	if p.monitored == nil {
		p.monitored = &monitored{Late: true}
	}
	p.monitored.Bytes += o.monitored.Bytes
}

func (l *Ledger) exportMonitored(p *Part, b *metric.Batch) {
	m := p.monitored
	if m == nil {
		return
	}
	b.Add(p.lazy(&m.rows[0], sensor.MemoryTraffic, "resctrl"), float64(m.Bytes))
	if m.occupies {
		b.Add(p.lazy(&m.rows[1], cacheBytes), float64(m.cache))
	}
}

// certainty is how exact the memory traffic of a part is that groups counted.
func (m *monitored) certainty() certainty {
	if m.Late {
		return certainty{figure.AtLeast, fromMonitors}
	}
	return certainty{figure.Exact, fromMonitors}
}
