package dashboards

import (
	"regexp"
	"slices"
)

// metricHelp maps a metric to the description of a panel that has none.
var metricHelp = map[string]string{
	"reckon_agent_info":                  "Machines with an agent that reports; one that reports nothing for five minutes is not counted.",
	"reckon_workload_start_time_seconds": "Jobs, pods, services, sessions and groups of processes that are running.",
	"node_cpu_seconds_total":             "Time of processors, as the kernel counts it.",
	"node_memory_MemAvailable_bytes": "Memory that programs can have without swapping, as the kernel estimates it, against " +
		"all there is.",
	"reckon_node_attributed_energy_joules_total": "Power of whole machines, each joule counted once; what a model gives instead of a " +
		"meter is marked modelled.",
	"reckon_workload_cpu_seconds_total": "Cores in use: CPU time per second, processes that have ended included.",
	"reckon_workload_memory_bytes":      "Resident memory: anonymous, file and shared.",
	"reckon_workload_io_bytes_total":    "Bytes read from and written to storage, per second.",
	"node_load1": "Load average over a minute and threads that run; above the number of cores something " +
		"waits.",
	"node_pressure_cpu_waiting_seconds_total":    "Pressure (PSI): share of time in which some task waited.",
	"node_filesystem_avail_bytes":                "Share that is left of each file system.",
	"node_disk_read_bytes_total":                 "Bytes per second of each disk.",
	"node_network_receive_bytes_total":           "Bytes per second of each network interface but loopback.",
	"reckon_workload_cpu_wait_seconds_total":     "Threads that were ready to run and waited for a processor, on average.",
	"reckon_command_cpu_seconds_total":           "Cores in use by the programs that use most; the rest is other.",
	"reckon_workload_energy_joules_total":        "Power that workloads cause: their share of the active energy of their nodes.",
	"reckon_workload_gpu_seconds_total":          "GPUs in use: busy share, added up over devices.",
	"reckon_workload_processes":                  "Processes and threads alive, and how many were started.",
	"reckon_workload_request_cores":              "Requested against used: others could have had the difference.",
	"reckon_gpu_info":                            "GPUs that agents see.",
	"reckon_gpu_busy_seconds_total":              "Share of time in which something ran on the GPU.",
	"reckon_gpu_memory_bytes":                    "Memory of the GPU that is in use, against all of it.",
	"reckon_gpu_power_watts":                     "Power that the GPU itself reports.",
	"reckon_gpu_ecc_errors_total":                "Memory errors that could not be corrected: reset or replace the GPU.",
	"reckon_gpu_temperature_celsius":             "Temperature of the GPU, as it reports it.",
	"reckon_gpu_throttled_seconds_total":         "Share of time in which the GPU was throttled, by reason.",
	"reckon_gpu_clock_hertz":                     "Clock of the GPU.",
	"reckon_workload_gpu_memory_bytes":           "GPU memory by who holds it.",
	"reckon_workload_request_gpus":               "Requested GPUs.",
	"reckon_battery_charge_ratio":                "Charge of batteries.",
	"reckon_slurm_up":                            "Whether the controller of Slurm answered last time.",
	"reckon_slurm_node_allocated_cores":          "Cores that the controller has allocated, of those it can allocate.",
	"reckon_slurm_node_allocated_memory_bytes":   "Memory that the controller has allocated, of what it can allocate.",
	"reckon_slurm_node_state":                    "Nodes by the state that the controller gives them.",
	"reckon_slurm_partition_jobs":                "Jobs by partition and state.",
	"reckon_slurm_partition_requested_cores":     "Cores that jobs of each partition request, running and pending.",
	"reckon_workload_state":                      "Pending jobs, by the reason that the controller gives.",
	"reckon_agent_cpu_seconds_total":             "Cores that the agent itself uses.",
	"reckon_agent_memory_bytes":                  "Resident memory of the agent itself.",
	"reckon_agent_tick_seconds_total":            "Time that one reading of everything takes.",
	"reckon_agent_ticks_late_total":              "Readings that started late or failed: the machine is overloaded, or a sensor hangs.",
	"reckon_agent_push_queue_requests":           "Requests that wait on the disk of a node because the server does not accept them.",
	"reckon_agent_push_samples_total":            "Samples that agents have sent.",
	"reckon_sensor_up":                           "Sensors that do not work, with the reason; the page About shows the remedy.",
	"reckon_server_proof_accounted_ratio":        "How far usage agrees with the raw counters of the kernel, at the last check.",
	"reckon_server_senders":                      "Agents that sent samples recently.",
	"reckon_server_store_samples_total":          "Samples written into the store per second.",
	"reckon_server_memory_bytes":                 "Resident memory of the server.",
	"reckon_server_disk_free_bytes":              "Free space of the file system that holds the store.",
	"reckon_server_catalogue_lag_seconds":        "How far the list of workloads is behind the series.",
	"reckon_server_ingest_samples_total":         "Samples received per second.",
	"reckon_server_ingest_requests_total":        "Requests of senders by their response.",
	"reckon_server_ingest_refused_samples_total": "Samples that were rejected, by reason.",
	"reckon_server_store_queue_requests":         "Requests that wait for a store elsewhere.",
	"reckon_server_dirty_rollups":                "Hours that are summed again because samples arrived late.",
	"reckon_server_rule_group_seconds":           "Time that the evaluation of a group of rules takes.",
	"reckon_server_request_seconds_total":        "Mean response time.",
	"reckon_server_cpu_seconds_total":            "Cores that the server uses.",
	"reckon_server_store_series":                 "Series that are being written, in memory.",
	"reckon_server_store_bytes":                  "Size of the store on disk.",
}

