package sensor

// Monitored is what one monitoring group of the kernel (resctrl) holds and counted.
type Monitored struct {
	Key string // of the [MonitorWish] that it was made for, empty for a group of others
	// Tasks are the ids of the threads in it, those of leaders are ids of processes; 0 is one that is not in our pid namespace.
	Tasks []int32
	// Bytes moved between the last-level caches and memory since the reading before, where Counted is true.
	Bytes   uint64
	Counted bool
	Fresh   bool // it was made since the reading before, and counts from zero
	Gap     bool // its counter fell: something was not counted
	// Cache is how many bytes of the last-level caches it occupies now, where Occupies is true.
	Cache    uint64
	Occupies bool
}

// MonitorPass is one reading of a [MonitorSource]. Its memory is reused.
type MonitorPass struct{ Groups []Monitored }

// MonitorWish is a workload that is to have a monitoring group.
type MonitorWish struct {
	Key  string
	PIDs []int32
	Size uint64 // the largest are served first
}

// MonitorSource reads the monitoring groups of the kernel. It is used from one goroutine.
type MonitorSource interface {
	ReadMonitors(p *MonitorPass) error
	// Follow makes groups for the largest of the workloads, as far as there is room, and removes those that it made for others. served
	// is how many have one. The error is [ErrUnavailable] where no groups can be made, or somebody else makes them.
	Follow(wishes []MonitorWish) (served int, err error)
}
