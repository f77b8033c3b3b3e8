package account

import "reckon/sensor"

// Upper bounds of the total activity of a process group with the reduced series set.
const (
	reducedCPU   = uint64(1e9)      // nanoseconds
	reducedIO    = uint64(16 << 20) // bytes
	reducedCalls = uint64(1000)     // on file systems across the network
)

// reduced reports whether the part has the reduced series set. It is for a process group with hardly any activity since
// its start and without a process killed for lack of memory, and for a container that ended before its first export
// with as little. A desktop or a server has hundreds of them, and each would be 25 series that do not change. Figures
// that are left out are measured and not zero: the part gets all series, from its start on, as soon as it is more
// active, and keeps them.
//
// In the set: CPU time, memory, its peak and byte-seconds, energy, processes and how many were started, the facts, the
// start and the end. Left out: waiting, I/O, traffic, calls on file systems, faults, switches, swap, threads, commands, and the
// distribution
// of cores.
func (p *Part) reduced() bool {
	small := p.kind.Group() || p.place != "" && p.end != 0
	if p.full {
		return false
	}
	if small && p.CPU() < reducedCPU && p.total.read+p.total.write < reducedIO && p.memory.swap == 0 &&
		!p.energy.HasGPU() && p.kills() == 0 && !p.active(sensor.WeightActive) {
		return true
	}
	p.full = true
	return false
}
