package scheduler

import (
	"reckon/account"
	"reckon/metric"
)

// Series of workloads that agents also write, with the same descriptions.
var (
	info           = accountDesc("reckon_workload_info")
	startTime      = accountDesc("reckon_workload_start_time_seconds")
	endTime        = accountDesc("reckon_workload_end_time_seconds")
	requestCores   = accountDesc("reckon_workload_request_cores")
	requestMemory  = accountDesc("reckon_workload_request_memory_bytes")
	requestGPUs    = accountDesc("reckon_workload_request_gpus")
	requestSeconds = accountDesc("reckon_workload_request_seconds")
)

// Series that only a batch system can provide.
var (
	workloadState = metric.NewDesc("reckon_workload_state", metric.Gauge, metric.None, workloadLabels("state", "reason"),
		"State of the workload as the batch system names it, in lower case, with its reason. The value is always 1. The series with "+
			"the newest sample is the current state.")
	submitTime = metric.NewDesc("reckon_workload_submit_time_seconds", metric.Gauge, metric.Seconds, workloadLabels(),
		"Submit time of the workload, seconds since the Unix epoch.")
	allocatedCores = metric.NewDesc("reckon_workload_allocated_cores", metric.Gauge, metric.Cores, workloadLabels(),
		"Cores that the batch system gave to the workload, over all its nodes.")
	allocatedMemory = metric.NewDesc("reckon_workload_allocated_memory_bytes", metric.Gauge, metric.Bytes, workloadLabels(),
		"Memory that the batch system gave to the workload, over all its nodes.")
	allocatedGPUs = metric.NewDesc("reckon_workload_allocated_gpus", metric.Gauge, metric.None, workloadLabels(),
		"GPUs that the batch system gave to the workload, over all its nodes.")
	allocatedNodes = metric.NewDesc("reckon_workload_allocated_nodes", metric.Gauge, metric.None, workloadLabels(),
		"Nodes that the batch system gave to the workload.")
	allocationTime = metric.NewDesc("reckon_workload_allocation_time_seconds", metric.Gauge, metric.Seconds, workloadLabels(),
		"Time of the last resize of the workload, seconds since the Unix epoch. Absent if it was never resized.")
	suspendedTime = metric.NewDesc("reckon_workload_suspended_seconds_total", metric.Counter, metric.Seconds, workloadLabels(),
		"Time in which the batch system had suspended the workload. It does not count as allocated.")
	qosInfo = metric.NewDesc("reckon_workload_qos_info", metric.Gauge, metric.None, workloadLabels("qos"),
		"Quality of service under which the workload runs; the value is always 1.")
	endedByInfo = metric.NewDesc("reckon_workload_ended_by_info", metric.Gauge, metric.None, workloadLabels("by", "user"),
		"Who or what ended the workload, if not itself: user (and which), time_limit, deadline, out_of_memory, node_failure, preempted, "+
			"scheduler; the value is always 1.")
	stepCPU = metric.NewDesc("reckon_slurm_step_cpu_seconds", metric.Gauge, metric.Seconds, workloadLabels(),
		"CPU time of the step, by accounting.")
	stepMemory = metric.NewDesc("reckon_slurm_step_memory_peak_bytes", metric.Gauge, metric.Bytes, workloadLabels(),
		"Highest memory of a task of the step that accounting has seen: it looks every few seconds.")
	stepCores = metric.NewDesc("reckon_slurm_step_allocated_cores", metric.Gauge, metric.Cores, workloadLabels(),
		"Cores that the step had, by accounting.")
	requestNodes = metric.NewDesc("reckon_workload_request_nodes", metric.Gauge, metric.None, workloadLabels(),
		"Nodes requested by or allocated to the workload.")
	requestTasks = metric.NewDesc("reckon_workload_request_tasks", metric.Gauge, metric.None, workloadLabels(),
		"Requested tasks. Each task has its own cores.")
	exitCodes = metric.NewDesc("reckon_workload_exit_code", metric.Gauge, metric.None, workloadLabels("by"),
		"Exit code of the workload. A signal gives 128 plus its number. Accounting may subtract 128 from an exit code.")
	nodesInfo = metric.NewDesc("reckon_workload_nodes_info", metric.Gauge, metric.None, workloadLabels("nodes"),
		"Nodes that the batch system gave to the workload, as Slurm writes node lists; the value is always 1.")
	numberInfo = metric.NewDesc("reckon_slurm_number_info", metric.Gauge, metric.None, workloadLabels("number"),
		"Another job id in Slurm: a task's of an array, or a part's of a heterogeneous job. The value is always 1.")
	jobTasks = metric.NewDesc("reckon_slurm_waiting_tasks", metric.Gauge, metric.None, workloadLabels(),
		"Pending tasks of the array represented by this workload.")
	jobSteps = metric.NewDesc("reckon_slurm_steps", metric.Gauge, metric.None, workloadLabels(),
		"Steps of the job by accounting. A job with more than 400 steps has series only for steps that failed or used the most CPU "+
			"time.")
	stepInfo = metric.NewDesc("reckon_slurm_step_info", metric.Gauge, metric.None, workloadLabels("name", "state", "nodes"),
		"A step of a job, by accounting; part is its name in the job. The value is always 1.")
	stepStart = metric.NewDesc("reckon_slurm_step_start_time_seconds", metric.Gauge, metric.Seconds, workloadLabels(),
		"Start time of the step, by accounting, seconds since the Unix epoch.")
	stepEnd = metric.NewDesc("reckon_slurm_step_end_time_seconds", metric.Gauge, metric.Seconds, workloadLabels(),
		"When the step ended, by accounting, seconds since the Unix epoch.")
	stepExit = metric.NewDesc("reckon_slurm_step_exit_code", metric.Gauge, metric.None, workloadLabels(),
		"Exit code of the step; 128 and the number of the signal that ended it.")
)

