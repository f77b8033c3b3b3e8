package figure

// Metrics that several stages read. Those that figures are computed from are in the table.
const (
	StartTime  = "reckon_workload_start_time_seconds"
	EndTime    = "reckon_workload_end_time_seconds"
	SubmitTime = "reckon_workload_submit_time_seconds"
	Info       = "reckon_workload_info"
	State      = "reckon_workload_state"
	NodesInfo  = "reckon_workload_nodes_info"
	ExitCode   = "reckon_workload_exit_code"
	// The kubelet's reports about containers of pods. The labels reason are Kubernetes's.
	ContainerRestarts = "reckon_container_restarts_total"
	ContainerWaiting  = "reckon_container_waiting"
	ContainerExit     = "reckon_container_exit_code"
	// Unscheduled reports pods without a node, in the words of the scheduler; the operator writes it.
	Unscheduled = "reckon_pod_unscheduled_since_seconds"

	ExitKey    = "exit_code"  // the exit code among the figures that are not exact
	Accounting = "accounting" // label by of an exit code that accounting alone reports: it may have taken 128 off

	CPU              = "reckon_workload_cpu_seconds_total"
	CPUWait          = "reckon_workload_cpu_wait_seconds_total"
	Throttled        = "reckon_workload_cpu_throttled_seconds_total"
	Cores            = "reckon_workload_cores"
	Memory           = "reckon_workload_memory_bytes"
	MemoryPeak       = "reckon_workload_memory_peak_bytes"
	MemoryNeededPeak = "reckon_workload_memory_needed_peak_bytes"
	MemoryNeededMost = "reckon_workload_memory_needed_most_bytes"
	IO               = "reckon_workload_io_bytes_total"
	IOWait           = "reckon_workload_io_wait_seconds_total"
	Network          = "reckon_workload_network_bytes_total"
	Loopback         = "reckon_workload_loopback_bytes_total"
	Interconnect     = "reckon_workload_interconnect_bytes_total"
	NUMAMemory       = "reckon_workload_memory_numa_bytes"
	Connections      = "reckon_workload_network_connections_total"
	FPInstructions   = "reckon_workload_fp_instructions_total"
	MemoryTraffic    = "reckon_workload_memory_traffic_bytes_total"
	GPU              = "reckon_workload_gpu_seconds_total"
	GPUMemory        = "reckon_workload_gpu_memory_bytes"
	GPUMemoryPeak    = "reckon_workload_gpu_memory_peak_bytes"
	Energy           = "reckon_workload_energy_joules_total"
	Started          = "reckon_workload_processes_started_total"
	OOMKills         = "reckon_workload_oom_kills_total"
	RequestCores     = "reckon_workload_request_cores"

	AllocatedCores  = "reckon_workload_allocated_cores"
	AllocatedMemory = "reckon_workload_allocated_memory_bytes"
	AllocatedGPUs   = "reckon_workload_allocated_gpus"

	QOSInfo     = "reckon_workload_qos_info"
	EndedByInfo = "reckon_workload_ended_by_info"

	// Metrics of job steps, from Slurm accounting.
	StepInfo   = "reckon_slurm_step_info"
	StepStart  = "reckon_slurm_step_start_time_seconds"
	StepEnd    = "reckon_slurm_step_end_time_seconds"
	StepExit   = "reckon_slurm_step_exit_code"
	StepCPU    = "reckon_slurm_step_cpu_seconds"
	StepMemory = "reckon_slurm_step_memory_peak_bytes"
	StepCores  = "reckon_slurm_step_allocated_cores"

	ExactnessOf = "reckon_figure_exactness" // labels figure, kind and source

	CommandCPU     = "reckon_command_cpu_seconds_total"
	CommandStarted = "reckon_command_processes_started_total"

	NodeCPU    = "node_cpu_seconds_total"
	NodeGPU    = "reckon_node_gpu_seconds_total"
	NodeEnergy = "reckon_node_attributed_energy_joules_total"
	NodeBoot   = "node_boot_time_seconds"
)
