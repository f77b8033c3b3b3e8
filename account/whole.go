package account

import (
	"reckon/metric"
	"reckon/sensor"
)

// jobGroup is the control group that contains all parts of a workload on this node, such as the group of a batch job
// with its steps. It reports the peak of all parts together, which cannot be computed from the peaks of the parts. Its
// figures are exported with an empty part.
type jobGroup struct {
	handle sensor.CgroupHandle // nil when there is none, or it is gone
	cg     sensor.Cgroup
	memory memory
	active uint64 // tick in which a part was last not idle
	parts  uint64 // shared memory of the parts in this tick, bytes

	peak, neededPeak, neededMost *metric.Series
}

// setCgroup sets the handle of the control group; nil means none.
func (g *group) setCgroup(h sensor.CgroupHandle) {
	if h == nil {
		return
	}
	if g.whole == nil {
		g.whole = new(jobGroup)
	}
	switch w := g.whole; {
	case h == w.handle:
	case w.handle != nil:
		_ = h.Close()
	default:
		if w.handle = h; h.Read(&w.cg) == nil {
			w.recordMemory()
		}
	}
}

// read reads the control group, and keeps the highest values once the group is removed. settled
// reports that no process was missed since the previous reading.
func (w *jobGroup) read(settled bool) {
	gone := w.handle.Read(&w.cg) != nil
	b := w.memory.ensureBounds()
	b.now.vague = b.now.vague || !settled
	w.memory.boundNeeded(&w.cg, gone)
	if gone {
		w.memory.peak = max(w.memory.peak, w.memory.neededPeak)
		w.close()
		return
	}
	w.recordMemory()
}

// recordMemory records the present memory of the reading.
func (w *jobGroup) recordMemory() {
	w.memory.readCgroup(&w.cg)
	if w.cg.Have&sensor.CgroupMemory != 0 {
		w.memory.neededPeak = max(w.memory.neededPeak, w.memory.needed())
	}
}

func (w *jobGroup) close() {
	if w.handle != nil {
		_ = w.handle.Close()
		w.handle = nil
	}
}

// readJobGroups reads the control groups of workloads, unless all parts are idle and the last reading is recent enough.
func (r *registry) readJobGroups(settled bool) {
	for _, p := range r.order {
		w := p.group.whole
		switch {
		case p.group.lead != p || w == nil || w.handle == nil:
		case w.active == r.tick || !isIdleRecent(w.handle):
			w.read(settled)
		default:
			b := w.memory.ensureBounds()
			b.since.mergeLater(b.now)
			b.now = processReports{}
		}
	}
}

// exportJobGroup appends the figures of the control group of the whole workload. p is the leading part.
func (g *group) exportJobGroup(p *Part, b *metric.Batch) {
	w := g.whole
	if w == nil {
		return
	}
	row := func(s **metric.Series, d *metric.Desc) *metric.Series {
		if *s == nil {
			*s = metric.NewSeries(d, string(p.id), string(p.kind), "", p.owner)
		}
		return *s
	}
	if w.memory.peak > 0 {
		b.Add(row(&w.peak, memoryPeak), float64(w.memory.peak))
	}
	low, most := w.memory.needRange(w.memory.peak, w.memory.neededPeak)
	if low > 0 {
		b.Add(row(&w.neededPeak, memoryNeededPeak), float64(low))
	}
	if most > 0 {
		b.Add(row(&w.neededMost, memoryNeededMost), float64(most))
	}
}
