package account

import "reckon/workload"

// What a process group may have done in its life and still be told in brief.
const (
	quietCPU = uint64(1e9)      // nanoseconds
	quietIO  = uint64(16 << 20) // bytes
)

// brief reports whether the part is told in brief: a process group that has hardly done
// anything since it began, or a container that ended before an export carried it and did no more. A desktop or a server has hundreds of them, and each would be
// 25 series that stand still. What is left out is known and not zero; it is told in full,
// from the begin of the group, as soon as the group does something, and from then on.
//
// In brief: CPU time, memory, its peak and byte-seconds, energy, processes and how many were
// started, the facts, the start and the end. Left out: waiting, I/O, traffic, faults, switches, swap,
// threads, commands, and the distribution of cores.
func (p *Part) brief() bool {
	small := p.kind == workload.Group || p.place != "" && p.end != 0
	if p.full {
		return false
	}
	if small && p.CPU() < quietCPU && p.total.read+p.total.write < quietIO && p.traffic() < quietIO && p.ioWait.nanos < quietCPU && p.memory.swap == 0 && len(p.gpus) == 0 {
		return true
	}
	p.full = true
	return false
}
