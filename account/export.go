package account

import (
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// partSeries holds the series of a part. It is created at the first export of the part.
type partSeries struct {
	// shown is the time of the last export that included the part, in milliseconds since the Unix epoch, or 0 for none
	// by this agent. reduced reports that some export had the reduced series set.
	shown                            int64
	reduced                          bool
	user, system, wait, throttled    *metric.Series
	memory                           [3]*metric.Series
	peak, byteSeconds, swap          *metric.Series
	needed, neededPeak, neededMost   *metric.Series
	refaults, memoryEvents           [2]*metric.Series
	pageFaults                       [2]*metric.Series
	huge                             *metric.Series
	nodes                            []*metric.Series // by NUMA node
	limits                           []*diskLimit
	read, write, faults, vol, invol  *metric.Series
	cancelled                        *metric.Series
	oom                              *metric.Series
	pressure                         [3]*metric.Series
	processes, threads, started      *metric.Series
	info, start, end                 *metric.Series
	reqCores, reqMem, reqGPU, reqSec *metric.Series
}

// Series returns a series of d with the labels of the part, followed by the given label values.
func (p *Part) Series(d *metric.Desc, values ...string) *metric.Series {
	return p.newSeries(d, values...)
}

// newSeries returns a series of d with the labels of the part.
func (p *Part) newSeries(d *metric.Desc, values ...string) *metric.Series {
	if p.labels == nil {
		p.labels = &[...]string{string(p.id), string(p.kind), p.part, p.owner}
	}
	s := metric.NewSeries(d, append(p.labels[:], values...)...)
	if d.Kind == metric.Counter {
		s.Created = p.created
	}
	return s
}

// Export appends the series of every workload to b. It includes workloads that ended since the last export and then
// forgets them. The appended histograms are valid until the next Tick.
func (l *Ledger) Export(b *metric.Batch) {
	boot := l.at.lastAt
	l.at.exports++
	l.parts.dropFlushed()
	l.RenameParts() // the last tick may have seen the part run the program that identifies it
	l.parts.mergeShort()
	l.parts.readReports()
	l.parts.sumPodBounds()
	grace := l.parts.nameGrace()
	for _, p := range l.parts.order { // before any part is exported for the last time
		if p.phase < exported {
			p.phase = unexported
			if l.parts.mayBeShort(p, boot) || p.mustWait(boot, grace) {
				p.phase = heldBack
			}
		}
	}
	l.parts.handOver()
	l.table.handOverPending()
	for _, p := range l.parts.order {
		if p.phase == absorbed || p.phase == heldBack {
			continue
		}
		from := len(b.Samples)
		l.exportPart(p, b)
		p.rows.shown = l.at.unixMillis()
		p.phase = max(p.phase, exported)
		if p.end != 0 && !p.mustLinger(boot, l.config.Linger) && p.isEndReported(boot) && !l.power.Awaits(&p.energy) {
			p.phase = flushed
			if l.parts.mustExportReport(p) {
				p.phase = reported
			}
			for i := range b.Samples[from:] {
				if x := &b.Samples[from+i]; p.phase != reported || !isReport(x.Series.Desc) {
					x.Last = true
				}
			}
		}
	}
	l.parts.exportReports(b)
	for owner, n := range l.parts.counts {
		s := l.parts.shorts[owner]
		if s == nil {
			s = metric.NewSeries(shortWorkloads, owner)
			l.parts.shorts[owner] = s
		}
		b.Add(s, float64(n))
	}
	l.table.exportExcess(b)
	l.table.exportZombies(b)
	l.table.resolveUncertainties()
	l.judge.export(l.EnergyModelled(), b)
	l.power.ExportNode(b)
	l.power.ExportDevices(b)
	l.table.exportNodeTotals(b)
	l.parts.tallies.ExportTotals(b)
	l.at.exported = l.at.lastAt
}

func (p *Part) mustLinger(boot uint64, linger time.Duration) bool {
	return !p.superseded && counterIncrease(p.end, boot) < uint64(max(linger, 0))
}

// Close closes the control groups of the ledger, which must not be used afterwards.
func (l *Ledger) Close() {
	for _, p := range l.parts.order {
		p.closeCgroup()
		if g := p.group; g != nil && g.whole != nil {
			g.whole.close()
		}
	}
}

func (p *Part) closeCgroup() {
	if p.cgroup != nil {
		_ = p.cgroup.Close()
		p.cgroup = nil
	}
}

func (l *Ledger) exportPart(p *Part, b *metric.Batch) {
	if p.rows == nil {
		if p.behind != nil {
			p.startAfterRun(p.behind)
			p.behind = nil
		}
		p.rows = p.newRows()
	}
	r := p.rows
	b.Add(r.user, toSeconds(p.total.user))
	b.Add(r.system, toSeconds(p.total.system))
	p.exportMemory(b)
	if p.group.lead == p {
		p.group.exportJobGroup(p, b)
		p.group.exportBounds(p, b)
	}
	b.Add(r.processes, float64(p.live))
	b.Add(r.started, float64(p.started))
	if s := p.script(); s != nil && s.left > 0 {
		b.Add(p.seriesOnce(&s.row, processesLeft), float64(s.left))
	}
	l.power.Export(&p.energy, p, b)
	p.exportFacts(l.at, b)
	p.exportContainer(b)
	if !p.full { // by handOver
		r.reduced = true
		return
	}
	p.exportMemoryPressure(b)
	if p.have&sensor.FieldWait != 0 {
		b.Add(p.addOmittedSeries(&r.wait, waitSeconds), toSeconds(p.ownUsage().wait))
	}
	if p.have&sensor.FieldSwap != 0 && !p.countsOnlyEnded() {
		b.Add(p.seriesOnce(&r.swap, swapBytes), float64(p.memory.swap))
	}
	p.exportCounts(b)
	l.parts.deletes.export(p, b)
	p.exportControlGroup(b)
	if !p.countsOnlyEnded() {
		b.Add(p.seriesOnce(&r.threads, threads), float64(p.thread))
	}
	l.power.ExportGPUs(&p.energy, p, p.end != 0, b)
	l.parts.tallies.Export(&p.tally, p, r.shown, b)
	p.exportMonitored(b)
	p.exportTasks(b)
	p.commands.createSeries(p, p.CPU(), p.end != 0)
	p.commands.export(p, b)
	if g := p.group; g.lead == p && g.cores.Count > 0 && !p.kind.Folded() {
		if g.series == nil {
			g.series = metric.NewSeries(coresHistogram, string(p.id), string(p.kind), "", p.owner)
		}
		b.AddHistogram(g.series, &g.cores)
		g.exportWanted(p, b)
	}
}

// exportControlGroup appends the counters of the control group that are exported unchanged.
func (p *Part) exportControlGroup(b *metric.Batch) {
	r := p.rows
	if p.cg.Have&sensor.CgroupThrottle != 0 {
		b.Add(p.seriesOnce(&r.throttled, throttledSeconds), toSeconds(p.counterSum(cgThrottled)))
	}
	p.exportDiskLimits(b)
	kills := p.oomKills()
	if p.cg.Have&sensor.CgroupEvents != 0 || kills > 0 {
		b.Add(p.seriesOnce(&r.oom, oomKills), float64(kills))
	}
	if p.cg.Have&sensor.CgroupPressure != 0 {
		b.Add(p.seriesOnce(&r.pressure[0], pressureSeconds, "cpu"), toSeconds(p.counterSum(cgCPUWait)))
		b.Add(p.seriesOnce(&r.pressure[1], pressureSeconds, "memory"), toSeconds(p.counterSum(cgMemoryStall)))
		b.Add(p.seriesOnce(&r.pressure[2], pressureSeconds, "io"), toSeconds(p.counterSum(cgIOStall)))
	}
}

// oomKills returns the number of times that the OOM killer chose a process of the part, by the source that counted most.
func (p *Part) oomKills() uint64 {
	if p.cg.Have&sensor.CgroupEvents == 0 {
		return uint64(p.oomSeen)
	}
	return max(uint64(p.oomSeen), p.counterSum(cgOOMKills))
}

// exportFacts appends the facts of the part, with its start and end.
func (p *Part) exportFacts(at *times, b *metric.Batch) {
	r, f := p.rows, &p.facts
	if c := p.container; c != nil && c.facts.Type == sandbox { // the program of a sandbox does not describe the workload
		f.changed = f.changed || f.Command != ""
		f.Command = ""
	} else if f.Command == "" || p.commands.needsMainProgram(f.Command, p.CPU(), p.end != 0) {
		if comm, ok := p.commands.mainProgram(); ok && comm.String() != f.Command {
			f.Command, f.changed = comm.String(), true
		}
	}
	if r.info == nil || f.changed {
		if r.info != nil {
			b.End(r.info) // facts changed: there is one info series at a time
		}
		r.info = p.newSeries(info, f.Name, f.Account, f.Partition, f.Command)
		f.changed = false
	}
	b.Add(r.info, 1)
	b.Add(r.start, at.unixSeconds(p.start))
	if p.end != 0 && !p.kind.Folded() {
		b.Add(p.seriesOnce(&r.end, endTime), at.unixSeconds(p.end))
	}
	if f.RequestCores > 0 {
		b.Add(p.seriesOnce(&r.reqCores, requestCores), f.RequestCores)
	}
	if f.RequestMemoryBytes > 0 {
		b.Add(p.seriesOnce(&r.reqMem, requestMemory), f.RequestMemoryBytes)
	}
	if f.RequestGPUs > 0 {
		b.Add(p.seriesOnce(&r.reqGPU, requestGPUs), f.RequestGPUs)
	}
	if f.RequestSeconds > 0 {
		b.Add(p.seriesOnce(&r.reqSec, requestSeconds), f.RequestSeconds)
	}
}

func (p *Part) newRows() *partSeries {
	r := &partSeries{
		user: p.newSeries(cpuSeconds, "user"), system: p.newSeries(cpuSeconds, "system"),
		processes: p.newSeries(processes), started: p.newSeries(processesStarted),
	}
	if r.start = p.newSeries(startTime); p.facts.Run != "" {
		r.start = p.newSeries(startTimeOfRun, p.facts.Run)
	}
	return r
}

// exportCounts appends the counters of reads, writes, faults and switches of a part.
func (p *Part) exportCounts(b *metric.Batch) {
	r, own := p.rows, p.ownUsage()
	if p.have&sensor.FieldIO != 0 || p.cg.Have&sensor.CgroupIO != 0 {
		b.Add(p.addOmittedSeries(&r.read, ioBytes, "read"), float64(own.read))
		b.Add(p.addOmittedSeries(&r.write, ioBytes, "write"), float64(own.write))
	}
	if p.have&sensor.FieldFaults != 0 {
		b.Add(p.addOmittedSeries(&r.faults, majorFaults), float64(own.majorFaults))
	}
	if p.have&sensor.FieldSwitches != 0 {
		b.Add(p.addOmittedSeries(&r.vol, contextSwitches, "voluntary"), float64(own.voluntary))
		b.Add(p.addOmittedSeries(&r.invol, contextSwitches, "involuntary"), float64(own.involun))
	}
}

// seriesOnce creates a series when its first value is available.
func (p *Part) seriesOnce(s **metric.Series, d *metric.Desc, values ...string) *metric.Series {
	if *s == nil {
		*s = p.newSeries(d, values...)
	}
	return *s
}

// addOmittedSeries creates a series that the reduced set omits. The series starts with a zero at the last export if the part
// had the reduced set then.
func (p *Part) addOmittedSeries(s **metric.Series, d *metric.Desc, values ...string) *metric.Series {
	if *s == nil {
		if *s = p.newSeries(d, values...); p.rows.reduced {
			(*s).Created = p.rows.shown
		}
	}
	return *s
}

func toSeconds(nanos uint64) float64 { return float64(nanos) / 1e9 }
