package traffic

import (
	"reckon/metric"
	"reckon/sensor"
)

// Protocol is the transport protocol of a socket.
type Protocol uint8

// Protocols. MPTCP counts as TCP. OtherProtocol includes SCTP, ICMP and raw sockets.
const (
	TCP Protocol = iota
	UDP
	OtherProtocol
	Protocols int = iota
)

// String returns the value of the label protocol.
func (p Protocol) String() string { return [...]string{"tcp", "udp", "other"}[p] }

// Scope is the distance that payload travels.
type Scope uint8

// Scopes. ScopeUnknown applies to messages of unconnected sockets if the address of the message cannot be read.
const (
	ScopeLoopback  Scope = iota // an address of the loopback network
	ScopeHost                   // an address of this machine, in any known network namespace
	ScopeElsewhere              // leaves the machine
	ScopeUnknown
	Scopes int = iota
)

// String returns the value of the label scope.
func (s Scope) String() string { return [...]string{"loopback", "host", "elsewhere", "unknown"}[s] }

// Series of socket traffic.
var (
	networkBytes = &metric.Desc{
		Name: "reckon_workload_network_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help: "Payload that the workload sent and received at sockets of IPv4 and IPv6, by direction (receive, transmit), protocol " +
			"(tcp, udp, other) " +
			"and scope: host (another address of the machine), elsewhere, or unknown (datagrams of sockets without a peer). Headers and " +
			"retransmissions " +
			"are not included, nor is the loopback network.",
		Labels: sensor.Charged("direction", "protocol", "scope"),
	}
	loopbackBytes = metric.NewDesc("reckon_workload_loopback_bytes_total", metric.Counter, metric.Bytes,
		sensor.Charged("direction", "protocol"),
		"Payload that the workload sent to and received from addresses of the loopback network (127.0.0.0/8, ::1), by direction and "+
			"protocol.")
	networkMessages = metric.NewDesc("reckon_workload_network_messages_total", metric.Counter, metric.None,
		sensor.Charged("direction", "protocol"),
		"Calls that moved payload at sockets, by direction and protocol. For UDP these are datagrams.")
	networkConnections = metric.NewDesc("reckon_workload_network_connections_total", metric.Counter, metric.None, sensor.Charged("role"),
		"TCP connections that the workload tried to open (role client) or accepted (server).")
	networkRetransmits = metric.NewDesc("reckon_workload_network_retransmits_total", metric.Counter, metric.None, sensor.Charged(),
		"TCP segments of the workload's connections that were sent again.")
	nodeConnections = metric.NewDesc("reckon_node_network_connections_total", metric.Counter, metric.None, []string{"role"},
		"TCP connections that processes of the node tried to open (role client) or accepted (server) since the agent began: "+
			"workloads, short work and other together.")
	nodeNetworkBytes = metric.NewDesc("reckon_node_network_payload_bytes_total", metric.Counter, metric.Bytes,
		[]string{"direction", "protocol", "scope"},
		"Payload at all sockets of the node since the agent began, by direction, protocol and scope: workloads, short work and other "+
			"together.")
)

// Indices of series: bytes by protocol, scope and direction come first, then messages by protocol and direction.
const (
	firstMessageSeries = Protocols * Scopes * sensor.Directions
	firstRoleSeries    = firstMessageSeries + Protocols*sensor.Directions
	Opened             = firstRoleSeries     // TCP connections initiated
	Accepted           = firstRoleSeries + 1 // those accepted
	Retransmit         = firstRoleSeries + 2 // TCP segments sent again
)

// Bytes returns the index of the series of payload.
func Bytes(p Protocol, s Scope, d sensor.Direction) int {
	return (int(p)*Scopes+int(s))*sensor.Directions + int(d)
}

// Messages returns the index of the series of calls that moved payload; for UDP they are datagrams, or segments passed together.
func Messages(p Protocol, d sensor.Direction) int {
	return firstMessageSeries + int(p)*sensor.Directions + int(d)
}

// Spec describes the counts.
var Spec = buildSpec()

func buildSpec() *sensor.TallySpec {
	all := make([]sensor.TallySeries, Retransmit+1)
	network := &sensor.TallyFigure{Name: "network_bytes", Source: "sockets"}
	for p := range Protocol(Protocols) {
		for d := range sensor.Direction(sensor.Directions) {
			for s := range Scope(Scopes) {
				x := &all[Bytes(p, s, d)]
				*x = sensor.TallySeries{
					Desc: networkBytes, Values: []string{d.String(), p.String(), s.String()}, Always: p == TCP && s == ScopeElsewhere,
					Total: nodeNetworkBytes, Weight: sensor.WeightLong, Rate: sensor.RateReceive + sensor.TallyRate(d), Figure: network,
				}
				x.TotalValues = x.Values
				if s == ScopeLoopback {
					x.Desc, x.Values, x.Rate = loopbackBytes, x.Values[:2], sensor.RateNone
				}
			}
			all[Messages(p, d)] = sensor.TallySeries{Desc: networkMessages, Values: []string{d.String(), p.String()}}
		}
	}
	for i, role := range []string{"client", "server"} {
		all[Opened+i] = sensor.TallySeries{
			Desc: networkConnections, Values: []string{role}, Total: nodeConnections, TotalValues: []string{role},
			Weight: sensor.WeightAlways,
		}
	}
	all[Retransmit] = sensor.TallySeries{Desc: networkRetransmits}
	return &sensor.TallySpec{Name: "traffic", Sets: []sensor.TallySet{{Series: all}}}
}
