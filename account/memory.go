package account

import (
	"math"

	"strconv"

	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
)

// memory is the current and past memory of a part, or of a workload on its node, in bytes.
//
// Anonymous, shared and unreclaimable kernel memory is needed memory. The page cache is
// reclaimable, because the kernel frees it under pressure.
type memory struct {
	types  [3]uint64 // anon, file, shmem: now
	kernel uint64    // unreclaimable: now; 0 if no control group reports it
	swap   uint64
	peak   uint64 // highest resident memory
	// neededPeak is the highest needed memory over the ticks. The high-water marks of processes
	// cover peaks between ticks.
	neededPeak  uint64
	byteSeconds float64
	bounds      *needBounds // of the control group; nil before its first reading
}

func (m *memory) resident() uint64 { return m.types[0] + m.types[1] + m.types[2] }

func (m *memory) needed() uint64 { return m.types[0] + m.types[2] + m.kernel }

// readCgroup records the readings of the control group.
func (m *memory) readCgroup(c *sensor.Cgroup) {
	if c.Have&sensor.CgroupMemory != 0 {
		m.types = [3]uint64{c.Anon, c.File, c.Shmem}
		m.kernel = c.Kernel
	}
	if c.Have&sensor.CgroupSwap != 0 {
		m.swap = c.Swap
	}
	if c.Have&sensor.CgroupPeak != 0 {
		m.peak = max(m.peak, c.Peak)
	}
}

// closeMemory closes the tick for the memory of all parts. It reports whether some parts have processes that share
// much memory. Those parts come last, because their upper bound depends on the lower bounds of the others.
func (r *registry) closeMemory(t *tickTotals) (crowds bool) {
	private, rest := uint64(0), false
	r.bounded = r.bounded[:0]
	r.other.memory.types[2] -= r.unclaimed
	for _, p := range r.order {
		if p.end != 0 {
			continue
		}
		good := p.measureMemory(t)
		c := &p.crowd
		if crowds = crowds || c.crowded; c.bounded {
			r.bounded = append(r.bounded, p)
			continue
		}
		private += p.privateMemory()
		if p == r.other {
			rest = good
			continue
		}
		if p.updatePeaks(t, good); !good && c.crowded && c.bound.RSS != 0 {
			r.bounded = append(r.bounded, p)
		}
	}
	for _, p := range r.bounded {
		if !p.crowd.bounded { // some ticks before were
			p.crowd.keepBound(p.crowd.upperBound(t, private-p.privateMemory(), r.config.Within))
			continue
		}
		p.crowd.last = p.crowd.upperBound(t, private, r.config.Within)
		p.memory.types = p.crowd.last
		p.memory.types[0] += uint64(p.now.huge) * minHugePage
		if p != r.other {
			p.updatePeaks(t, false)
		}
	}
	before := r.unclaimed
	if r.unclaimed = r.unclaimedShared(t.held); t.initial {
		before = r.unclaimed
	}
	for _, p := range r.order {
		if p.end == 0 && p.live > 0 && p.cg.Have&sensor.CgroupMemory == 0 {
			p.markMappedUncertain(before, r.unclaimed)
		}
	}
	if r.unclaimed > 0 {
		r.other.memory.types[2] += r.unclaimed
		r.other.have |= sensor.FieldMemory
	}
	r.other.updatePeaks(t, rest)
	return crowds
}

// markMappedUncertain marks the memory of a part as a lower bound while the machine's unowned shared memory exceeds that before
// the part started.
func (p *Part) markMappedUncertain(before, now uint64) {
	c, now := &p.crowd, min(before, now) // of two ticks: the machine is read a moment later than its processes
	if c.unclaimed == 0 {
		c.unclaimed = 1 + uint32(min(before>>10, math.MaxUint32-1))
	}
	c.unclaimed = min(c.unclaimed, 1+uint32(min(now>>10, math.MaxUint32-1)))
	if now-min(now, uint64(c.unclaimed)<<10) > max(p.memory.resident()/20, unclaimedSlack) {
		lack := certaintyOfLack(sensor.LackUnmapped, fromMapped)
		p.sure.add(lack, lack)
	}
}

// unclaimedSlack is the shared memory in bytes that may appear or disappear between the readings of processes and of
// the machine.
const unclaimedSlack = 4 << 20

// unclaimedShared returns the bytes of shared memory that belong to no part. held is the shared memory of the machine
// in bytes. Unmapped tmpfs and memfd files belong to no process, but to the control group of a part or one above it.
// The result is 0 if a control group does not report shared memory separately.
func (r *registry) unclaimedShared(held uint64) uint64 {
	if held == 0 {
		return r.unclaimed
	}
	claimed := uint64(0)
	for _, p := range r.order {
		if p.end != 0 {
			continue
		}
		if p.cg.Have&(sensor.CgroupMemory|sensor.CgroupShmem) == sensor.CgroupMemory {
			return 0
		}
		claimed += p.memory.types[2]
		if w := p.group.whole; w != nil {
			w.parts += p.memory.types[2]
		}
	}
	for _, p := range r.order {
		if w := p.group.whole; w != nil && p.group.lead == p {
			if w.handle != nil {
				claimed += counterIncrease(w.parts, w.memory.types[2])
			}
			w.parts = 0
		}
	}
	return counterIncrease(claimed, held)
}

