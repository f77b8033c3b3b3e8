package account

import "reckon/sensor"

// Upper bounds of the total activity of a process group with the reduced series set.
const (
	maxReducedCPU   = uint64(1e9)      // nanoseconds
	maxReducedIO    = uint64(16 << 20) // bytes
	maxReducedCalls = uint64(1000)     // on file systems across the network
)

// isReduced reports whether the part gets the reduced series set. It applies to a process group that has done next to
// nothing and had no OOM kill. It also applies to an equally idle container that ended before its first export. A
// machine has hundreds of these, each with 25 series that would not change. The omitted figures are measured and are
// not zero. A part with more activity gets all series and keeps them, without the amounts that were already handed
// over. The reduced set has CPU time, memory with peak and byte-seconds, energy, process counts, facts, start and
// end. Waiting, I/O, traffic, connections, file system calls, page faults and context switches are handed over to the
// owner's short work at each export. Swap, threads, commands and the distribution of cores are omitted.
func (p *Part) isReduced() bool {
	small := p.kind.Group() || p.place != "" && p.end != 0
	if p.full {
		return false
	}
	if small && p.CPU() < maxReducedCPU && p.total.read+p.total.write < maxReducedIO && p.memory.swap == 0 &&
		!p.energy.HasGPU() && p.oomKills() == 0 && p.monitored == nil && !p.isActive(sensor.WeightActive) {
		return true
	}
	p.full = true
	return false
}

// reducedCounters returns the counters that the reduced series set leaves out.
func (u usage) reducedCounters() usage {
	u.user, u.system = 0, 0
	return u
}

// separateCounters holds the amounts of counters that are missing from the series of the part or of the node.
type separateCounters struct {
	before usage // counted before the ledger began
	handed usage // handed over to the short work of the owner, with before
	// heldCPU is CPU time from before the part was busy, which counts as short work. login is the
	// user with the limit that it counts against, empty for the owner; see excess.
	heldCPU uint64
	login   string
}

func (p *Part) ensureSeparate() *separateCounters {
	if p.set == nil {
		p.set = new(separateCounters)
	}
	return p.set
}

// handedOver returns the amounts of the counters that were handed over.
func (p *Part) handedOver() usage {
	if p.set == nil {
		return usage{}
	}
	return p.set.handed
}

// ownUsage returns the counters of the part minus the amounts that were handed over.
func (p *Part) ownUsage() usage {
	own := p.total
	own.subtract(p.handedOver())
	return own
}

// handOver adds the counts since the last export of parts with the reduced series set to their owners' short work. Sums
// over all series are thus complete. Use before the ledger began is in no sum.
func (r *registry) handOver() {
	for _, p := range r.order {
		if p.phase == absorbed || p.phase == heldBack || !p.isReduced() {
			continue
		}
		if p.set != nil && p.set.handed == (usage{}) {
			p.set.handed = p.set.before
		}
		more := p.ownUsage().reducedCounters()
		if more == (usage{}) && p.tally.Empty() {
			continue
		}
		into := r.shortWork(p.owner)
		into.full = true
		into.total.add(more)
		into.have |= p.have & (sensor.FieldWait | sensor.FieldIO | sensor.FieldFaults | sensor.FieldSwitches)
		into.lost |= p.lost | p.now.lacks
		r.deletes.mergePart(into, p)
		if more != (usage{}) {
			p.ensureSeparate().handed = p.total.reducedCounters()
		}
		r.tallies.HandOver(&p.tally, &into.tally)
	}
}

// lacksHanded reports whether more than a hundredth of a counter was handed over.
func lacksHanded(handed, total uint64) bool { return handed > total/useTolerance }
