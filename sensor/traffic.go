package sensor

// Protocol of a socket: what the payload travels by.
type Protocol uint8

// The protocols that are distinguished. MPTCP counts as TCP; all that is neither TCP nor UDP
// (SCTP, ICMP, raw sockets) is OtherProtocol.
const (
	TCP Protocol = iota
	UDP
	OtherProtocol
	Protocols int = iota
)

// String returns the value of the label protocol.
func (p Protocol) String() string { return [...]string{"tcp", "udp", "other"}[p] }

// Scope says how far payload travels.
type Scope uint8

// The scopes. ScopeUnknown is that of messages of sockets that have no peer, where the address
// of the single message can not be read.
const (
	ScopeLoopback  Scope = iota // an address of the loopback network
	ScopeHost                   // an address of this machine, in any network namespace that is known
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

// Moved is payload that went one way.
type Moved struct {
	// Bytes are what calls on sockets handed over, without any header.
	Bytes uint64
	// Messages are calls that moved payload; of UDP they are datagrams, or segments handed
	// over together.
	Messages uint64
}

// Traffic is what went through sockets of IPv4 and IPv6.
type Traffic struct {
	Moved [Protocols][Scopes][Directions]Moved
	// Opened are TCP connections begun; Accepted those taken, counted when they first carry payload.
	Opened, Accepted uint64
	Retransmits      uint64 // TCP segments sent again
}

// TrafficCounters is how many counters a [Traffic] has.
const TrafficCounters = Protocols*Scopes*Directions*2 + 3

// Counters are all counters of t, always in the same order.
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

// Add adds what v counted.
func (t *Traffic) Add(v *Traffic) {
	more := v.Counters()
	for i, c := range t.Counters() {
		*c += *more[i]
	}
}

// Bytes adds up the payload that went one way; of loopback only, or of all but loopback.
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

// Sent is the traffic of one process since the reading before.
type Sent struct {
	// PID is the process, 0 where it is not known or not in our pid namespace.
	PID   int32
	Start uint64 // of the process, nanoseconds since boot
	Use   Traffic
}

// TrafficPass is one reading of a [TrafficSource]. Its memory is reused.
type TrafficPass struct {
	Sent []Sent
	// Unowned is what the source counted and had no room to charge to a process.
	Unowned Traffic
}

// Reset empties p and keeps its memory.
func (p *TrafficPass) Reset() { p.Sent, p.Unowned = p.Sent[:0], Traffic{} }

// TrafficSource counts what processes send and receive.
//
// ReadTraffic appends to p what was counted since the call before, of each process that moved
// something, those that ended included. A reading that fails loses nothing: the next one
// has it. It is called from one goroutine and does not allocate after warm-up.
type TrafficSource interface {
	Name() string
	ReadTraffic(p *TrafficPass) error
	Close() error
}
