package simulate

import (
	tally "reckon/sensor/task/traffic"

	"reckon/sensor"
)

// callBytes is the number of bytes that one send or receive call moves.
const callBytes = 64 << 10

// processTraffic is the traffic of the process of a group that works.
type processTraffic struct {
	pid          int32
	start        uint64
	exact, taken [3]float64 // bytes received, bytes sent, segments resent: since the start, and the part that was read
}

// addTraffic adds the traffic of a planned job in some seconds.
func (g *simGroup) addTraffic(d *Does, seconds float64) {
	if d == nil || d.Receives+d.Sends+d.Resends == 0 || len(g.procs) == 0 {
		return
	}
	p, t := g.procs[len(g.procs)-1], &g.traffic
	t.pid, t.start = p.PID, p.Start
	for i, rate := range [3]float64{d.Receives, d.Sends, d.Resends} {
		t.exact[i] += rate * seconds
	}
}

// Tallies returns the sources that count activity of planned jobs. Sources without any such activity are omitted.
func (n *Node) Tallies() (all []sensor.Tally) {
	var sends, computes bool
	for i := range n.site.Plan {
		d := &n.site.Plan[i].Does
		sends, computes = sends || d.Receives+d.Sends > 0, computes || d.IPC > 0
	}
	if sends {
		all = append(all, socketTally{n})
	}
	if computes {
		all = append(all, processorTally{n})
	}
	return all
}

// socketTally reads the traffic of a node's planned jobs.
type socketTally struct{ n *Node }

func (s socketTally) Spec() *sensor.TallySpec { return tally.Spec }

func (s socketTally) Close() error { return nil }

// Read implements [sensor.Tally].
func (s socketTally) Read(p *sensor.TallyPass) error {
	for _, g := range s.n.groups {
		t := &g.traffic
		if t.exact == t.taken {
			continue
		}
		var delta [3]uint64
		for i := range delta {
			delta[i] = uint64(t.exact[i]) - uint64(t.taken[i])
		}
		t.taken = t.exact
		for i, d := range []sensor.Direction{sensor.Receive, sensor.Transmit} {
			p.Add(t.pid, t.start, tally.Bytes(tally.TCP, tally.ScopeElsewhere, d), delta[i])
			p.Add(t.pid, t.start, tally.Messages(tally.TCP, d), (delta[i]+callBytes-1)/callBytes)
		}
		p.Add(t.pid, t.start, tally.Retransmit, delta[2])
	}
	return nil
}
