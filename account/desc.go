package account

import (
	"reckon/account/energy"
	"reckon/metric"
	"reckon/sensor"
)

// Series of a workload. All of them carry the workload, its kind, its part on this node, and its owner.
var (
	cpuSeconds = metric.NewDesc("reckon_workload_cpu_seconds_total", metric.Counter, metric.Seconds, chargedLabels("mode"),
		"CPU time used since the workload started, by mode. Short processes are included.")
	waitSeconds = metric.NewDesc("reckon_workload_cpu_wait_seconds_total", metric.Counter, metric.Seconds, chargedLabels(),
		"Time in which threads of the workload were ready to run and waited for a processor.")
	throttledSeconds = metric.NewDesc("reckon_workload_cpu_throttled_seconds_total", metric.Counter, metric.Seconds, chargedLabels(),
		"Time in which the CPU limit of its control group throttled the workload.")
	coresHistogram = metric.NewDesc("reckon_workload_cores", metric.NativeHistogram, metric.Cores, chargedLabels(),
		"Cores in use by the whole workload on the node, one observation for each internal tick.")
	coresWanted = metric.NewDesc("reckon_workload_cores_wanted", metric.NativeHistogram, metric.Cores, chargedLabels(),
		"Cores that the whole workload on the node used or its threads waited for, one observation for each internal tick; "+
			"absent while it has not waited.")
	memoryBytes = metric.NewDesc("reckon_workload_memory_bytes", metric.Gauge, metric.Bytes, chargedLabels("type"),
		"Resident memory by type: anon (explicit huge pages included), file (page cache of a control group included) and shmem.")
	memoryPeak = metric.NewDesc("reckon_workload_memory_peak_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"Highest memory since the workload started: the kernel's own maximum where there is a control group, else the maximum over "+
			"internal ticks and over single processes.")
	memoryNeeded = metric.NewDesc("reckon_workload_memory_needed_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"Memory that the kernel cannot reclaim: anonymous, shared and, with a control group, unreclaimable kernel memory. Control "+
			"groups of version 1 count all kernel memory, so it is an upper bound there. The rest is page cache.")
	memoryNeededPeak = metric.NewDesc("reckon_workload_memory_needed_peak_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"Highest reckon_workload_memory_needed_bytes over internal ticks since the workload started. Between two ticks the "+
			"high-water marks of single processes count.")
	memoryNeededMost = metric.NewDesc("reckon_workload_memory_needed_most_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"Upper bound of the highest needed memory since the workload started, where it has a control group. It adds what was filled "+
			"between two readings, up to the high-water marks of the processes and the peak of the group.")
	memoryRefaults = metric.NewDesc("reckon_workload_memory_refault_bytes_total", metric.Counter, metric.Bytes, chargedLabels("type"),
		"Memory of the control group that was reclaimed and soon read again, by type: anon (from swap) and file (from storage). It "+
			"grows steadily where memory is too small.")
	pageFaults = metric.NewDesc("reckon_workload_page_faults_total", metric.Counter, metric.None, chargedLabels("type"),
		"Page faults of the control group by type: major (waited for storage) and minor (all others: memory touched for the first time, "+
			"shared or copied).")
	hugeBytes = metric.NewDesc("reckon_workload_memory_huge_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"Memory of the control group in transparent huge pages; version 1 counts anonymous memory only.")
	nodeBytes = metric.NewDesc("reckon_workload_memory_numa_bytes", metric.Gauge, metric.Bytes, chargedLabels("numa_node"),
		"Anonymous and file memory of the control group by NUMA node. Present on machines with several NUMA nodes.")
	memoryEvents = metric.NewDesc("reckon_workload_memory_events_total", metric.Counter, metric.None, chargedLabels("event"),
		"How often the control group reached its memory limit and reclaimed memory (max), and how often reclaim failed (oom). "+
			"Version 2 only.")
	memoryByteSeconds = metric.NewDesc("reckon_workload_memory_byte_seconds_total", metric.Counter, metric.ByteSeconds, chargedLabels(),
		"Resident memory, integrated over time. The increase divided by the time is the mean.")
	swapBytes = metric.NewDesc("reckon_workload_swap_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"Memory of the workload that is swapped out.")
	ioBytes = metric.NewDesc("reckon_workload_io_bytes_total", metric.Counter, metric.Bytes, chargedLabels("direction"),
		"Bytes read from and written to storage, by direction. Reads from the page cache are not included.")
	majorFaults = metric.NewDesc("reckon_workload_major_faults_total", metric.Counter, metric.None, chargedLabels(),
		"Page faults that had to read from storage.")
	contextSwitches = metric.NewDesc("reckon_workload_context_switches_total", metric.Counter, metric.None, chargedLabels("type"),
		"Context switches by type: voluntary (the thread waited for something) or involuntary (it was preempted).")
	oomKills = metric.NewDesc("reckon_workload_oom_kills_total", metric.Counter, metric.None, chargedLabels(),
		"Processes of the control group that the kernel killed for lack of memory.")
	pressureSeconds = metric.NewDesc("reckon_workload_pressure_seconds_total", metric.Counter, metric.Seconds, chargedLabels("resource"),
		"Time in which some task of the control group was stalled on the resource (PSI some).")
	processes = metric.NewDesc("reckon_workload_processes", metric.Gauge, metric.None, chargedLabels(),
		"Processes alive, zombies not included.")
	threads          = metric.NewDesc("reckon_workload_threads", metric.Gauge, metric.None, chargedLabels(), "Threads alive.")
	processesStarted = metric.NewDesc("reckon_workload_processes_started_total", metric.Counter, metric.None, chargedLabels(),
		"Processes of the workload since it started. With exit records even the shortest count; without them it is a lower bound.")
	info = metric.NewDesc("reckon_workload_info", metric.Gauge, metric.None, chargedLabels("name", "account", "partition", "command"),
		"Facts about the workload; the value is always 1.")
	startTime = metric.NewDesc("reckon_workload_start_time_seconds", metric.Gauge, metric.Seconds, chargedLabels(),
		"When the part began, seconds since the Unix epoch. Parts of Jobs and of pods that belong to nothing have the label run: the "+
			"UID that distinguishes the runs of the workload.")
	// startTimeOfRun is startTime for parts with an identified run of the workload.
	startTimeOfRun = metric.NewDesc(startTime.Name, startTime.Kind, startTime.Unit, chargedLabels("run"), startTime.Help)
	endTime        = metric.NewDesc("reckon_workload_end_time_seconds", metric.Gauge, metric.Seconds, chargedLabels(),
		"When the part ended, seconds since the Unix epoch; absent while it runs.")
	requestCores = metric.NewDesc("reckon_workload_request_cores", metric.Gauge, metric.Cores, chargedLabels(),
		"Cores requested by the workload on this node.")
	requestMemory = metric.NewDesc("reckon_workload_request_memory_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"Memory requested by the workload on this node.")
	limitCores = metric.NewDesc("reckon_workload_limit_cores", metric.Gauge, metric.Cores, chargedLabels(),
		"Cores that a hard limit allows the workload on this node: the quota of its control group, or the highest sum of the limits "+
			"of its pods. Absent where there is no limit.")
	limitMemory = metric.NewDesc("reckon_workload_limit_memory_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"Memory that a hard limit allows the workload on this node: the limit of its control group, or the highest sum of the limits "+
			"of its pods. Absent where there is no limit.")
	requestGPUs = metric.NewDesc("reckon_workload_request_gpus", metric.Gauge, metric.None, chargedLabels(),
		"GPUs requested by the workload on this node.")
	requestSeconds = metric.NewDesc("reckon_workload_request_seconds", metric.Gauge, metric.Seconds, chargedLabels(),
		"Wall time requested by the workload.")
	commandSeconds = metric.NewDesc("reckon_command_cpu_seconds_total", metric.Counter, metric.Seconds, chargedLabels("command"),
		"CPU time of the largest few programs of the workload; the rest is command \"other\".")
	shortWorkloads = metric.NewDesc("reckon_short_workloads_total", metric.Counter, metric.None, []string{"owner"},
		"Process groups that were short work. They ended within one export interval with less than one CPU second, or within a "+
			"minute with hardly any use. short/OWNER/NODE has their usage.")
	shortLive = metric.NewDesc("reckon_short_live_groups", metric.Gauge, metric.None, []string{"owner"},
		"Running process groups, scopes and containers without series of their own. Their login has 200 others, and they used less "+
			"than one CPU second, 16 MiB of I/O or traffic, and 64 MiB of memory. short/OWNER/NODE has their usage.")
)

func chargedLabels(labels ...string) []string { return sensor.Charged(labels...) }

// Descs returns every series that a ledger may export, except the series of its tallies, for the metric reference.
func Descs() []*metric.Desc {
	return append(energy.Descs(), cpuSeconds, waitSeconds, throttledSeconds, coresHistogram, coresWanted,
		memoryBytes, memoryPeak, memoryNeeded, memoryNeededPeak, memoryNeededMost, memoryByteSeconds, swapBytes,
		ioBytes, cancelledBytes, majorFaults, contextSwitches, oomKills, memoryRefaults, memoryEvents, pageFaults, hugeBytes, nodeBytes,
		cacheBytes,
		pressureSeconds,
		processes, threads, processesStarted, processesLeft, info, startTime, endTime,
		requestCores, requestMemory, requestGPUs, requestSeconds, limitCores, limitMemory,
		podUnscheduled, containerInfo, containerRestarts, containerWaiting, containerExit, containerExitBefore, containerRunning,
		containerReady,
		containerDevice, containerUsage, containerWorking, containerPeriods, containerThrottled, podInfo, podPhase, podReady, podCreated,
		containerRequestCores, containerRequestMemory, containerLimitCores, containerLimitMemory,
		commandSeconds, shortWorkloads, shortLive, nodeIO, nodeWait, zombies, figureExactness,
		diskLimitBytes, diskLimitOperations, interconnectBytes, taskCount, busiestTask, sensor.MemoryTraffic,
	)
}