// privateMemory returns a lower bound of the private memory of a part, in bytes: anonymous memory of its processes that no other part
// shares.
func (p *Part) privateMemory() uint64 {
	switch {
	case p.cg.Have&sensor.CgroupMemory != 0:
		return min(p.cg.Anon, p.now.memory[0])
	case p.crowd.crowded && !p.crowd.forked || p.now.memory[0] >= minSharedBytes && !p.crowd.forked:
		return min(p.memory.types[0], p.now.memory[0])
	}
	return 0
}

// measureMemory sets the current memory of the part. good is true if the value is reliable enough to count as a peak.
func (p *Part) measureMemory(t *tickTotals) (good bool) {
	m := &p.memory
	good = true
	m.kernel, m.swap = 0, p.now.swap
	if p.cg.Have&sensor.CgroupMemory != 0 {
		p.have |= sensor.FieldMemory
		resident, needed := certainty{figure.Exact, fromCgroup}, neededOfCgroup(&p.cg, t.total)
		if p.now.huge > 0 { // which the group counts apart
			huge := certaintyOfLack(sensor.LackHuge, fromCgroup)
			resident, needed = resident.worse(huge), needed.worse(huge)
		}
		p.sure.add(resident, needed)
	} else if p.now.blank {
		good = false // the earlier memory stays
	} else {
		var c certainty
		m.types, c, good = p.crowd.closeTick(p.now.memory, m.types, p.live, t)
		m.types[0] += uint64(p.now.huge) * minHugePage
		if p.now.sharing {
			c = c.worse(certaintyOfLack(sensor.LackSharedPages, fromRSSSum))
		}
		if p.live > 0 {
			p.sure.add(c, c)
		}
	}
	m.readCgroup(&p.cg)
	if p.cg.Have&sensor.CgroupSwap != 0 {
		p.have |= sensor.FieldSwap
	}
	return good
}

// updatePeaks updates the peaks and the integral with the current memory.
func (p *Part) updatePeaks(t *tickTotals, reliable bool) {
	m := &p.memory
	if p.have&sensor.FieldMemory == 0 {
		return
	}
	if reliable {
		if p.cg.Have&sensor.CgroupPeak == 0 {
			m.peak = max(m.peak, m.resident())
		}
		m.neededPeak = max(m.neededPeak, m.needed())
	}
	p.crowd.keepPeak(m, reliable)
	lived := float64(counterIncrease(p.start, t.boot)) / 1e9 // less than the tick if the part began in it
	if p.start == t.boot {                                   // with processes that were another user's
		lived = t.seconds
	}
	m.byteSeconds += float64(m.resident()) * min(t.seconds, lived)
}

// keepPeak keeps the highest memory of ticks without a measurement, until a measurement replaces it.
func (c *sharedPages) keepPeak(m *memory, reliable bool) {
	switch {
	case c.measurementPeriod == nil || !c.crowded:
	case c.bounded:
		c.keepBound(m.types)
	case c.since != 0 && !c.guessed: // held as it was before
		c.most.add(unmeasuredPeak{m.resident(), m.needed(), c.rss, sensor.LackTogether.Exactness(), true})
	case c.since == 0 && !c.pending: // by now it is better known
		c.most.clear(c.rss)
		if c.bound.clear(c.rss); !reliable {
			c.most.add(unmeasuredPeak{m.resident(), m.needed(), c.rss, sensor.LackScaled.Exactness(), false})
		}
	default: // an estimate from before it grew is no measure
		c.most.add(unmeasuredPeak{RSS: c.rss, Degree: sensor.LackTogether.Exactness(), Open: true})
	}
}

// keepBound keeps the upper bound of the memory in a tick in which the memory was estimated or carried over.
func (c *sharedPages) keepBound(types [3]uint64) {
	c.bound.add(unmeasuredPeak{types[0] + types[1] + types[2], types[0] + types[2], c.rss, sensor.LackSharedPages.Exactness(), false})
}

// peaks returns the peak memory and the peak needed memory of the part, and the exactness of estimated peaks. It uses
// an estimated bound only if no measurement is pending.
func (p *Part) peaks() (peak, needed uint64, degree figure.Exactness) {
	peak, needed = p.memory.peak, p.memory.neededPeak
	e := p.crowd.measurementPeriod
	if e == nil {
		return peak, needed, degree
	}
	of, bound := e.most, e.bound
	if !e.pending && bound.RSS != 0 {
		if of.RSS > bound.RSS+bound.RSS/16 { // larger before it was bounded
			bound.Degree = sensor.LackScaled.Exactness()
		}
		of.add(bound)
	}
	if p.cg.Have&sensor.CgroupPeak != 0 {
		of.Resident = peak
	}
	switch {
	case of.Resident > peak || of.Needed > needed:
		degree = of.Degree
	case of.Open:
		degree = sensor.LackTogether.Exactness()
	}
	return max(peak, of.Resident), max(needed, of.Needed), degree
}

