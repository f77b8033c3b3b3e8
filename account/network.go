package account

import (
	"reckon/metric"
	"reckon/sensor"
)

// Series of socket traffic.
var (
	networkBytes = &metric.Desc{
		Name: "reckon_workload_network_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help:   "Payload that the workload sent and received at sockets of IPv4 and IPv6, by direction (receive, transmit), protocol (tcp, udp, other) and scope: host (another address of the machine), elsewhere, or unknown (datagrams of sockets without a peer). Headers and retransmissions are not included, nor is the loopback network.",
		Labels: with("direction", "protocol", "scope"),
	}
	loopbackBytes = &metric.Desc{
		Name: "reckon_workload_loopback_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help:   "Payload that the workload sent to and received from addresses of the loopback network (127.0.0.0/8, ::1), by direction and protocol.",
		Labels: with("direction", "protocol"),
	}
	networkMessages = &metric.Desc{
		Name: "reckon_workload_network_messages_total", Kind: metric.Counter,
		Help:   "Calls that moved payload at sockets, by direction and protocol; of UDP they are datagrams.",
		Labels: with("direction", "protocol"),
	}
	networkConnections = &metric.Desc{
		Name: "reckon_workload_network_connections_total", Kind: metric.Counter,
		Help:   "TCP connections that the workload tried to open (role client) or took (server, counted when they first carry payload).",
		Labels: with("role"),
	}
	networkRetransmits = &metric.Desc{
		Name: "reckon_workload_network_retransmits_total", Kind: metric.Counter,
		Help:   "TCP segments of the workload's connections that were sent again.",
		Labels: with(),
	}
	nodeNetworkBytes = &metric.Desc{
		Name: "reckon_node_network_payload_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help:   "Payload at all sockets of the node since the agent began, by direction, protocol and scope: what workloads and other were charged.",
		Labels: []string{"direction", "protocol", "scope"},
	}
)

// patience is the number of ticks for which traffic waits for its process to be identified:
// the process may have started after the table was read, and its exit record may come late.
const patience = 15

// network is the ledger's state of traffic.
type network struct {
	counting
	waiting []awaited[sensor.Traffic]
	total   sensor.Traffic
	rows    [sensor.TrafficCounters]*metric.Series
}

// sockets is the traffic of a part.
type sockets struct {
	use      sensor.Traffic
	now      sensor.Traffic // since the reading before
	tick     uint64         // tick of now
	rows     [sensor.TrafficCounters]*metric.Series
	messages [sensor.Protocols][sensor.Directions]*metric.Series
}

// Traffic takes in the traffic of processes up to the tick that the ledger took last. Traffic
// of processes that remain unidentified goes to other, so that
//
//	Σ workloads + other = what all sockets moved
func (l *Ledger) Traffic(pass *sensor.TrafficPass) {
	if l.other == nil {
		return // no tick yet
	}
	n := &l.network
	n.begin(l)
	for i := range pass.Sent {
		p := &pass.Sent[i]
		n.waiting = append(n.waiting, awaited[sensor.Traffic]{p.PID, p.Start, l.tick + patience, p.Use})
	}
	settle(l, &n.waiting, func(p *Part, use *sensor.Traffic) {
		n.total.Add(use)
		p.carry(use, l.tick)
	})
	if pass.Unowned != (sensor.Traffic{}) {
		n.full = true
		n.total.Add(&pass.Unowned)
		l.other.carry(&pass.Unowned, l.tick)
	}
}

// chargeable returns the part to charge with activity of a process: other if the process is unknown for
// good, and nil while it may still be identified, which ends with the tick until.
//
// A living process that only one pass has seen is not charged yet: the pass may have fallen between its fork and its
// setsid(2), setuid(2) or the move to its control group, and all that it did since would be its parent's.
func (l *Ledger) chargeable(pid int32, start, until uint64) *Part {
	e := l.table[pid]
	late := pid == 0 || l.tick >= until
	if pid != 0 && e != nil && sensor.SameStart(e.start, start) && e.part != nil {
		switch young := e.start > l.before && !e.gone; {
		case young && !late:
			return nil
		case !e.part.closed():
			return e.part
		case e.part.absorbed:
			return l.part(Identified{Identity: l.foldsInto(e.part)}, e.part.start)
		}
	}
	if late {
		return l.other
	}
	return nil
}

// carry adds traffic.
func (p *Part) carry(use *sensor.Traffic, tick uint64) {
	if p.sockets == nil {
		p.sockets = new(sockets)
	}
	s := p.sockets
	if s.tick != tick {
		s.now, s.tick = sensor.Traffic{}, tick
	}
	s.now.Add(use)
	s.use.Add(use)
}

// absorbTraffic takes over the traffic of a folded part.
func (p *Part) absorbTraffic(o *Part) {
	if o.sockets == nil {
		return
	}
	if p.sockets == nil {
		p.sockets = new(sockets)
	}
	p.sockets.use.Add(&o.sockets.use)
}

// traffic returns the payload bytes so far, both directions, loopback included.
func (p *Part) traffic() (bytes uint64) {
	if p.sockets == nil {
		return 0
	}
	for d := range sensor.Direction(sensor.Directions) {
		bytes += p.sockets.use.Bytes(d, false) + p.sockets.use.Bytes(d, true)
	}
	return bytes
}

