package account

import (
	"reckon/account/energy"
	"reckon/metric"
	"reckon/sensor"
)

// The series of a workload. Every one carries the identity: the workload, its
// kind, the part of it on this node, and its owner.
var (
	cpuSeconds = &metric.Desc{
		Name: "reckon_workload_cpu_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
		Help:   "CPU time used since the workload started, by mode; processes of any length of life are included.",
		Labels: with("mode"),
	}
	waitSeconds = &metric.Desc{
		Name: "reckon_workload_cpu_wait_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
		Help:   "Time threads of the workload were ready to run and waited for a processor.",
		Labels: with(),
	}
	throttledSeconds = &metric.Desc{
		Name: "reckon_workload_cpu_throttled_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
		Help:   "Time the workload was held back by the CPU limit of its control group.",
		Labels: with(),
	}
	coresHistogram = &metric.Desc{
		Name: "reckon_workload_cores", Kind: metric.NativeHistogram, Unit: metric.Cores,
		Help:   "Cores in use by the whole workload on the node, one observation for each internal tick.",
		Labels: with(),
	}
	memoryBytes = &metric.Desc{
		Name: "reckon_workload_memory_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Resident memory by type: anon, file (page cache of a control group included) and shmem.",
		Labels: with("type"),
	}
	memoryPeak = &metric.Desc{
		Name: "reckon_workload_memory_peak_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Highest memory since the workload started: the kernel's own maximum where there is a control group, else the maximum over internal ticks and over single processes.",
		Labels: with(),
	}
	memoryNeeded = &metric.Desc{
		Name: "reckon_workload_memory_needed_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Memory that cannot be given back without loss: anonymous, shared and, where there is a control group, unreclaimable kernel memory (control groups of version 1: all kernel memory, an upper bound). The rest is page cache.",
		Labels: with(),
	}
	memoryNeededPeak = &metric.Desc{
		Name: "reckon_workload_memory_needed_peak_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Highest reckon_workload_memory_needed_bytes over internal ticks since the workload started; single processes count by their high-water marks in between.",
		Labels: with(),
	}
	memoryRefaults = &metric.Desc{
		Name: "reckon_workload_memory_refault_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help:   "Memory of the control group that was reclaimed and soon needed again, by type: anon (read back from swap) and file (read again from storage). It grows steadily where memory is too small.",
		Labels: with("type"),
	}
	pageFaults = &metric.Desc{
		Name: "reckon_workload_page_faults_total", Kind: metric.Counter,
		Help:   "Page faults of the control group by type: major (waited for storage) and minor (all others: memory touched for the first time, shared or copied).",
		Labels: with("type"),
	}
	hugeBytes = &metric.Desc{
		Name: "reckon_workload_memory_huge_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Memory of the control group in transparent huge pages; version 1 counts anonymous memory only.",
		Labels: with(),
	}
	nodeBytes = &metric.Desc{
		Name: "reckon_workload_memory_numa_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Memory of the control group by NUMA node of the machine, anonymous and of files; on machines with several nodes.",
		Labels: with("numa_node"),
	}
	memoryEvents = &metric.Desc{
		Name: "reckon_workload_memory_events_total", Kind: metric.Counter,
		Help:   "How often the control group reached its memory limit and had to reclaim (max), and how often that was in vain (oom); version 2 only.",
		Labels: with("event"),
	}
	memoryByteSeconds = &metric.Desc{
		Name: "reckon_workload_memory_byte_seconds_total", Kind: metric.Counter, Unit: metric.ByteSeconds,
		Help:   "Resident memory integrated over time; divide an increase by the time for the mean.",
		Labels: with(),
	}
	swapBytes = &metric.Desc{
		Name: "reckon_workload_swap_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Memory of the workload that is swapped out.",
		Labels: with(),
	}
	ioBytes = &metric.Desc{
		Name: "reckon_workload_io_bytes_total", Kind: metric.Counter, Unit: metric.Bytes,
		Help:   "Bytes read from and written to storage, by direction; what the page cache served is not included.",
		Labels: with("direction"),
	}
	majorFaults = &metric.Desc{
		Name: "reckon_workload_major_faults_total", Kind: metric.Counter,
		Help:   "Page faults that had to read from storage.",
		Labels: with(),
	}
	contextSwitches = &metric.Desc{
		Name: "reckon_workload_context_switches_total", Kind: metric.Counter,
		Help:   "Context switches by type: voluntary (the thread waited for something) or involuntary (it was preempted).",
		Labels: with("type"),
	}
	oomKills = &metric.Desc{
		Name: "reckon_workload_oom_kills_total", Kind: metric.Counter,
		Help:   "Processes of the control group that the kernel killed for lack of memory.",
		Labels: with(),
	}
	pressureSeconds = &metric.Desc{
		Name: "reckon_workload_pressure_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
		Help:   "Time in which some task of the control group was stalled on the resource (PSI some).",
		Labels: with("resource"),
	}
	processes = &metric.Desc{
		Name: "reckon_workload_processes", Kind: metric.Gauge,
		Help:   "Processes alive, zombies not included.",
		Labels: with(),
	}
	threads = &metric.Desc{
		Name: "reckon_workload_threads", Kind: metric.Gauge,
		Help:   "Threads alive.",
		Labels: with(),
	}
	processesStarted = &metric.Desc{
		Name: "reckon_workload_processes_started_total", Kind: metric.Counter,
		Help:   "Processes that belonged to the workload since it started, those that lived for a millisecond included where exit records are available; without them it is a lower bound.",
		Labels: with(),
	}
	info = &metric.Desc{
		Name: "reckon_workload_info", Kind: metric.Gauge,
		Help:   "Facts about the workload; the value is always 1.",
		Labels: with("name", "account", "partition", "command"),
	}
	startTime = &metric.Desc{
		Name: "reckon_workload_start_time_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help:   "When the part began, seconds since the Unix epoch. Parts of Jobs and of pods that belong to nothing have the label run: the UID that distinguishes the runs of the workload.",
		Labels: with(),
	}
	// startTimeOfRun is startTime for parts with an identified run of the workload.
	startTimeOfRun = &metric.Desc{
		Name: startTime.Name, Kind: startTime.Kind, Unit: startTime.Unit, Help: startTime.Help, Labels: with("run"),
	}
	endTime = &metric.Desc{
		Name: "reckon_workload_end_time_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help:   "When the part ended, seconds since the Unix epoch; absent while it runs.",
		Labels: with(),
	}
	requestCores = &metric.Desc{
		Name: "reckon_workload_request_cores", Kind: metric.Gauge, Unit: metric.Cores,
		Help:   "Cores requested by the workload on this node.",
		Labels: with(),
	}
	requestMemory = &metric.Desc{
		Name: "reckon_workload_request_memory_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Memory requested by the workload on this node.",
		Labels: with(),
	}
	limitCores = &metric.Desc{
		Name: "reckon_workload_limit_cores", Kind: metric.Gauge, Unit: metric.Cores,
		Help:   "Cores that a hard limit allows the workload on this node: the quota of its control group, or the limits of its pods together at their most. Absent where there is no limit.",
		Labels: with(),
	}
	limitMemory = &metric.Desc{
		Name: "reckon_workload_limit_memory_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Memory that a hard limit allows the workload on this node: that of its control group, or the limits of its pods together at their most. Absent where there is no limit.",
		Labels: with(),
	}
	requestGPUs = &metric.Desc{
		Name: "reckon_workload_request_gpus", Kind: metric.Gauge,
		Help:   "GPUs requested by the workload on this node.",
		Labels: with(),
	}
	requestSeconds = &metric.Desc{
		Name: "reckon_workload_request_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help:   "Wall time requested by the workload.",
		Labels: with(),
	}
	commandSeconds = &metric.Desc{
		Name: "reckon_command_cpu_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
		Help:   "CPU time of the largest few programs of the workload; the rest is command \"other\".",
		Labels: with("command"),
	}
	shortWorkloads = &metric.Desc{
		Name: "reckon_short_workloads_total", Kind: metric.Counter,
		Help:   "Process groups that were short work: they ended within one export interval with less than one CPU second, or within a minute after having done next to nothing. Their usage is in short/OWNER/NODE.",
		Labels: []string{"owner"},
	}
)