// exportMemory appends memory and its peaks.
func (p *Part) exportMemory(b *metric.Batch) {
	r, m := p.rows, &p.memory
	if p.have&sensor.FieldMemory != 0 {
		if !p.countsOnlyEnded() {
			for i, t := range [...]string{"anon", "file", "shmem"} {
				b.Add(p.seriesOnce(&r.memory[i], memoryBytes, t), float64(m.types[i]))
			}
		}
		b.Add(p.seriesOnce(&r.byteSeconds, memoryByteSeconds), m.byteSeconds)
	}
	if p.part == "" && p.group.whole != nil && p.group.whole.memory.peak > 0 {
		return // the lead exports the whole workload's under the same labels
	}
	peak, needed, _ := p.peaks()
	needed, most := p.memory.needRange(peak, needed)
	if peak > 0 {
		b.Add(p.seriesOnce(&r.peak, memoryPeak), float64(peak))
	}
	if needed > 0 {
		b.Add(p.seriesOnce(&r.neededPeak, memoryNeededPeak), float64(needed))
	}
	if most > 0 {
		b.Add(p.seriesOnce(&r.neededMost, memoryNeededMost), float64(most))
	}
}

// exportMemoryPressure appends needed memory and the signs of memory shortage.
func (p *Part) exportMemoryPressure(b *metric.Batch) {
	r, c := p.rows, &p.cg
	if p.have&sensor.FieldMemory != 0 && !p.countsOnlyEnded() {
		b.Add(p.seriesOnce(&r.needed, memoryNeeded), float64(p.memory.needed()))
	}
	if c.Have&sensor.CgroupRefaults != 0 {
		b.Add(p.seriesOnce(&r.refaults[0], memoryRefaults, "anon"), float64(p.counterSum(cgRefaultAnon)))
		b.Add(p.seriesOnce(&r.refaults[1], memoryRefaults, "file"), float64(p.counterSum(cgRefaultFile)))
	}
	if c.Have&sensor.CgroupFaults != 0 {
		all, major := p.counterSum(cgFaults), p.counterSum(cgMajorFaults)
		b.Add(p.seriesOnce(&r.pageFaults[0], pageFaults, "minor"), float64(counterIncrease(major, all)))
		b.Add(p.seriesOnce(&r.pageFaults[1], pageFaults, "major"), float64(major))
	}
	if c.Have&sensor.CgroupHuge != 0 && c.Have&sensor.CgroupMemory != 0 {
		b.Add(p.seriesOnce(&r.huge, hugeBytes), float64(c.HugeBytes))
	}
	if c.Have&sensor.CgroupNodes != 0 && c.Have&sensor.CgroupMemory != 0 {
		p.exportNodes(b)
	}
	if c.Have&sensor.CgroupMemoryEvents != 0 {
		b.Add(p.seriesOnce(&r.memoryEvents[0], memoryEvents, "max"), float64(p.counterSum(cgMaxEvents)))
		b.Add(p.seriesOnce(&r.memoryEvents[1], memoryEvents, "oom"), float64(p.counterSum(cgOOMEvents)))
	}
}

// exportNodes appends the memory on each NUMA node on which the part has had memory.
func (p *Part) exportNodes(b *metric.Batch) {
	r := p.rows
	if p.cg.NodeBytes == nil {
		return
	}
	if r.nodes == nil {
		r.nodes = make([]*metric.Series, sensor.MaxNodes)
	}
	for i, n := range p.cg.NodeBytes {
		if n > 0 || r.nodes[i] != nil {
			b.Add(p.seriesOnce(&r.nodes[i], nodeBytes, strconv.Itoa(i)), float64(n))
		}
	}
}

// memoryCertainty is the exactness of the memory of a part, the worst since the last export.
type memoryCertainty struct{ resident, needed certainty }

func (m *memoryCertainty) add(resident, needed certainty) {
	m.resident, m.needed = m.resident.worse(resident), m.needed.worse(needed)
}

// neededOfCgroup returns the certainty of needed memory. Version 1 of control groups reports kernel memory as one sum.
// Needed memory is an estimate if this sum exceeds a twentieth of the group's memory limit, or of total, the machine's
// memory in bytes.
func neededOfCgroup(c *sensor.Cgroup, total uint64) certainty {
	known := c.Anon + c.File + c.Shmem
	limit := max(total, known)
	if c.Have&sensor.CgroupMemoryMax != 0 {
		limit = min(limit, c.MemoryMax)
	}
	switch {
	case c.Have&sensor.CgroupShmem == 0, c.Have&sensor.CgroupKernel == 0 && counterIncrease(known, c.Current) > limit/20:
		return certaintyOfLack(sensor.LackShmem, fromCgroup)
	case c.Have&sensor.CgroupKernelBound != 0 && c.Kernel > limit/20:
		return certaintyOfLack(sensor.LackReclaimable, fromCgroup)
	}
	return certainty{figure.Exact, fromCgroup}
}
