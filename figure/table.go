package figure

import "reckon/metric"

// How most figures are aggregated.
var (
	counted    = How{Value: Total}                                          // counters per part, device, mode
	highest    = How{Value: Highest}                                        // independent peaks of parts or devices
	current    = How{Value: Current}                                        // the amount that all parts hold now
	peak       = How{Value: Highest, Parts: Sequential}                     // true maximum on each node, summed over nodes
	spread     = How{Value: Quantile, Parts: Sequential}                    // quantile of a distribution
	mostly     = How{Value: Quantile, Parts: Sequential, Nodes: UpperBound} // upper quantile of a distribution
	perPart    = How{Value: Highest, Series: Max}                           // the peak of each part
	perNode    = How{Value: Newest, Series: Max, Parts: Max, Whole: true}
	largest    = How{Value: Highest, Series: Max, Parts: Max, Whole: true}
	ofTheWhole = How{Value: Newest, Series: Latest, Parts: Latest, Nodes: Latest}
)

// of selects all series of a metric.
func of(metric string) []Source { return []Source{{Metric: metric}} }

// where selects the series of a metric with one value of a label.
func where(metric, label, value string) []Source { return []Source{{metric, label, value}} }

// table is in display order.
var table = []Figure{
	{Key: "cpu_seconds", Unit: metric.Seconds, Heading: "CPU time", Help: "CPU time, user and system, seconds.",
		In: Run | Hour, Always: true, From: of(CPU), How: counted, AtMost: []Bound{withinWall, withinTime}},
	{Key: "cpu_user_seconds", Unit: metric.Seconds, Heading: "CPU, user", Help: "CPU time in user mode, seconds.",
		In: Run, From: where(CPU, "mode", "user"), How: counted, As: "cpu_seconds", AtMost: []Bound{withinCPU}},
	{Key: "cpu_system_seconds", Unit: metric.Seconds, Heading: "CPU, kernel", Help: "CPU time in the kernel, seconds.",
		In: Run, From: where(CPU, "mode", "system"), How: counted, As: "cpu_seconds", AtMost: []Bound{withinCPU}},
	{Key: "cpu_wait_seconds", Unit: metric.Seconds, Heading: "CPU wait", Help: "Time threads were ready to run and waited for a processor, seconds.",
		In: Run | Hour, From: of(CPUWait), How: counted},
	{Key: "cores_mean", Unit: metric.Cores, Heading: "Cores, mean", Help: "Cores in use on average: CPU time by the time it ran, which is its wall time less what it was suspended.",
		In: Run, Always: true, As: "cpu_seconds", AtMost: []Bound{withinCores, withinQuota}},
	{Key: "cores_p50", Unit: metric.Cores, Heading: "Cores, median", Help: "Cores in use, median over one-second ticks; of several nodes at a time estimated while it runs, and afterwards the joint median over steps of 15 seconds or more.",
		In: Run, Always: true, From: of(Cores), How: spread, Quantile: 0.5, As: "cpu_seconds", AtMost: []Bound{withinCores, withinQuota}},
	{Key: "cores_p95", Unit: metric.Cores, Heading: "Cores, p95", Help: "Cores in use, 95th percentile over one-second ticks; of several nodes at a time an upper bound while it runs, and afterwards the joint percentile over steps of 15 seconds or more (cores_p95_method).",
		In: Run, Always: true, From: of(Cores), How: mostly, Quantile: 0.95, As: "cpu_seconds", AtMost: []Bound{withinCores, withinQuota}},
	{Key: "cores_max", Unit: metric.Cores, Heading: "Cores, most", Help: "Cores in use, maximum over one-second ticks; of several nodes at a time an upper bound.",
		In: Run, From: of(Cores), How: mostly, Quantile: 1, As: "cpu_seconds", AtMost: []Bound{withinCores, withinQuota}},
	{Key: "memory_bytes", Unit: metric.Bytes, Heading: "Memory", Help: "Resident memory at the latest sample, bytes.",
		In: Run, From: of(Memory), How: current, AtMost: []Bound{withinMachine, withinLimit}},
	{Key: "memory_peak_bytes", Unit: metric.Bytes, Heading: "Memory peak", Help: "Highest resident memory, summed over nodes, bytes.",
		In: Run, Always: true, From: of(MemoryPeak), How: peak, AtMost: []Bound{withinMachine, withinLimit}},
	{Key: "memory_needed_bytes", Unit: metric.Bytes, Heading: "Memory needed", Help: "Memory that can not be given back without loss (anonymous, shared, unreclaimable kernel) at the latest sample, bytes; the rest is page cache.",
		In: Run, From: of("reckon_workload_memory_needed_bytes"), How: current, AtMost: []Bound{withinMachine, withinLimit}},
	{Key: "memory_needed_peak_bytes", Unit: metric.Bytes, Heading: "Memory needed, peak", Help: "Highest needed memory, summed over nodes, bytes.",
		In: Run, From: of(MemoryNeededPeak), How: peak, AtMost: []Bound{withinMachine, withinLimit}},
	{Key: "memory_byte_seconds", Unit: metric.ByteSeconds, Heading: "Memory by time", Help: "Resident memory by the time it was held, byte seconds.",
		In: Run | Hour, Internal: true, From: of("reckon_workload_memory_byte_seconds_total"), How: counted, As: "memory_bytes"},
	{Key: "memory_mean_bytes", Unit: metric.Bytes, Heading: "Memory, mean", Help: "Resident memory on average over the run, bytes.",
		In: Run, As: "memory_bytes", AtMost: []Bound{withinMachine, withinLimit}},
	{Key: "io_read_bytes", Field: "ReadBytes", Unit: metric.Bytes, Heading: "Read", Help: "Bytes read from storage.",
		In: Run | Hour, From: where(IO, "direction", "read"), How: counted},
	{Key: "io_write_bytes", Field: "WriteBytes", Unit: metric.Bytes, Heading: "Written", Help: "Bytes written to storage.",
		In: Run | Hour, From: where(IO, "direction", "write"), How: counted},
	{Key: "io_wait_seconds", Unit: metric.Seconds, Heading: "Storage wait", Help: "Time threads slept until storage had answered, added up over threads, seconds.",
		In: Run | Hour, From: of(IOWait), How: counted},
	{Key: "mount_metadata_operations", Unit: metric.None, Heading: "Metadata requests", Help: "Requests to FUSE file systems that neither read nor write: lookups, opens, directories.",
		In: Run, From: where("reckon_workload_mount_operations_total", "operation", "metadata"), How: counted},
	{Key: "network_bytes", Unit: metric.Bytes, Heading: "Network", Help: "Payload received and sent at sockets, the loopback network left out, bytes.",
		In: Run | Hour, From: of(Network), How: counted},
	{Key: "network_receive_bytes", Unit: metric.Bytes, Heading: "Received", Help: "Payload received at sockets, the loopback network left out, bytes.",
		In: Run, From: where(Network, "direction", "receive"), How: counted, As: "network_bytes"},
	{Key: "network_transmit_bytes", Unit: metric.Bytes, Heading: "Sent", Help: "Payload sent at sockets, the loopback network left out, bytes.",
		In: Run, From: where(Network, "direction", "transmit"), How: counted, As: "network_bytes"},
	{Key: "loopback_bytes", Unit: metric.Bytes, Heading: "Loopback", Help: "Payload received and sent over the loopback network, bytes.",
		In: Run, From: of(Loopback), How: counted, As: "network_bytes"},
	{Key: "network_connections", Unit: metric.None, Heading: "Connections", Help: "TCP connections that it tried to open.",
		In: Run, From: where(Connections, "role", "client"), How: counted, As: "network_bytes"},
	{Key: "instructions", Unit: metric.None, Heading: "Instructions", Help: "Instructions executed, by the counters of the processors (agent with --counters).",
		In: Run, From: of("reckon_workload_instructions_total"), How: counted},
	{Key: "cycles", Unit: metric.None, Heading: "Cycles", Help: "Cycles of processors that ran it; instructions by cycles say how well they were used.",
		In: Run, From: of("reckon_workload_cycles_total"), How: counted, As: "instructions"},
	{Key: "branch_misses", Unit: metric.None, Heading: "Branch misses", Help: "Branches that processors predicted wrongly.",
		In: Run, From: of("reckon_workload_branch_misses_total"), How: counted, As: "instructions"},
	{Key: "cache_misses", Unit: metric.None, Heading: "Cache misses", Help: "Cache lines fetched from beyond the last level of the cache.",
		In: Run, From: of("reckon_workload_cache_misses_total"), How: counted, As: "instructions"},
	{Key: "fp_instructions", Field: "FPInstructions", Unit: metric.None, Heading: "FP instructions", Help: "Floating-point instructions of all widths.",
		In: Run, From: of(FPInstructions), How: counted, As: "instructions"},
	{Key: "fp_scalar_instructions", Field: "FPScalarInstructions", Unit: metric.None, Heading: "FP, scalar", Help: "Floating-point instructions that work on one number each; the others are vectors.",
		In: Run, From: where(FPInstructions, "width", "scalar"), How: counted, As: "instructions"},
	{Key: "memory_traffic_bytes", Unit: metric.Bytes, Heading: "Memory traffic", Help: "Bytes moved between caches and memory: counted by a monitoring group of the kernel, or estimated from cache misses.",
		In: Run, From: of(MemoryTraffic), How: counted},
	{Key: "cache_bytes", Unit: metric.Bytes, Heading: "Cache", Help: "Last-level cache that it occupies at the latest sample, bytes, where a monitoring group of the kernel holds it.",
		In: Run, From: of("reckon_workload_cache_bytes"), How: current},
	{Key: "gpu_seconds", Unit: metric.Seconds, Heading: "GPU time", Help: "Busy share of GPUs, integrated over time, seconds.",
		In: Run | Hour, From: of(GPU), How: counted, Zero: Zero{Held: []string{"allocated_gpus", "request_gpus"}, NodeSeries: NodeGPU}},
	{Key: "gpu_memory_peak_bytes", Field: "GPUMemoryPeak", Unit: metric.Bytes, Heading: "GPU memory peak", Help: "Highest GPU memory, bytes.",
		In: Run, From: []Source{{Metric: GPUMemory}, {Metric: "reckon_workload_gpu_memory_peak_bytes"}}, How: highest},
	// Each joule belongs to one domain. Idle energy appears in series of workloads only where the site
	// shares it out, and then counts as theirs; hourly sums hold only the energy that a workload caused.
	{Key: "energy_joules", Unit: metric.Joules, Heading: "Energy", Help: "Energy it caused, joules; idle energy of nodes is in it where the site shares that out.",
		In: Run | Hour, From: of(Energy), How: counted, Except: Source{Energy, "share", "idle"}},
	{Key: "processes", Unit: metric.None, Heading: "Processes", Help: "Processes started, short-lived ones included.",
		In: Run | Hour, Always: true, From: of(Started), How: counted},
	{Key: "threads", Unit: metric.None, Heading: "Threads", Help: "Threads alive at the latest sample.",
		In: Run, From: of("reckon_workload_threads"), How: current},
	{Key: "request_cores", Unit: metric.Cores, Heading: "Cores asked", Help: "Cores asked for.",
		In: Run, From: of(RequestCores), How: perNode},
	{Key: "request_memory_bytes", Unit: metric.Bytes, Heading: "Memory asked", Help: "Memory asked for, bytes.",
		In: Run, From: of("reckon_workload_request_memory_bytes"), How: perNode},
	{Key: "request_gpus", Unit: metric.None, Heading: "GPUs asked", Help: "GPUs asked for.",
		In: Run, From: of("reckon_workload_request_gpus"), How: perNode},
	{Key: "request_seconds", Unit: metric.Seconds, Heading: "Time asked", Help: "Wall time asked for, seconds.",
		In: Run, From: of("reckon_workload_request_seconds"), How: ofTheWhole},
	{Key: "request_nodes", Unit: metric.None, Heading: "Nodes asked", Help: "Nodes asked for.",
		In: Run, From: of("reckon_workload_request_nodes"), How: ofTheWhole},
	{Key: "allocated_cores", Unit: metric.Cores, Heading: "Cores allocated", Help: "Cores that the scheduler allocated.",
		In: Run, From: of(AllocatedCores), How: perNode},
	{Key: "allocated_memory_bytes", Unit: metric.Bytes, Heading: "Memory allocated", Help: "Memory that the scheduler allocated, bytes.",
		In: Run, From: of(AllocatedMemory), How: perNode},
	{Key: "allocated_gpus", Unit: metric.None, Heading: "GPUs allocated", Help: "GPUs that the scheduler allocated.",
		In: Run, From: of(AllocatedGPUs), How: perNode},
	{Key: "allocated_nodes", Unit: metric.None, Heading: "Nodes allocated", Help: "Nodes that the scheduler allocated.",
		In: Run, From: of("reckon_workload_allocated_nodes"), How: ofTheWhole},
	{Key: "suspended_seconds", Unit: metric.Seconds, Heading: "Suspended", Help: "Time for which the scheduler had suspended it, which is not counted as allocated, seconds.",
		In: Run, From: of("reckon_workload_suspended_seconds_total"), How: ofTheWhole},
	{Key: "step_count", Unit: metric.None, Heading: "Steps", Help: "Steps that the scheduler accounts for, those of which only the number is kept included.",
		In: Run, From: of("reckon_slurm_steps"), How: ofTheWhole},
	{Key: "limit_cores", Unit: metric.Cores, Heading: "Core limit", Help: "Cores that a hard limit allows, such as that of a pod, the most over its time; absent where there is none.",
		In: Run, From: of("reckon_workload_limit_cores"), How: largest},
	{Key: "limit_memory_bytes", Unit: metric.Bytes, Heading: "Memory limit", Help: "Memory that a hard limit allows, the most over its time, bytes; absent where there is none.",
		In: Run, From: of("reckon_workload_limit_memory_bytes"), How: largest},
	{Key: "oom_kills", Unit: metric.None, Heading: "OOM kills", Help: "Processes killed for lack of memory.",
		In: Run, From: of(OOMKills), How: counted},
	{Key: "cpu_throttled_seconds", Field: "ThrottledSeconds", Unit: metric.Seconds, Heading: "Throttled", Help: "Time held back by its CPU quota, seconds.",
		In: Run, From: of(Throttled), How: counted},
	{Key: "major_faults", Unit: metric.None, Heading: "Major faults", Help: "Pages read from disk because they were not in memory.",
		In: Run, From: of("reckon_workload_major_faults_total"), How: counted},
	{Key: "minor_faults", Unit: metric.None, Heading: "Minor faults", Help: "Page faults that did not wait for storage, where it has a control group.",
		In: Run, From: where("reckon_workload_page_faults_total", "type", "minor"), How: counted},
	{Key: "memory_huge_bytes", Unit: metric.Bytes, Heading: "Huge pages", Help: "Memory in transparent huge pages at the latest sample, bytes, where it has a control group.",
		In: Run, From: of("reckon_workload_memory_huge_bytes"), How: current},
	{Key: "swap_peak_bytes", Field: "SwapBytes", Unit: metric.Bytes, Heading: "Swap peak", Help: "Most memory swapped out, summed over nodes and parts, bytes.",
		In: Run, From: of("reckon_workload_swap_bytes"), How: perPart},

	{Key: "held_core_seconds", Unit: metric.Seconds, Heading: "Core time held", Help: "Cores allocated by the time they were, less the time suspended, core seconds; where nobody says what was allocated, cores requested.", In: Hour},
	{Key: "held_estimated_core_seconds", Unit: metric.Seconds, Heading: "Core time held, estimated", Help: "Of the core time held, what is reckoned by cores requested because nobody says what was allocated, core seconds.", In: Hour},
	{Key: "held_memory_byte_seconds", Unit: metric.ByteSeconds, Heading: "Memory held by time", Help: "Memory allocated by the time it was, less the time suspended, byte seconds.", In: Hour},
	{Key: "held_gpu_seconds", Field: "HeldGPUSeconds", Unit: metric.Seconds, Heading: "GPU time held", Help: "GPUs allocated by the time they were, less the time suspended, GPU seconds.", In: Hour},
	{Key: "started", Unit: metric.None, Heading: "Started", Help: "Workloads that began.", In: Hour},
	{Key: "waited", Field: "StartedWithSubmit", Unit: metric.None, Heading: "Waited", Help: "Started workloads whose submit time is known.", In: Hour},
	{Key: "wait_seconds", Unit: metric.Seconds, Heading: "Wait", Help: "Time from submit to start of the workloads that began, added up, seconds.", In: Hour},
	{Key: "wait_core_seconds", Unit: metric.Seconds, Heading: "Wait by cores", Help: "Each wait by the cores requested, added up, seconds.", In: Hour},

	{Key: "up_seconds", Unit: metric.Seconds, Heading: "Up", Help: "Time that machines were up, seconds.", In: Node},
	{Key: "core_seconds", Unit: metric.Seconds, Heading: "Core time", Help: "Cores by the time they were there, seconds.", In: Node},
	{Key: "core_used_seconds", Unit: metric.Seconds, Heading: "Core time used", Help: "Core time that was used, by the kernel's count, the system's own work included, seconds.", In: Node},
	{Key: "node_memory_byte_seconds", Unit: metric.ByteSeconds, Heading: "Memory by time", Help: "Memory by the time it was there, byte seconds.", In: Node},
	{Key: "node_memory_used_byte_seconds", Unit: metric.ByteSeconds, Heading: "Memory used by time", Help: "Memory in use by time, byte seconds.", In: Node},
	{Key: "node_energy_joules", Field: "NodeJoules", Column: "node_joules", Unit: metric.Joules, Heading: "Energy of nodes", Help: "Energy of whole nodes, idle included, joules.", In: Node},
}
