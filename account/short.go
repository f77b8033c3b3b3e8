package account

import (
	"time"

	"reckon/sensor"
	"reckon/workload"
)

// Short work is folded: process groups that ended soon and did little are counted in one account
// per owner, so that ten thousand commands do not become ten thousand workloads. A part that ended
// within one export interval is short if it used less than a CPU second and opened few connections.
// A process group that did next to nothing is short for up to maxIdleLife.
const (
	maxShortCPU = uint64(time.Second)
	// maxIdleLife is the longest life of an idle process group that counts as short work, unless the export interval is
	// longer. maxIdleExports sets the same limit in export intervals, so that short intervals keep more detail.
	maxIdleLife    = time.Minute
	maxIdleExports = 12
	// maxIdleCPU is the CPU time limit of a held-back group, in nanoseconds. It is small enough that the sum over all
	// workloads stays complete. A group held back for more than half of maxIdleLife may use half of it.
	maxIdleCPU    = uint64(50 * time.Millisecond)
	maxIdleMemory = uint64(64 << 20) // bytes, at the peak
)

// maxIdleAge returns the age up to which an idle process group may count as short work.
func (c *Config) maxIdleAge() time.Duration {
	return max(c.Export, min(maxIdleExports*c.Export, maxIdleLife))
}

// isNearlyIdle reports whether the part did next to nothing in its life so far. life is its length in nanoseconds.
func (p *Part) isNearlyIdle(life uint64) bool {
	cpu := maxIdleCPU
	if life > uint64(maxIdleLife/2) {
		cpu /= 2
	}
	return p.CPU() < cpu && p.memory.peak < maxIdleMemory && p.total.read+p.total.write < maxReducedIO &&
		!p.energy.HasGPU() && p.oomKills() == 0 && !p.isActive(sensor.WeightLong)
}

// mayBeShort reports whether a process group is left to the next export, because it may turn out to be short work.
func (r *registry) mayBeShort(p *Part, boot uint64) bool {
	life := counterIncrease(p.start, boot)
	return p.kind.Group() && !p.pushed && p.phase < exported && p.created != 0 && p.end == 0 && life < uint64(r.config.maxIdleAge()) &&
		p.isNearlyIdle(life)
}

// isShortWork reports whether an ended part is short work.
func (r *registry) isShortWork(p *Part) bool {
	life := counterIncrease(p.start, p.end)
	if life <= uint64(r.config.Export) && p.CPU() < maxShortCPU {
		return !p.kind.Group() || !p.isActive(sensor.WeightAlways)
	}
	return p.kind.Group() && life <= uint64(r.config.maxIdleAge()) && p.isNearlyIdle(life)
}

// countsOnlyEnded reports whether the part counts only work that has ended. It then has no current memory, and its peak is
// the one of the largest process group.
func (p *Part) countsOnlyEnded() bool { return p.kind.Folded() && p.live == 0 }

// mergeShort moves short work into one account per owner, and the short parts of a running workload into one part.
func (r *registry) mergeShort() {
	for i := 0; i < len(r.order); i++ { // part appends to order
		p := r.order[i]
		if p.end == 0 || p.place != "" || p.pushed || p.phase >= exported || !r.isShortWork(p) {
			continue
		}
		switch {
		case p.kind.Group():
			r.counts[p.owner]++
		case p.part == "" || p.part == shortPart || p.group.parts == 1:
			continue
		}
		p.phase = absorbed // before part looks it up
		into := r.ensurePart(Identified{Identity: r.foldTarget(p)}, p.start)
		r.mergeEnded(into, p)
	}
}

// foldTarget returns the identity of the account that a short process group or part is folded into.
func (r *registry) foldTarget(p *Part) workload.Identity {
	if p.kind.Group() {
		return workload.Identity{Workload: workload.MakeID(workload.Short, p.owner+"/"+r.config.Node), Owner: p.owner}
	}
	return workload.Identity{Workload: p.id, Part: shortPart, Owner: p.owner}
}

// shortPart is the name of the part that holds the folded short parts of a workload.
const shortPart = "short"
