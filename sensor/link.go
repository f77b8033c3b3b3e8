package sensor

// Link is an RDMA adapter and the holders of queue pairs on it.
type Link struct {
	Device string    // as in /sys/class/infiniband
	Octets [2]uint64 // received, sent: the counters of all its ports
	// Users are the processes that hold queue pairs, in our pid namespace.
	Users []int32
	// Others reports other traffic on the port: by the kernel (IP over InfiniBand, storage) or by a
	// process that we cannot see.
	Others bool
}

// LinkPass is one reading of a [LinkSource]. Its memory is reused.
type LinkPass struct{ Links []Link }

// Reset empties p and keeps its memory.
func (p *LinkPass) Reset() { p.Links = p.Links[:0] }

// LinkSource reads RDMA adapters and the processes that use them. It searches for processes only every few seconds, so
// most readings are empty. The agent calls it like a [TrafficSource].
type LinkSource interface {
	Name() string
	ReadLinks(p *LinkPass) error
	Close() error
}
