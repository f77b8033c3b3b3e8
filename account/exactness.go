package account

import (
	"slices"
	"time"

	"reckon/account/energy"
	"reckon/account/tally"
	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

var figureExactness = metric.NewDesc("reckon_figure_exactness", metric.Gauge, metric.None,
	[]string{"figure", "kind", "source", "workload", "owner"},
	"Exactness of a figure of the workloads of a kind on the node, and its source: 0 exact, 1 at least, 2 estimated, 3 modelled, 4 at "+
		"most; the worst since the last export. Where only one workload is concerned, as by memory that its processes share, the series "+
		"names it and its owner. A run takes the worst of its time.")

// figureIndex identifies a figure that has a degree of exactness.
type figureIndex uint8

const (
	figCPU figureIndex = iota
	figCores
	figMean
	figWait
	figProcesses
	figMemory
	figMemoryPeak
	figNeeded
	figNeededPeak
	figRead
	figWrite
	figEnergy
	figGPU
	figTraffic
	figureCount // the figures of tallies follow
)

// maxFigures is the maximum number of figures, including the figures of tallies.
const maxFigures = 40

// figureNames are the names of the figures in the API.
var figureNames = [figureCount]string{
	"cpu_seconds", "cores_p95", "cores_mean", "cpu_wait_seconds", "processes", "memory_bytes", "memory_peak_bytes", "memory_needed_bytes",
	"memory_needed_peak_bytes", "io_read_bytes", "io_write_bytes", "energy_joules", "gpu_seconds", "memory_traffic_bytes",
}

// endedThreads is the certainty of figures that lack ended threads.
var endedThreads = certaintyOfLack(sensor.LackEndedThreads, fromThreads)

// assessor determines the exactness of the figures of a ledger.
type assessor struct {
	parts    *registry
	doubts   *uncertainties
	kinds    []*exactness // of all workloads of a kind
	evidence evidence
}

// figureName returns the name of a figure in the API.
func (j *assessor) figureName(f figureIndex) string {
	if f < figureCount {
		return figureNames[f]
	}
	return j.parts.tallies.Figure(int(f - figureCount))
}

// degrees is the exactness of all figures, three bits each.
type degrees [maxFigures / 20]uint64

func (d *degrees) exactness(f figureIndex) figure.Exactness {
	return figure.Exactness(d[f/20] >> (3 * (f % 20)) & 7)
}

// limitTo makes a figure no more exact than e.
func (d *degrees) limitTo(f figureIndex, e figure.Exactness) {
	d[f/20] ^= uint64(d.exactness(f)^d.exactness(f).Worse(e)) << (3 * (f % 20))
}

// evidence holds the counts that determine how exact the node's figures are since the last export. If exports follow
// each other quickly, the counts also cover some time before it.
type evidence struct {
	first     bool // the ledger began: earlier use is only partly known
	unsettled bool // some end of a process may not have been recorded
	childless bool // and the source has no child times
	lost      int64
	busy      uint64
	time      uint64 // of all processors
	// span is its length, and carried the part of it before the last export.
	span, carried uint64
	// late is an upper bound of the charges for the next tick: child times that a living child may
	// explain (see children.go), and use of processes between their reading and the machine's.
	// before is the same for all earlier ticks.
	late, before uint64
}

// CPU times are lower bounds if the unattributed time exceeds two limits: 1/useTolerance of the time used and
// 1/timeTolerance of all processor time. Smaller amounts are normal, because not all clocks are read at the same
// instant.
const (
	useTolerance  = 100
	timeTolerance = 200
)

// lateTolerance limits the CPU time that arrives late through the child times of parents. Above 1/lateTolerance of the
// CPU time, the distribution of cores in use is an estimate. One tick then lacks time that the next one has in excess.
const lateTolerance = 50

// evidenceSpan is the shortest time, in nanoseconds, over which unattributed time is judged. Clocks
// are read at different instants, and over a shorter time the difference would weigh too much.
const evidenceSpan = uint64(15 * time.Second)

// addTick adds one tick of length span to the evidence, all in nanoseconds. busy is the busy time of the machine, charged
// the part of it that was charged, and irq the time spent on interrupts. late is an upper bound of the busy time that
// the next tick may still charge.
func (v *evidence) addTick(busy, charged int64, irq, late, span uint64, processors int) {
	v.late = late
	v.lost += busy - charged - int64(irq)
	v.busy += uint64(max(busy, 0))
	v.span += span
	v.time += span * uint64(max(processors, 1))
}

// nextInterval returns the initial state of the next export.
func (v *evidence) nextInterval() evidence {
	next := evidence{late: v.late, before: v.late}
	own := v.span - v.carried
	if own == 0 || own >= evidenceSpan {
		return next
	}
	next.span = min(v.span, evidenceSpan-own)
	next.carried = next.span
	part := float64(next.span) / float64(v.span)
	next.before = uint64(float64(v.before)*part + float64(v.late)*(1-part))
	next.lost, next.busy, next.time = int64(float64(v.lost)*part), uint64(float64(v.busy)*part), uint64(float64(v.time)*part)
	return next
}

// cpuCertainty returns the exactness of CPU times that no control group counts.
func (v *evidence) cpuCertainty() certainty {
	bearable := max(int64(v.busy/useTolerance), int64(v.time/timeTolerance))
	switch {
	case !v.unsettled:
		return certainty{figure.Exact, fromRecords}
	case v.childless:
		return certaintyOfLack(sensor.LackChildTimes, fromReadings)
	case v.lost-int64(v.late) > bearable:
		return certaintyOfLack(sensor.LackOrphans, fromChildren)
	case -v.lost-int64(v.before) > bearable:
		return certaintyOfLack(sensor.LackLate, fromChildren) // more than the machine's busy time, so a part is from earlier ticks
	}
	return certainty{figure.Exact, fromChildren}
}

// endsCertainty returns the exactness of figures that come from readings and exit records alone.
func (v *evidence) endsCertainty() certainty {
	if v.unsettled {
		return certaintyOfLack(sensor.LackEndedProcesses, fromReadings)
	}
	return certainty{figure.Exact, fromRecords}
}

// exactRow is the exactness of a figure from one source, with its series.
type exactRow struct {
	source origin
	worst  figure.Exactness
	seen   bool // in this export
	series *metric.Series
}

// exactness holds the exactness of an export's figures for one kind of workload, or for a single workload.
type exactness struct {
	kind  workload.Kind
	id    workload.ID // empty: all of the kind
	owner string
	rows  [][]exactRow // by figure
}

// isOwnEvidence reports whether the evidence against a figure concerns only this workload.
func (c certainty) isOwnEvidence() bool {
	if c.degree == figure.Exact {
		return false
	}
	switch c.source {
	case fromCgroup, fromPSS, fromRSSSum, fromMapped, fromSeen, fromThreads, fromReduced, fromDeletes:
		return true
	}
	return slices.Contains(energy.Methods[:], string(c.source))
}

// exactness returns the exactness record of the workload alone.
func (p *Part) exactness() *exactness {
	g := p.group
	if g.exact == nil {
		g.exact = &exactness{kind: p.kind, id: p.id, owner: p.owner}
	}
	return g.exact
}

func (j *assessor) exactnessOfKind(kind workload.Kind) *exactness {
	for _, x := range j.kinds {
		if x.kind == kind {
			return x
		}
	}
	x := &exactness{kind: kind}
	j.kinds = append(j.kinds, x)
	return x
}

// record records the exactness of a figure. name is its name in the API.
func (x *exactness) record(f figureIndex, name string, c certainty) {
	for len(x.rows) <= int(f) {
		x.rows = append(x.rows, nil)
	}
	for i := range x.rows[f] {
		if r := &x.rows[f][i]; r.source == c.source {
			if r.seen {
				c.degree = r.worst.Worse(c.degree)
			}
			r.worst, r.seen = c.degree, true
			return
		}
	}
	x.rows[f] = append(x.rows[f], exactRow{
		source: c.source, worst: c.degree, seen: true,
		series: metric.NewSeries(figureExactness, name, string(x.kind), string(c.source), string(x.id), x.owner),
	})
}

// export appends the recorded rows, and ends the series of rows that were not recorded again.
func (x *exactness) export(b *metric.Batch) {
	for f := range x.rows {
		kept := x.rows[f][:0]
		for _, r := range x.rows[f] {
			if !r.seen {
				b.End(r.series)
				continue
			}
			b.Add(r.series, float64(r.worst))
			r.seen = false
			kept = append(kept, r)
		}
		x.rows[f] = kept
	}
}

// export appends the exactness of the exported figures. modelled reports that energy comes from a model.
func (j *assessor) export(modelled bool, b *metric.Batch) {
	j.parts.deletes.closeInterval(j.parts.order)
	for _, p := range j.parts.order {
		if p.kind.System() || p.phase == absorbed || p.phase == heldBack && p.place != "" {
			continue
		}
		j.recordPart(p, j.exactnessOfKind(p.kind), modelled)
		p.sure = memoryCertainty{}
	}
	for _, p := range j.parts.order {
		if g := p.group; g.lead == p && g.exact != nil {
			from := len(b.Samples)
			g.exact.export(b)
			for i := range b.Samples[from:] {
				b.Samples[from+i].Last = b.Samples[from+i].Last || p.phase >= flushed
			}
		}
	}
	for _, x := range j.kinds {
		x.export(b)
	}
	j.evidence = j.evidence.nextInterval()
}

// assessCores records the reasons why the cores in use are less exact than the CPU time.
func (p *Part) assessCores(note func(figureIndex, certainty)) {
	if late := p.unseen; late > p.CPU()/lateTolerance && late > clockStep {
		note(figCores, certaintyOfLack(sensor.LackLate, fromSeen))
	}
	if p.hasUncertainEnd() && p.group.parts == 1 && p.place == "" {
		note(figMean, certaintyOfLack(sensor.LackEnd, fromSeen))
	}
}

// recordPart records the exactness of the figures of a part.
func (j *assessor) recordPart(p *Part, x *exactness, modelled bool) {
	v := &j.evidence
	cpu, ends := v.cpuCertainty(), v.endsCertainty()
	if v.first && p.created == 0 {
		cpu = certaintyOfLack(sensor.LackHistory, fromStart)
		ends = cpu
	}
	if p.hasCgroupCPU() {
		cpu = certainty{figure.Exact, fromCgroup}
	} else {
		cpu = j.doubts.cpuCertainty(p, cpu)
	}
	p.degrees = degrees{}
	lost := p.lost | p.now.lacks
	note := func(f figureIndex, c certainty) {
		p.degrees.limitTo(f, c.degree)
		own := c.source == fromThreads || c.source == fromDeletes || c.source == fromReduced
		if c.isOwnEvidence() && (own || f != figRead && f != figWrite) {
			p.exactness().record(f, j.figureName(f), c)
			return
		}
		x.record(f, j.figureName(f), c)
	}
	note(figCPU, cpu)
	p.assessCores(note)
	if p.have&sensor.FieldWait != 0 && p.full {
		wait := p.waitCertainty(ends)
		if lost&lackWait != 0 {
			wait = wait.worse(endedThreads)
		}
		note(figWait, wait)
	}
	note(figProcesses, ends)
	if p.have&sensor.FieldIO != 0 || p.cg.Have&sensor.CgroupIO != 0 {
		io := p.ioCertainty(ends)
		if lost&lackIO != 0 && io.source != fromCgroup {
			io = io.worse(endedThreads)
		}
		note(figRead, io)
		note(figWrite, j.parts.deletes.reachedCertainty(p, io))
	}
	p.assessMemory(ends, note)
	p.assessDevices(cpu, modelled, note)
	if p.monitored != nil {
		note(figTraffic, p.monitored.certainty())
	}
	p.assessHandedOver(j.parts.tallies, note)
	j.parts.tallies.Judge(&p.tally, p.start, func(f int, degree figure.Exactness, source string) {
		note(figureCount+figureIndex(f), certainty{degree, origin(source)})
	})
}

// assessHandedOver records the figures that lack amounts handed over before the part got all series.
func (p *Part) assessHandedOver(books *tally.Tallies, note func(figureIndex, certainty)) {
	lack, handed := certaintyOfLack(sensor.LackQuiet, fromReduced), p.handedOver()
	if p.set != nil && lacksHanded(p.set.heldCPU, p.CPU()+p.set.heldCPU) {
		note(figCPU, lack)
	}
	if !p.full {
		return
	}
	if lacksHanded(handed.wait, p.total.wait) {
		note(figWait, lack)
	}
	if lacksHanded(handed.read, p.total.read) {
		note(figRead, lack)
	}
	if lacksHanded(handed.write, p.total.write) {
		note(figWrite, lack)
	}
	books.Handed(&p.tally, func(f int) { note(figureCount+figureIndex(f), lack) })
}

// ioCertainty returns the exactness of reads and writes: ends, unless a control group counts them.
func (p *Part) ioCertainty(ends certainty) certainty {
	switch {
	case p.have&sensor.FieldIO != 0 || p.cg.Have&sensor.CgroupIO == 0:
		return ends
	case p.cg.Have&sensor.CgroupKernelBound != 0: // version 1 counts no buffered writes
		return certaintyOfLack(sensor.LackBuffered, fromCgroup)
	}
	return certainty{figure.Exact, fromCgroup}
}

// assessMemory records the exactness of memory and its peaks.
func (p *Part) assessMemory(ends certainty, note func(figureIndex, certainty)) {
	if p.have&sensor.FieldMemory == 0 {
		return
	}
	if p.sure.resident.source != fromNothing {
		note(figMemory, p.sure.resident)
		note(figNeeded, p.sure.needed)
	}
	peak, needed := p.peakCertainty(p.sure.resident, ends, sensor.CgroupPeak), p.peakCertainty(p.sure.needed, ends, sensor.CgroupMemory)
	if p.kind.Folded() { // the peak of the largest one, not of all together
		together := sensor.LackTogether.Exactness()
		peak.degree, needed.degree = peak.degree.Worse(together), needed.degree.Worse(together)
	}
	if peak.source != fromNothing { // at the end, for a bound that should have been measured
		note(figMemoryPeak, peak)
		note(figNeededPeak, needed)
	}
}

// assessDevices records the exactness of GPU time, and of energy, which is at best as exact as the CPU time.
func (p *Part) assessDevices(cpu certainty, modelled bool, note func(figureIndex, certainty)) {
	if p.energy.Metered() {
		switch {
		case modelled:
			cpu = certaintyOfLack(sensor.LackMeter, fromModel)
		case cpu.degree == figure.Exact:
			cpu.source = fromMeter
		}
		note(figEnergy, cpu)
	}
	for k, charged := range p.energy.Computed() {
		switch {
		case charged && k == 0:
			note(figGPU, certainty{figure.Exact, origin(energy.Methods[k])})
		case charged:
			note(figGPU, certaintyOfLack(sensor.LackSplit, origin(energy.Methods[k])))
		}
	}
}

// waitCertainty returns the certainty of the CPU wait, which only processes that were read report. It returns ends if
// that excludes gaps. Otherwise the certainty depends on the share of CPU time that unread processes used.
func (p *Part) waitCertainty(ends certainty) certainty {
	used := p.CPU()
	switch missing := used - min(used, p.tasks-min(p.tasks, p.unseen)); {
	case ends.degree == figure.Exact, ends.source == fromStart:
		return ends
	case missing > used/useTolerance && missing > clockStep:
		return certaintyOfLack(sensor.LackUnread, fromSeen)
	}
	return certainty{figure.Exact, fromSeen}
}

// inexactFigures returns the exactness of those figures of the part that were not exact in the last export, by their
// API names. It returns nil if all were exact.
func (j *assessor) inexactFigures(p *Part) (d figure.Degrees) {
	for f := range figureCount + figureIndex(j.parts.tallies.Figures()) {
		d.Add(j.figureName(f), p.degrees.exactness(f))
	}
	return d
}

// peakCertainty returns the certainty of a peak. now is the certainty of the current value. A peak between two readings
// is certain only if a control group or exit records report it.
func (p *Part) peakCertainty(now, ends certainty, fields sensor.CgroupFields) certainty {
	_, _, degree := p.peaks()
	switch {
	case p.cg.Have&fields != 0:
		return now
	case degree == figure.AtMost:
		return certainty{degree, fromRSSSum}
	case degree != figure.Exact:
		return certainty{degree, fromPSS}
	case now.source == fromPSS || now.source == fromRSSSum: // in ticks below the peak
		return ends
	case now.degree >= ends.degree:
		return now
	}
	return ends
}
