package catalogue

import "reckon/internal/series"

// slot is what a series adds to in the row of its workload.
type slot uint8

const (
	cpuUser slot = iota
	cpuSystem
	cpuOther // a mode that is neither, as where the source can not split
	cpuWait
	memoryNow
	memoryPeak
	memorySeconds
	ioRead
	ioWrite
	network
	gpuSeconds
	gpuMemory
	energyUsed
	started
	threads
	cores
	requestCores
	requestMemory
	requestGPUs
	requestSeconds
	requestNodes
	oomKills
	throttled
	majorFaults
	swap
	exitCode
	stateInfo
	submitTime
	nodeList
	startTime
	endTime
	info
	ignored
)

const (
	startMetric = "reckon_workload_start_time_seconds"
	endMetric   = "reckon_workload_end_time_seconds"

	submitMetric = "reckon_workload_submit_time_seconds"
)

// simple are the metrics whose slot follows from the name alone.
var simple = map[string]slot{
	"reckon_workload_cpu_wait_seconds_total":      cpuWait,
	"reckon_workload_memory_bytes":                memoryNow,
	"reckon_workload_memory_peak_bytes":           memoryPeak,
	"reckon_workload_memory_byte_seconds_total":   memorySeconds,
	"reckon_workload_network_bytes_total":         network,
	"reckon_workload_gpu_seconds_total":           gpuSeconds,
	"reckon_workload_gpu_memory_bytes":            gpuMemory,
	"reckon_workload_gpu_memory_peak_bytes":       gpuMemory,
	"reckon_workload_processes_started_total":     started,
	"reckon_workload_threads":                     threads,
	"reckon_workload_cores":                       cores,
	"reckon_workload_request_cores":               requestCores,
	"reckon_workload_request_memory_bytes":        requestMemory,
	"reckon_workload_request_gpus":                requestGPUs,
	"reckon_workload_request_seconds":             requestSeconds,
	"reckon_workload_request_nodes":               requestNodes,
	"reckon_workload_oom_kills_total":             oomKills,
	"reckon_workload_cpu_throttled_seconds_total": throttled,
	"reckon_workload_major_faults_total":          majorFaults,
	"reckon_workload_swap_bytes":                  swap,
	"reckon_workload_submit_time_seconds":         submitTime,
	"reckon_workload_state":                       stateInfo,
	"reckon_workload_nodes_info":                  nodeList,
	"reckon_workload_exit_code":                   exitCode,
	"reckon_workload_info":                        info,
	startMetric:                                   startTime,
	endMetric:                                     endTime,
}

const (
	cpuMetric    = "reckon_workload_cpu_seconds_total"
	ioMetric     = "reckon_workload_io_bytes_total"
	energyMetric = "reckon_workload_energy_joules_total"
)

// rowMetrics are the metrics that make a row of the catalogue.
var rowMetrics = func() []string {
	out := []string{cpuMetric, ioMetric, energyMetric}
	for name := range simple {
		out = append(out, name)
	}
	return out
}()

// rowLabels are the labels that slots and facts need besides those in names.
var rowLabels = []string{"mode", "direction", "domain", "share", "name", "account", "partition", "command", "state", "reason", "nodes"}

// slotOf says what a series of the given names adds to.
func slotOf(n *series.Labels) slot {
	switch n.Metric {
	case cpuMetric:
		switch n.Rest["mode"] {
		case "user":
			return cpuUser
		case "system":
			return cpuSystem
		}
		return cpuOther
	case ioMetric:
		switch n.Rest["direction"] {
		case "read":
			return ioRead
		case "write":
			return ioWrite
		}
		return ignored
	case energyMetric:
		// Each joule is in one domain. Idle energy has series of workloads only where the
		// site shares it out, and then it is theirs.
		return energyUsed
	}
	if s, ok := simple[n.Metric]; ok {
		return s
	}
	return ignored
}

// fact reports whether a slot is a fact about a workload and not a figure of what it used.
func (s slot) fact() bool {
	switch s {
	case requestCores, requestMemory, requestGPUs, requestSeconds, requestNodes, exitCode, stateInfo, submitTime, startTime, endTime, info:
		return true
	}
	return false
}

// counter reports whether the series of a slot only grow.
func (s slot) counter() bool {
	switch s {
	case cpuUser, cpuSystem, cpuOther, cpuWait, memorySeconds, ioRead, ioWrite, network, gpuSeconds,
		energyUsed, started,
		oomKills, throttled, majorFaults:
		return true
	}
	return false
}

// slotNames are the names of slots in a saved state, by number.
func slotNames() []string { return slotsV4() }
