package scheduler

import (
	"reckon/account"
	"reckon/metric"
)

// Series of workloads that agents write too, with the same descriptions.
var (
	info           = shared("reckon_workload_info")
	startTime      = shared("reckon_workload_start_time_seconds")
	endTime        = shared("reckon_workload_end_time_seconds")
	requestCores   = shared("reckon_workload_request_cores")
	requestMemory  = shared("reckon_workload_request_memory_bytes")
	requestGPUs    = shared("reckon_workload_request_gpus")
	requestSeconds = shared("reckon_workload_request_seconds")
)

// Series that only a batch system can provide.
var (
	workloadState = &metric.Desc{
		Name: "reckon_workload_state", Kind: metric.Gauge,
		Help:   "State in the words of the batch system, in lower case, and why it is in it; the value is always 1, the series with the newest sample counts.",
		Labels: with("state", "reason"),
	}
	submitTime = &metric.Desc{
		Name: "reckon_workload_submit_time_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help:   "Submit time of the workload, seconds since the Unix epoch.",
		Labels: with(),
	}
	allocatedCores = &metric.Desc{
		Name: "reckon_workload_allocated_cores", Kind: metric.Gauge, Unit: metric.Cores,
		Help:   "Cores that the batch system gave to the workload, over all its nodes.",
		Labels: with(),
	}
	allocatedMemory = &metric.Desc{
		Name: "reckon_workload_allocated_memory_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Memory that the batch system gave to the workload, over all its nodes.",
		Labels: with(),
	}
	allocatedGPUs = &metric.Desc{
		Name: "reckon_workload_allocated_gpus", Kind: metric.Gauge,
		Help:   "GPUs that the batch system gave to the workload, over all its nodes.",
		Labels: with(),
	}
	allocatedNodes = &metric.Desc{
		Name: "reckon_workload_allocated_nodes", Kind: metric.Gauge,
		Help:   "Nodes that the batch system gave to the workload.",
		Labels: with(),
	}
	allocationTime = &metric.Desc{
		Name: "reckon_workload_allocation_time_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help:   "Time of the last resize of a workload, seconds since the Unix epoch; absent for one that was not.",
		Labels: with(),
	}
	suspendedTime = &metric.Desc{
		Name: "reckon_workload_suspended_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
		Help:   "Time for which the batch system had suspended the workload: it is not counted as allocated.",
		Labels: with(),
	}
	qosInfo = &metric.Desc{
		Name: "reckon_workload_qos_info", Kind: metric.Gauge,
		Help:   "Quality of service under which the workload runs; the value is always 1.",
		Labels: with("qos"),
	}
	endedByInfo = &metric.Desc{
		Name: "reckon_workload_ended_by_info", Kind: metric.Gauge,
		Help:   "Who or what ended the workload, if not itself: user (and which), time_limit, deadline, out_of_memory, node_failure, preempted, scheduler; the value is always 1.",
		Labels: with("by", "user"),
	}
	stepCPU = &metric.Desc{
		Name: "reckon_slurm_step_cpu_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help:   "CPU time of the step, by accounting.",
		Labels: with(),
	}
	stepMemory = &metric.Desc{
		Name: "reckon_slurm_step_memory_peak_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Highest memory of a task of the step that accounting has seen: it looks every few seconds.",
		Labels: with(),
	}
	stepCores = &metric.Desc{
		Name: "reckon_slurm_step_allocated_cores", Kind: metric.Gauge, Unit: metric.Cores,
		Help:   "Cores that the step had, by accounting.",
		Labels: with(),
	}
	requestNodes = &metric.Desc{
		Name: "reckon_workload_request_nodes", Kind: metric.Gauge,
		Help:   "Nodes requested by or allocated to the workload.",
		Labels: with(),
	}
	exitCodes = &metric.Desc{
		Name: "reckon_workload_exit_code", Kind: metric.Gauge,
		Help:   "Exit code of the workload; 128 and the number of the signal that ended it.",
		Labels: with(),
	}
	nodesInfo = &metric.Desc{
		Name: "reckon_workload_nodes_info", Kind: metric.Gauge,
		Help:   "Nodes that the batch system gave to the workload, as Slurm writes node lists; the value is always 1.",
		Labels: with("nodes"),
	}
	numberInfo = &metric.Desc{
		Name: "reckon_slurm_number_info", Kind: metric.Gauge,
		Help:   "Another job id in Slurm: that of a task of an array or of a part of a heterogeneous job alone. The value is always 1.",
		Labels: with("number"),
	}
	jobTasks = &metric.Desc{
		Name: "reckon_slurm_waiting_tasks", Kind: metric.Gauge,
		Help:   "Pending tasks of the array represented by this workload.",
		Labels: with(),
	}
	jobSteps = &metric.Desc{
		Name: "reckon_slurm_steps", Kind: metric.Gauge,
		Help:   "Steps that the job had, by accounting, those of which no series is kept included: of more than 400 those are kept that failed or used most CPU time.",
		Labels: with(),
	}
	stepInfo = &metric.Desc{
		Name: "reckon_slurm_step_info", Kind: metric.Gauge,
		Help:   "A step of a job, by accounting; part is its name in the job. The value is always 1.",
		Labels: with("name", "state", "nodes"),
	}
	stepStart = &metric.Desc{
		Name: "reckon_slurm_step_start_time_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help:   "Start time of the step, by accounting, seconds since the Unix epoch.",
		Labels: with(),
	}
	stepEnd = &metric.Desc{
		Name: "reckon_slurm_step_end_time_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help:   "When the step ended, by accounting, seconds since the Unix epoch.",
		Labels: with(),
	}
	stepExit = &metric.Desc{
		Name: "reckon_slurm_step_exit_code", Kind: metric.Gauge,
		Help:   "Exit code of the step; 128 and the number of the signal that ended it.",
		Labels: with(),
	}
)