// exportTraffic appends the traffic of a part: two series of 0 if there was none at all, and
// otherwise only series that are not 0.
func (l *Ledger) exportTraffic(p *Part, b *metric.Batch) {
	if l.network.since == 0 && p.sockets == nil {
		return
	}
	if p.sockets == nil {
		p.sockets = new(sockets)
	}
	s := p.sockets
	eachCell(&s.use, func(i int, m *sensor.Moved, proto sensor.Protocol, scope sensor.Scope, d sensor.Direction) {
		switch {
		case scope == sensor.ScopeLoopback && m.Bytes > 0:
			b.Add(l.trafficRow(p, &s.rows[i], loopbackBytes, d.String(), proto.String()), float64(m.Bytes))
		case scope != sensor.ScopeLoopback && m.Bytes > 0, proto == sensor.TCP && scope == sensor.ScopeElsewhere:
			b.Add(l.trafficRow(p, &s.rows[i], networkBytes, d.String(), proto.String(), scope.String()), float64(m.Bytes))
		}
	})
	for proto := range sensor.Protocol(sensor.Protocols) {
		for d := range sensor.Direction(sensor.Directions) {
			var sum uint64
			for scope := range s.use.Moved[proto] {
				sum += s.use.Moved[proto][scope][d].Messages
			}
			if sum > 0 {
				b.Add(l.trafficRow(p, &s.messages[proto][d], networkMessages, d.String(), proto.String()), float64(sum))
			}
		}
	}
	const rest = sensor.TrafficCounters - 3
	if s.use.Opened > 0 {
		b.Add(l.trafficRow(p, &s.rows[rest], networkConnections, "client"), float64(s.use.Opened))
	}
	if s.use.Accepted > 0 {
		b.Add(l.trafficRow(p, &s.rows[rest+1], networkConnections, "server"), float64(s.use.Accepted))
	}
	if s.use.Retransmits > 0 {
		b.Add(l.trafficRow(p, &s.rows[rest+2], networkRetransmits), float64(s.use.Retransmits))
	}
}

// trafficRow creates a series when it has a value for the first time. For a part that is
// older than the ledger it counts from the time when traffic accounting began.
func (l *Ledger) trafficRow(p *Part, row **metric.Series, d *metric.Desc, values ...string) *metric.Series {
	if *row == nil {
		*row = p.series(d, values...)
		if (*row).Created == 0 {
			(*row).Created = l.network.began
		}
	}
	return *row
}

// export appends the traffic of all sockets of the node.
func (n *network) export(b *metric.Batch) {
	n.exported()
	if n.since == 0 {
		return
	}
	eachCell(&n.total, func(i int, m *sensor.Moved, proto sensor.Protocol, scope sensor.Scope, d sensor.Direction) {
		if m.Bytes == 0 && (proto != sensor.TCP || scope != sensor.ScopeElsewhere) {
			return
		}
		if n.rows[i] == nil {
			n.rows[i] = metric.NewSeries(nodeNetworkBytes, d.String(), proto.String(), scope.String())
			n.rows[i].Created = n.began
		}
		b.Add(n.rows[i], float64(m.Bytes))
	})
}

// eachCell calls f for the traffic of each protocol, scope and direction.
func eachCell(t *sensor.Traffic, f func(i int, m *sensor.Moved, proto sensor.Protocol, scope sensor.Scope, d sensor.Direction)) {
	i := 0
	for proto := range sensor.Protocol(sensor.Protocols) {
		for scope := range sensor.Scope(sensor.Scopes) {
			for d := range sensor.Direction(sensor.Directions) {
				f(i, &t.Moved[proto][scope][d], proto, scope, d)
				i++
			}
		}
	}
}

// trafficState is the serialized traffic of a node.
type trafficState struct {
	Began int64    `json:"began"`
	Total []uint64 `json:"total"`
}

func (n *network) state() *trafficState {
	if n.began == 0 {
		return nil
	}
	return &trafficState{n.began, counters(&n.total)}
}

func (n *network) restore(s *trafficState) {
	if s != nil && s.Began > 0 && take(&n.total, s.Total) {
		n.began = s.Began
	}
}

// trafficState returns the counters, nil where there was no traffic.
func (p *Part) trafficState() []uint64 {
	if p.sockets == nil || p.sockets.use == (sensor.Traffic{}) {
		return nil
	}
	return counters(&p.sockets.use)
}

// restoreTraffic restores saved counters; if their number differs from ours, they begin anew.
func (p *Part) restoreTraffic(saved []uint64) {
	var use sensor.Traffic
	if take(&use, saved) {
		p.sockets = &sockets{use: use}
	}
}

func counters(t *sensor.Traffic) []uint64 {
	out := make([]uint64, 0, sensor.TrafficCounters)
	for _, c := range t.Counters() {
		out = append(out, *c)
	}
	return out
}

// take sets the counters of t if their number matches.
func take(t *sensor.Traffic, saved []uint64) bool {
	if len(saved) != sensor.TrafficCounters {
		return false
	}
	for i, c := range t.Counters() {
		*c = saved[i]
	}
	return true
}