// Series of nodes and partitions.
var (
	nodeInfo = metric.NewDesc("reckon_slurm_node_info", metric.Gauge, metric.None, []string{"node", "features"},
		"Node in Slurm, with its features; the value is always 1.")
	nodeState = metric.NewDesc("reckon_slurm_node_state", metric.Gauge, metric.None, []string{"node", "state", "flags", "reason"},
		"State of a node in Slurm, its flags and why it was drained; 1 when it takes jobs, 0 when not.")
	nodeCores = metric.NewDesc("reckon_slurm_node_cores", metric.Gauge, metric.Cores, []string{"node"},
		"Allocatable processors of a node in Slurm.")
	nodeAllocatedCores = metric.NewDesc("reckon_slurm_node_allocated_cores", metric.Gauge, metric.Cores, []string{"node"},
		"Processors of a node allocated to jobs.")
	nodeMemory = metric.NewDesc("reckon_slurm_node_memory_bytes", metric.Gauge, metric.Bytes, []string{"node"},
		"Allocatable memory of a node in Slurm.")
	nodeAllocatedMemory = metric.NewDesc("reckon_slurm_node_allocated_memory_bytes", metric.Gauge, metric.Bytes, []string{"node"},
		"Memory of a node allocated to jobs; absent where Slurm reports it as text only.")
	nodeGPUs = metric.NewDesc("reckon_slurm_node_gpus", metric.Gauge, metric.None, []string{"node"},
		"Allocatable GPUs of a node in Slurm.")
	nodeAllocatedGPUs = metric.NewDesc("reckon_slurm_node_allocated_gpus", metric.Gauge, metric.None, []string{"node"},
		"GPUs of a node allocated to jobs; absent where Slurm reports it as text only.")
	partitionInfo = metric.NewDesc("reckon_slurm_partition_info", metric.Gauge, metric.None, []string{"partition", "state", "default"},
		"Partition, whether it takes jobs (state) and whether it is the default; the value is always 1.")
	partitionNode = metric.NewDesc("reckon_slurm_partition_node", metric.Gauge, metric.None, []string{"partition", "node"},
		"A node is in a partition; the value is always 1.")
	partitionLimit = metric.NewDesc("reckon_slurm_partition_limit_seconds", metric.Gauge, metric.Seconds, []string{"partition"},
		"Longest time that a job of the partition may take; absent where there is no limit.")
	partitionJobs = metric.NewDesc("reckon_slurm_partition_jobs", metric.Gauge, metric.None, []string{"partition", "state"},
		"Jobs of a partition by state; each waiting task of an array is one.")
	partitionCores = metric.NewDesc("reckon_slurm_partition_requested_cores", metric.Gauge, metric.Cores, []string{"partition", "state"},
		"Processors that the jobs of a partition hold or wait for, by state.")
)

// Series about the polling itself.
var (
	readUp = metric.NewDesc("reckon_slurm_up", metric.Gauge, metric.None, []string{"source"},
		"1 when the last query of Slurm was answered, by query: jobs, accounting, nodes.")
	readSeconds = metric.NewDesc("reckon_slurm_read_seconds", metric.Gauge, metric.Seconds, []string{"source"},
		"Time that the last answer of Slurm took.")
	badRecords = metric.NewDesc("reckon_slurm_bad_records_total", metric.Counter, metric.None, []string{"source"},
		"Records of Slurm that could not be read and were passed over.")
	unresolved = metric.NewDesc("reckon_slurm_unresolved_jobs", metric.Gauge, metric.None, []string{},
		"Jobs that left the queue and have no end in accounting yet.")
)

func workloadLabels(labels ...string) []string {
	return append([]string{"workload", "kind", "part", "owner"}, labels...)
}

// accountDesc returns a description of package account; an unknown name is a bug of the program.
func accountDesc(name string) *metric.Desc {
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
		allocatedCores, allocatedMemory, allocatedGPUs, allocatedNodes, allocationTime, suspendedTime, qosInfo, endedByInfo, stepCPU,
		stepMemory, stepCores, stepInfo, stepStart, stepEnd, stepExit,
		workloadState, submitTime, requestNodes, requestTasks, exitCodes, nodesInfo, numberInfo, jobTasks, jobSteps,
		nodeInfo, nodeState, nodeCores, nodeAllocatedCores, nodeMemory, nodeAllocatedMemory, nodeGPUs, nodeAllocatedGPUs,
		partitionInfo, partitionNode, partitionLimit, partitionJobs, partitionCores,
		readUp, readSeconds, badRecords, unresolved,
	}
}
