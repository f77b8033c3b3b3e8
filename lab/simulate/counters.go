package simulate

import (
	"reckon/sensor"
	"reckon/sensor/task/counters"
)

// clockRate is the number of cycles that a core executes in a second.
const clockRate = 3e9

// cacheLine is the number of bytes that a cache miss moves.
const cacheLine = 64

// processCounts is the count of the processors for the process of a group that works.
type processCounts struct {
	pid   int32
	start uint64
	exact [counters.Counters]float64 // since it began
	taken [counters.Counters]float64 // the part of exact that was read
}

// countProcessor adds the processor counts for a planned job that uses nanos nanoseconds of CPU time.
func (g *simGroup) countProcessor(d *Does, nanos float64) {
	if d == nil || d.IPC == 0 || len(g.procs) == 0 {
		return
	}
	c := &g.counted
	p := g.procs[len(g.procs)-1]
	c.pid, c.start = p.PID, p.Start
	cycles := nanos / 1e9 * clockRate
	instructions := d.IPC * cycles
	vectors := d.FP * instructions * (1 - d.Scalar)
	for i, v := range map[counters.Counter]float64{
		counters.Cycles: cycles, counters.Instructions: instructions, counters.CacheMisses: d.Traffic * nanos / 1e9 / cacheLine,
		counters.FPScalar: d.FP * instructions * d.Scalar, counters.FP256: vectors,
	} {
		c.exact[i] += v
	}
}

// processorTally reads the processor counts of a node for planned jobs.
type processorTally struct{ n *Node }

func (c processorTally) Spec() *sensor.TallySpec { return counters.Spec }

func (c processorTally) Close() error { return nil }

// Read implements [sensor.Tally].
func (c processorTally) Read(p *sensor.TallyPass) error {
	p.Have = 1 << counters.Memory
	for _, i := range []counters.Counter{counters.Cycles, counters.Instructions, counters.CacheMisses, counters.FPScalar, counters.FP256} {
		p.Have |= 1 << i
	}
	for _, g := range c.n.groups {
		k := &g.counted
		if k.pid == 0 || k.exact == k.taken {
			continue
		}
		for i := range k.exact {
			whole := uint64(k.exact[i]) - uint64(k.taken[i])
			k.taken[i] = k.exact[i]
			p.Add(k.pid, k.start, i, whole)
			if i == int(counters.CacheMisses) {
				p.Add(k.pid, k.start, int(counters.Memory), whole*cacheLine)
			}
		}
	}
	return nil
}
