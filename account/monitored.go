package account

import (
	"slices"

	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
)

var cacheBytes = metric.NewDesc("reckon_workload_cache_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
	"Bytes of the last-level caches that the workload occupies. Present where it is in a monitoring group of the kernel (resctrl).")

// monitorCounts holds the counts of the kernel's monitoring groups (resctrl) for a part.
type monitorCounts struct {
	Bytes uint64 `json:"b"`
	Late  bool   `json:"l,omitempty"` // some of its time, or of its threads, was not in a group

	now      bool    // a group holds it
	first    bool    // since the last reading
	rate     float64 // bytes per second at the last reading
	cache    uint64
	occupies bool
	rows     [2]*metric.Series
}

// monitoring is the ledger's state of monitoring groups.
type monitoring struct {
	last  uint64 // boot time of the reading before
	parts []*Part
	held  map[*Part]bool
}

// Monitored records a reading of resctrl monitoring groups. It charges a group to a workload only if all threads of the
// group belong to the workload and no other group holds threads of it.
func (l *Ledger) Monitored(pass *sensor.MonitorPass) {
	l.monitors.record(pass, l.table, l.parts.tallies.Counts(sensor.RateMemory))
}

// record records a reading. estimated means that cache misses are charged as memory traffic because no group counts it.
func (m *monitoring) record(pass *sensor.MonitorPass, tab *table, estimated bool) {
	if m.held == nil {
		m.held = map[*Part]bool{}
	}
	clear(m.held)
	for i := range pass.Groups {
		g := &pass.Groups[i]
		parts, threads := m.partsOfTasks(g.Tasks, tab)
		if len(parts) == 0 || m.held[parts[0]] {
			continue
		}
		for k, p := range parts {
			m.held[p] = true
			of := p.recordMonitor(g, m.last, threads)
			if k == 0 {
				of.chargeCounts(g, counterIncrease(m.last, tab.lastAt), m.last > 0, estimated)
			}
		}
	}
	for _, p := range tab.parts.order {
		if of := p.monitored; of != nil && !m.held[p] {
			of.Late = of.Late || of.now && p.live > 0
			of.now, of.occupies, of.rate, p.tally.Monitored = false, false, 0, false
		}
	}
	m.last = tab.lastAt
}

// recordMonitor records that the group g holds the part. threads is the number of threads of the workload, and last is the
// time of the previous reading in nanoseconds since boot.
func (p *Part) recordMonitor(g *sensor.Monitored, last uint64, threads int) *monitorCounts {
	if p.monitored == nil {
		p.monitored = new(monitorCounts)
	}
	m := p.monitored
	m.first = !m.now
	fromBirth := g.Fresh && p.created != 0 && p.start >= last
	m.Late = m.Late || g.Gap || m.first && !fromBirth || 15*threads > 16*len(g.Tasks)+threadTolerance
	m.now, m.occupies, m.rate, p.tally.Monitored = true, false, 0, true
	return m
}

// chargeCounts charges the counts of a group over a span in nanoseconds. known is false at the first reading.
func (m *monitorCounts) chargeCounts(g *sensor.Monitored, span uint64, known, estimated bool) {
	m.cache, m.occupies = g.Cache, g.Occupies
	if g.Counted && !(m.first && estimated) { // else cache misses were charged until now
		m.Bytes += g.Bytes
		if known && span > 0 {
			m.rate = float64(g.Bytes) / (float64(span) / 1e9)
		}
	}
}

// threadTolerance is the number of threads, in fifteenths, by which two readings may differ in addition to a fifteenth of all threads.
const threadTolerance = 64

// partsOfTasks returns the parts of the one workload that all listed threads belong to, and the number of that
// workload's threads. It returns no parts if the threads belong to several workloads or outnumber the workload's
// threads. The slice is valid until the next call.
func (m *monitoring) partsOfTasks(tasks []int32, tab *table) (parts []*Part, threads int) {
	parts = m.parts[:0]
	for _, t := range tasks {
		e := tab.byID[t]
		if e == nil || e.gone || slices.Contains(parts, e.part) {
			continue // a thread that leads no process, mostly
		}
		if len(parts) > 0 && e.part.group != parts[0].group || e.part.kind.Sum() {
			return nil, 0
		}
		parts = append(parts, e.part)
		threads += int(e.part.thread)
	}
	m.parts = parts
	if 15*len(tasks) > 16*threads+threadTolerance {
		return nil, 0
	}
	return parts, threads
}

func (p *Part) absorbMonitored(o *Part) {
	if o.monitored == nil {
		return
	}
	if p.monitored == nil {
		p.monitored = &monitorCounts{Late: true}
	}
	p.monitored.Bytes += o.monitored.Bytes
}

func (p *Part) exportMonitored(b *metric.Batch) {
	m := p.monitored
	if m == nil {
		return
	}
	b.Add(p.seriesOnce(&m.rows[0], sensor.MemoryTraffic, "resctrl"), float64(m.Bytes))
	if m.occupies {
		b.Add(p.seriesOnce(&m.rows[1], cacheBytes), float64(m.cache))
	}
}

// certainty returns the certainty of the memory traffic of a part that monitoring groups count.
func (m *monitorCounts) certainty() certainty {
	if m.Late {
		return certaintyOfLack(sensor.LackUnread, fromMonitors)
	}
	return certainty{figure.Exact, fromMonitors}
}
