package account

import "reckon/sensor"

// charge adds the use of a process since it was last read.
func (p *Part) charge(d usage, proc *sensor.Process, task int16, initial bool) {
	if initial {
		p.total.add(d)
		if past := d.reducedCounters(); past != (usage{}) {
			p.separate().before.add(past)
		}
		p.tasks += d.user + d.system
	} else {
		p.now.used.add(d)
	}
	p.have |= proc.Have
	if cpu := d.user + d.system; cpu > 0 {
		if task > 0 {
			p.byTask.nanos[task-1] += cpu
		}
		comm := proc.Comm
		if proc.Kernel {
			comm = commonName(comm)
		}
		p.commands.add(comm, cpu)
	}
}

// countProcess counts a living process and its memory in this tick.
func (p *Part) countProcess(proc *sensor.Process) {
	p.now.live++
	p.now.threads += max(proc.Threads, 1)
	p.now.blank = p.now.blank || proc.Blank
	p.now.memory[0] += proc.Anon
	p.now.memory[1] += proc.File
	p.now.memory[2] += proc.Shmem
	p.now.swap += proc.Swap
	p.now.sharing = p.now.sharing || p.now.huge > 0 && proc.Huge > 0
	p.now.huge += uint32(proc.Huge / hugeUnit)
}

// hugeUnit is the size of the smallest huge pages (arm64), bytes.
const hugeUnit = 64 << 10

// highWater records the peak resident size of a process, minus its file pages as far as they were observed.
func (p *Part) highWater(e *process, proc *sensor.Process) {
	seen := proc.Have&sensor.FieldMemory != 0
	if seen {
		e.file, e.sized = max(e.file, proc.File), true
	}
	if p.cg.Have&sensor.CgroupMemory != 0 || p.group != nil && p.group.whole != nil {
		p.memory.ensureBounds().now.count(proc)
	}
	if proc.Have&sensor.FieldPeak == 0 {
		return
	}
	if p.cg.Have&sensor.CgroupPeak == 0 {
		p.memory.peak = max(p.memory.peak, proc.PeakBytes)
	}
	if e.sized || p.cg.Have&sensor.CgroupMemory == 0 {
		p.memory.neededPeak = max(p.memory.neededPeak, increase(e.file, proc.PeakBytes))
	}
}
