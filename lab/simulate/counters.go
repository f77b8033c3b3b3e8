package simulate

import "reckon/sensor"

// clockRate is how many cycles a core executes in a second.
const clockRate = 3e9

// cacheLine is how many bytes a cache miss moves.
const cacheLine = 64

// counted is what the processors counted for the process of a group that works.
type counted struct {
	sensor.Counted
	exact [sensor.Counters]float64 // since it began
	taken [sensor.Counters]float64 // of it, what was read
}

// count adds what the processors count while a planned job uses nanoseconds of CPU time.
func (g *group) count(d *Does, nanos float64) {
	if d == nil || d.IPC == 0 || len(g.procs) == 0 {
		return
	}
	c := &g.counted
	p := g.procs[len(g.procs)-1]
	c.PID, c.Start = p.PID, p.Start
	cycles := nanos / 1e9 * clockRate
	instructions := d.IPC * cycles
	vectors := d.FP * instructions * (1 - d.Scalar)
	for i, v := range map[sensor.Counter]float64{
		sensor.Cycles: cycles, sensor.Instructions: instructions, sensor.CacheMisses: d.Traffic * nanos / 1e9 / cacheLine,
		sensor.FPScalar: d.FP * instructions * d.Scalar, sensor.FP256: vectors,
	} {
		c.exact[i] += v
	}
}

// counters reads what the processors of a node count for planned jobs.
type counters struct{ n *Node }

// Counters is the counters of the processors; nil where no planned job says how it uses them.
func (n *Node) Counters() sensor.CounterSource {
	for i := range n.site.Plan {
		if n.site.Plan[i].Does.IPC > 0 {
			return counters{n}
		}
	}
	return nil
}

func (c counters) Name() string { return "counters" }

func (c counters) Close() error { return nil }

// ReadCounters implements [sensor.CounterSource].
func (c counters) ReadCounters(p *sensor.CounterPass) error {
	p.Line = cacheLine
	for _, i := range []sensor.Counter{sensor.Cycles, sensor.Instructions, sensor.CacheMisses, sensor.FPScalar, sensor.FP256} {
		p.Have |= 1 << i
	}
	for _, g := range c.n.groups {
		k := &g.counted
		if k.PID == 0 || k.exact == k.taken {
			continue
		}
		read := k.Counted
		for i := range k.exact {
			whole := uint64(k.exact[i]) - uint64(k.taken[i])
			read.Use[i] = sensor.Count{Whole: whole}
			k.taken[i] = k.exact[i]
		}
		p.Counted = append(p.Counted, read)
	}
	return nil
}
