package sensor

import "reckon/metric"

// MemoryTraffic is the series of bytes between caches and memory by counting method.
var MemoryTraffic = &metric.Desc{
	Name: "reckon_workload_memory_traffic_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
	Help: "Bytes that the workload moved between caches and memory, by method. Method \"resctrl\" counts both directions in a " +
		"monitoring group of the kernel. Method \"misses\" is estimated from cache misses and lacks write-backs. They cover different " +
		"times, so their sum is the total.",
	Labels: Charged("method"),
}

// Monitored is the content and the count of one monitoring group of the kernel (resctrl).
type Monitored struct {
	// Tasks are the ids of the threads in the group; those of leaders are process ids. A thread outside our pid namespace has id 0.
	Tasks []int32
	// Bytes moved between the last-level caches and memory since the previous reading, if Counted is true.
	Bytes   uint64
	Counted bool
	Fresh   bool // it was made since the reading before, and counts from zero
	Gap     bool // its counter fell: something was not counted
	// Cache is the number of bytes of the last-level caches that it occupies now, if Occupies is true.
	Cache    uint64
	Occupies bool
}

// MonitorPass is one reading of a [MonitorSource]. Its memory is reused.
type MonitorPass struct{ Groups []Monitored }

// MonitorSource reads the monitoring groups of the kernel. It is used from one goroutine.
type MonitorSource interface {
	ReadMonitors(p *MonitorPass) error
}
