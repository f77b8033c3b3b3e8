package sensor

// Protocol is the transport protocol of a socket.
type Protocol uint8

// The distinguished protocols. MPTCP counts as TCP; all that is neither TCP nor UDP (SCTP,
// ICMP, raw sockets) is OtherProtocol.
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

// The scopes. ScopeUnknown is that of messages of unconnected sockets where the address of the
// single message cannot be read.
const (
	ScopeLoopback  Scope = iota // an address of the loopback network
	ScopeHost                   // an address of this machine, in any known network namespace
	ScopeElsewhere              // leaves the machine
	ScopeUnknown
	Scopes int = iota
)

// String returns the value of the label scope.
func (s Scope) String() string { return [...]string{"loopback", "host", "elsewhere", "unknown"}[s] }

// Direction of payload, as the process sees it.
type Direction uint8

// The directions.
const (
	Receive Direction = iota
	Transmit
	Directions int = iota
)

// String returns the value of the label direction.
func (d Direction) String() string { return [...]string{"receive", "transmit"}[d] }

// Moved is payload in one direction.
type Moved struct {
	// Bytes are the bytes passed by calls on sockets, without any header.
	Bytes uint64
	// Messages are calls that moved payload; for UDP they are datagrams, or segments
	// passed together.
	Messages uint64
}

// Traffic is the traffic through IPv4 and IPv6 sockets.
type Traffic struct {
	Moved [Protocols][Scopes][Directions]Moved
	// Opened are TCP connections initiated; Accepted those accepted, counted when they first carry payload.
	Opened, Accepted uint64
	Retransmits      uint64 // TCP segments retransmitted
}

// TrafficCounters is the number of counters in a [Traffic].
const TrafficCounters = Protocols*Scopes*Directions*2 + 3

// Counters returns all counters of t, always in the same order.
func (t *Traffic) Counters() (all [TrafficCounters]*uint64) {
	n := 0
	for p := range t.Moved {
		for s := range t.Moved[p] {
			for d := range t.Moved[p][s] {
				all[n], all[n+1] = &t.Moved[p][s][d].Bytes, &t.Moved[p][s][d].Messages
				n += 2
			}
		}
	}
	all[n], all[n+1], all[n+2] = &t.Opened, &t.Accepted, &t.Retransmits
	return all
}

// Add adds the counts of v.
func (t *Traffic) Add(v *Traffic) {
	more := v.Counters()
	for i, c := range t.Counters() {
		*c += *more[i]
	}
}

// Bytes returns the payload in one direction: over loopback only, or everything else.
func (t *Traffic) Bytes(d Direction, loopback bool) (sum uint64) {
	for p := range t.Moved {
		for s := range t.Moved[p] {
			if (Scope(s) == ScopeLoopback) == loopback {
				sum += t.Moved[p][s][d].Bytes
			}
		}
	}
	return sum
}

// Sent is the traffic of one process since the previous reading.
type Sent struct {
	// PID is the process, 0 if it is unknown or not in our pid namespace.
	PID   int32
	Start uint64 // of the process, nanoseconds since boot
	Use   Traffic
}

// TrafficPass is one reading of a [TrafficSource]. Its memory is reused.
type TrafficPass struct {
	Sent []Sent
	// Unowned is the traffic that the source counted but had no room to charge to a process.
	Unowned Traffic
}

// Reset empties p and keeps its memory.
func (p *TrafficPass) Reset() { p.Sent, p.Unowned = emptied(p.Sent), Traffic{} }

// TrafficSource counts the traffic of processes.
//
// ReadTraffic appends to p the counts since the previous call, for each process that moved
// something, including ended ones. A failed reading loses nothing: the next one includes it.
// It is called from one goroutine and does not allocate after warm-up.
type TrafficSource interface {
	Name() string
	ReadTraffic(p *TrafficPass) error
	Close() error
}