var metricName = regexp.MustCompile(`[a-z][a-zA-Z0-9_]*_[a-zA-Z0-9_]+|node_load1`)

// description returns the description of a panel, or else the description of the first metric in its queries that has one.
func (p *Panel) description() string {
	if p.Help != "" {
		return p.Help
	}
	for _, q := range p.Queries {
		for _, name := range metricName.FindAllString(q.Expr, -1) {
			if text := metricHelp[name]; text != "" {
				return text
			}
		}
	}
	return ""
}

// emptyReasons lists the reasons for empty panels. The first pattern that matches a query of the panel applies.
var emptyReasons = []struct{ metric, why string }{
	{`slurm_node_state\{.* == 0`, "All nodes take jobs, or the server asks no controller of Slurm: see --slurm."},
	{`workload_state`, "No job waits, or the server asks no controller of Slurm: see --slurm."},
	{`slurm_node_.*memory`, "The controller reports no memory of nodes, or the server asks none: see --slurm."},
	{`reckon_slurm`, "The server asks no controller of Slurm: see --slurm."},
	{`gpu_engine`, "Only GPUs of NVIDIA from Hopper on count this (GPM)."},
	{`gpu_(ecc|throttled|clock|temperature)`, "These GPUs do not report it, or there are none."},
	{`gpu`, "No agent sees a GPU here; `reckon nodes` names the reason."},
	{`joules_total`, "Nothing measures power here, and no model is set: see `reckon power`."},
	{`battery`, "These machines have no battery."},
	{`pressure`, "The kernel has no PSI: it is older than 4.20, or was started without psi=1."},
	{`infiniband|interconnect`, "These machines have no port of InfiniBand, Omni-Path, RoCE or Slingshot."},
	{`workload_network`, "Needs the eBPF sensor traffic on the node."},
	{`disk_response`, "Needs the eBPF sensor disks on the node."},
	{`disk_wait`, "Nothing waited, or the eBPF sensor waits is not on."},
	{`run_queue`, "Needs the eBPF sensor runqueue on the node."},
	{`memory_traffic`, "Needs hardware counters, CAP_PERFMON and the setting counters. Most virtual machines have no such counters."},
	{`cache_memory`, "Needs resctrl, and a processor with counters of memory traffic for it."},
	{`memory_numa`, "These machines have one NUMA node only."},
	{`agent_push`, "Agents here are scraped, or run in the server itself."},
	{`sensor_up`, "All sensors work."},
	{`agent_(cpu|memory|tick)`, "No agent reports, or all are simulated: what those take shows nothing of a machine."},
	{`server_proof`, "The first verification follows the first whole hour."},
	{`ingest_refused`, "No sample was refused."},
	{`server_ingest`, "No agent sends to this server by network."},
	{`store_queue`, "The store is inside the server."},
	{`request_seconds`, "No page and no program asked anything in this time."},
	{`reckon_server`, "The server writes its figures each minute; a rate needs two of them."},
	{``, "No agent reported this in the time shown."},
}

// emptyText returns the reason why a panel shows nothing, for Grafana's noValue.
func (p *Panel) emptyText() string {
	i := slices.IndexFunc(emptyReasons, func(m struct{ metric, why string }) bool {
		return regexp.MustCompile(m.metric).MatchString(p.Queries[0].Expr)
	})
	return emptyReasons[i].why
}