func with(labels ...string) []string { return sensor.Charged(labels...) }

// Descs returns every series that a ledger may export, besides those of its tallies, for the metric reference.
func Descs() []*metric.Desc {
	return append(energy.Descs(),
		cpuSeconds, waitSeconds, throttledSeconds, coresHistogram,
		memoryBytes, memoryPeak, memoryNeeded, memoryNeededPeak, memoryByteSeconds, swapBytes,
		ioBytes, majorFaults, contextSwitches, oomKills, memoryRefaults, memoryEvents, pageFaults, hugeBytes, nodeBytes, cacheBytes, pressureSeconds,
		processes, threads, processesStarted,
		info, startTime, endTime,
		requestCores, requestMemory, requestGPUs, requestSeconds, limitCores, limitMemory,
		containerInfo, containerRestarts, containerWaiting, containerExit, containerExitBefore, containerRunning, containerDevice,
		containerUsage, containerWorking, containerPeriods, containerThrottled, podInfo, podPhase, podCreated,
		containerRequestCores, containerRequestMemory, containerLimitCores, containerLimitMemory,
		commandSeconds, shortWorkloads, zombies, figureExactness,
		diskLimitBytes, diskLimitOperations, interconnectBytes, taskCount, busiestTask, sensor.MemoryTraffic,
	)
}