// Series of nodes and partitions.
var (
	nodeInfo = &metric.Desc{
		Name: "reckon_slurm_node_info", Kind: metric.Gauge,
		Help:   "Node in Slurm, with its features; the value is always 1.",
		Labels: []string{"node", "features"},
	}
	nodeState = &metric.Desc{
		Name: "reckon_slurm_node_state", Kind: metric.Gauge,
		Help:   "State of a node in Slurm, its flags and why it was drained; 1 when it takes jobs, 0 when not.",
		Labels: []string{"node", "state", "flags", "reason"},
	}
	nodeCores = &metric.Desc{
		Name: "reckon_slurm_node_cores", Kind: metric.Gauge, Unit: metric.Cores,
		Help:   "Allocatable processors of a node in Slurm.",
		Labels: []string{"node"},
	}
	nodeAllocatedCores = &metric.Desc{
		Name: "reckon_slurm_node_allocated_cores", Kind: metric.Gauge, Unit: metric.Cores,
		Help:   "Processors of a node allocated to jobs.",
		Labels: []string{"node"},
	}
	nodeMemory = &metric.Desc{
		Name: "reckon_slurm_node_memory_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Allocatable memory of a node in Slurm.",
		Labels: []string{"node"},
	}
	nodeAllocatedMemory = &metric.Desc{
		Name: "reckon_slurm_node_allocated_memory_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Memory of a node allocated to jobs; absent where Slurm reports it as text only.",
		Labels: []string{"node"},
	}
	nodeGPUs = &metric.Desc{
		Name: "reckon_slurm_node_gpus", Kind: metric.Gauge,
		Help:   "Allocatable GPUs of a node in Slurm.",
		Labels: []string{"node"},
	}
	nodeAllocatedGPUs = &metric.Desc{
		Name: "reckon_slurm_node_allocated_gpus", Kind: metric.Gauge,
		Help:   "GPUs of a node allocated to jobs; absent where Slurm reports it as text only.",
		Labels: []string{"node"},
	}
	partitionInfo = &metric.Desc{
		Name: "reckon_slurm_partition_info", Kind: metric.Gauge,
		Help:   "Partition, whether it takes jobs (state) and whether it is the default; the value is always 1.",
		Labels: []string{"partition", "state", "default"},
	}
	partitionNode = &metric.Desc{
		Name: "reckon_slurm_partition_node", Kind: metric.Gauge,
		Help:   "A node is in a partition; the value is always 1.",
		Labels: []string{"partition", "node"},
	}
	partitionLimit = &metric.Desc{
		Name: "reckon_slurm_partition_limit_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help:   "Longest time that a job of the partition may take; absent where there is no limit.",
		Labels: []string{"partition"},
	}
	partitionJobs = &metric.Desc{
		Name: "reckon_slurm_partition_jobs", Kind: metric.Gauge,
		Help:   "Jobs of a partition by state; each waiting task of an array is one.",
		Labels: []string{"partition", "state"},
	}
	partitionCores = &metric.Desc{
		Name: "reckon_slurm_partition_requested_cores", Kind: metric.Gauge, Unit: metric.Cores,
		Help:   "Processors that the jobs of a partition hold or wait for, by state.",
		Labels: []string{"partition", "state"},
	}
)

// Series about the polling itself.
var (
	readUp = &metric.Desc{
		Name: "reckon_slurm_up", Kind: metric.Gauge,
		Help:   "1 when the last query of Slurm was answered, by query: jobs, accounting, nodes.",
		Labels: []string{"source"},
	}
	readSeconds = &metric.Desc{
		Name: "reckon_slurm_read_seconds", Kind: metric.Gauge, Unit: metric.Seconds,
		Help:   "Time that the last answer of Slurm took.",
		Labels: []string{"source"},
	}
	badRecords = &metric.Desc{
		Name: "reckon_slurm_bad_records_total", Kind: metric.Counter,
		Help:   "Records of Slurm that could not be read and were passed over.",
		Labels: []string{"source"},
	}
	unresolved = &metric.Desc{
		Name: "reckon_slurm_unresolved_jobs", Kind: metric.Gauge,
		Help:   "Jobs that left the queue and have no end in accounting yet.",
		Labels: []string{},
	}
)

func with(labels ...string) []string {
	return append([]string{"workload", "kind", "part", "owner"}, labels...)
}

// shared returns a description of package account; an unknown name is a bug of the program.
func shared(name string) *metric.Desc {
	for _, d := range account.Descs() {
		if d.Name == name {
			return d
		}
	}
	panic("account has no series " + name)
}

// Descs returns every series that only this package writes.
func Descs() []*metric.Desc {
	return []*metric.Desc{
		allocatedCores, allocatedMemory, allocatedGPUs, allocatedNodes, allocationTime, suspendedTime, qosInfo, endedByInfo, stepCPU, stepMemory, stepCores,
		workloadState, submitTime, requestNodes, exitCodes, nodesInfo, numberInfo, jobTasks, jobSteps, stepInfo, stepStart, stepEnd, stepExit,
		nodeInfo, nodeState, nodeCores, nodeAllocatedCores, nodeMemory, nodeAllocatedMemory, nodeGPUs, nodeAllocatedGPUs,
		partitionInfo, partitionNode, partitionLimit, partitionJobs, partitionCores,
		readUp, readSeconds, badRecords, unresolved,
	}
}
