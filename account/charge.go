package account

import "reckon/sensor"

// chargeUsage adds the use of a process since it was last read.
func (p *Part) chargeUsage(increase usage, proc *sensor.Process, task int16, initial bool) {
	if initial {
		p.total.add(increase)
		if past := increase.reducedCounters(); past != (usage{}) {
			p.ensureSeparate().before.add(past)
		}
		p.tasks += increase.user + increase.system
	} else {
		p.now.used.add(increase)
	}
	p.have |= proc.Have
	if cpu := increase.user + increase.system; cpu > 0 {
		if task > 0 {
			p.byTask.nanos[task-1] += cpu
		}
		comm := proc.Comm
		if proc.Kernel {
			comm = commonName(comm)
		}
		p.commands.addTime(comm, cpu)
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
	p.now.huge += uint32(proc.Huge / minHugePage)
}

// minHugePage is the size of the smallest huge pages (arm64), in bytes.
const minHugePage = 64 << 10

// recordPeakMemory records the peak resident size of a process, minus the file pages that readings observed.
func (p *Part) recordPeakMemory(e *process, proc *sensor.Process) {
	seen := proc.Have&sensor.FieldMemory != 0
	if seen {
		e.file, e.sized = max(e.file, proc.File), true
	}
	if p.cg.Have&sensor.CgroupMemory != 0 || p.group != nil && p.group.whole != nil {
		p.memory.ensureBounds().now.addProcess(proc)
	}
	if proc.Have&sensor.FieldPeak == 0 {
		return
	}
	if p.cg.Have&sensor.CgroupPeak == 0 {
		p.memory.peak = max(p.memory.peak, proc.PeakBytes)
	}
	if e.sized || p.cg.Have&sensor.CgroupMemory == 0 {
		p.memory.neededPeak = max(p.memory.neededPeak, counterIncrease(e.file, proc.PeakBytes))
	}
}
