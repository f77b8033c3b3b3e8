package simulate

import "reckon/sensor"

// callBytes is the payload of a call that sends or receives.
const callBytes = 64 << 10

// traffic is what the process of a group that works sent and received.
type traffic struct {
	pid          int32
	start        uint64
	exact, taken [3]float64 // bytes received and sent, segments sent again: since it began, and what was read of it
}

// transfer adds the traffic of a planned job in some seconds.
func (g *group) transfer(d *Does, seconds float64) {
	if d == nil || d.Receives+d.Sends+d.Resends == 0 || len(g.procs) == 0 {
		return
	}
	p, t := g.procs[len(g.procs)-1], &g.traffic
	t.pid, t.start = p.PID, p.Start
	for i, rate := range [3]float64{d.Receives, d.Sends, d.Resends} {
		t.exact[i] += rate * seconds
	}
}

// sockets reads what planned jobs of a node sent and received.
type sockets struct{ n *Node }

// Traffic is what passes the sockets of the machine; nil where no planned job sends or receives.
func (n *Node) Traffic() sensor.TrafficSource {
	for i := range n.site.Plan {
		if d := &n.site.Plan[i].Does; d.Receives+d.Sends > 0 {
			return sockets{n}
		}
	}
	return nil
}

func (s sockets) Name() string { return "traffic" }

func (s sockets) Close() error { return nil }

// ReadTraffic implements [sensor.TrafficSource].
func (s sockets) ReadTraffic(p *sensor.TrafficPass) error {
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
		sent := sensor.Sent{PID: t.pid, Start: t.start}
		for i, d := range []sensor.Direction{sensor.Receive, sensor.Transmit} {
			sent.Use.Moved[sensor.TCP][sensor.ScopeElsewhere][d] = sensor.Moved{Bytes: delta[i], Messages: (delta[i] + callBytes - 1) / callBytes}
		}
		sent.Use.Retransmits = delta[2]
		p.Sent = append(p.Sent, sent)
	}
	return nil
}
