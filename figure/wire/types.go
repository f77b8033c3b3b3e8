// Package wire defines the types of reckon's answers as the HTTP API encodes them. Package query and the answers fill them in, the
// server marshals them, and package client decodes them.
//
// Times are RFC 3339 in UTC; figures are in SI base units. A figure that was not measured is absent (null), never zero. The comments
// are the descriptions in the OpenAPI document.
package wire

import (
	"time"

	"reckon/figure"
)

// Workload is one workload over all nodes and parts: an element of GET /api/reckon/v1/workloads and
// of `reckon jobs --format json`.
type Workload struct {
	ID        string     `json:"id"`                  // kind/name; unique within the site.
	Kind      string     `json:"kind"`                // First word of the id.
	Name      string     `json:"name"`                // Name given by the owner, else the name in the id.
	Owner     string     `json:"owner"`               // Unix user for jobs, sessions and units; namespace for pods.
	Site      string     `json:"site,omitempty"`      // Site of the run.
	Account   string     `json:"account,omitempty"`   // Project or account it is charged to.
	Partition string     `json:"partition,omitempty"` // Partition, queue or slice.
	Command   string     `json:"command,omitempty"`   // Program of its first process; never its arguments.
	Nodes     []string   `json:"nodes"`               // Nodes of the run.
	Start     time.Time  `json:"start"`               // Start time, or the earliest time it was observed.
	End       *time.Time `json:"end"`                 // End time; null while it runs.
	Seen      time.Time  `json:"seen"`                // Time of its latest sample.
	Running   bool       `json:"running"`             // Whether it runs now.
	ExitCode  *int       `json:"exit_code,omitempty"` // Exit code, if known.

	WallSeconds float64 `json:"wall_seconds"` // Time from start to end, or to the latest sample, seconds.
	figure.Row
	// Meaning of cores_p95 for several nodes: joint (from the cores in use on all of them
	// together), or upper bound (valid for any correlation between them); absent for one node.
	CoresP95Method string   `json:"cores_p95_method,omitempty"`
	CO2Grams       *float64 `json:"co2_grams,omitempty"` // Grams of CO2 for its energy, by the site's grid intensity.
	Cost           *float64 `json:"cost,omitempty"`      // Cost of its energy by the site's tariff.
	Currency       string   `json:"currency,omitempty"`  // Currency of the cost.

	// State in the words of the batch system: pending, running, completed, failed, cancelled, timeout, out_of_memory
	// and the like; absent if not reported.
	State  string     `json:"state,omitempty"`
	Reason string     `json:"reason,omitempty"` // Reason for a waiting state or for the end.
	Submit *time.Time `json:"submit,omitempty"` // Submit time, if known.
	// Cause of the end other than itself: user, time_limit, deadline, out_of_memory, node_failure,
	// preempted or scheduler.
	EndedBy     string `json:"ended_by,omitempty"`
	EndedByUser string `json:"ended_by_user,omitempty"` // User who cancelled it; a number if the batch system gives no name.
	QOS         string `json:"qos,omitempty"`           // Quality of service of the run.
	// Whether the scheduler, or the node of a service, stopped reporting it before it ended. Its
	// end is then null, and seen is the time of the last report.
	Lost bool `json:"lost,omitempty"`
	// Users of a process group with several users (su, sudo, sshd) whose totals are in this row. With partial, other
	// users are left out; peaks, distributions and current values are those of the whole group.
	Users   []string      `json:"users,omitempty"`
	Partial bool          `json:"partial,omitempty"` // Whether the totals are a share of the group's.
	Within  *UsageFigures `json:"within,omitempty"`  // Use between since and until, if requested; other figures are of the whole run.
}

// WorkloadList is the workloads that a filter selected: the response of GET /api/reckon/v1/workloads.
type WorkloadList struct {
	Workloads []Workload `json:"workloads"`         // The workloads, in the requested order.
	Total     int        `json:"total"`             // Number of selected workloads without limit and offset.
	Missing   []string   `json:"missing,omitempty"` // Names of the unavailable parts of a partial answer.
}

// Point is one step of a profile. A step without a measurement is null.
type Point struct {
	Time  time.Time `json:"time"`  // End of the step.
	Value *float64  `json:"value"` // Mean over the step; null when nothing was measured.
}

// Profile is one figure of a workload over time.
type Profile struct {
	// Name of the figure: cores, memory_bytes, io_read_bytes_per_second and the like.
	Metric  string  `json:"metric"`
	Unit    string  `json:"unit"`              // Unit of the values.
	Node    string  `json:"node,omitempty"`    // Node, if the figure is of one node.
	Part    string  `json:"part,omitempty"`    // Part, if the figure is of one part.
	Command string  `json:"command,omitempty"` // Program, of command_cores.
	Points  []Point `json:"points"`            // The steps, in order of time.
}

// Command is the use of one program within a workload.
type Command struct {
	Command    string   `json:"command"`             // Name of the program, at most 15 bytes.
	CPUSeconds float64  `json:"cpu_seconds"`         // CPU time, seconds.
	Processes  *float64 `json:"processes,omitempty"` // Processes of that name.
}

// DiskWait is the time that threads of a workload slept until disks of one name had answered, added up over threads and nodes.
type DiskWait struct {
	Device  string  `json:"device"`  // Name of the disk, on all nodes; other for those beyond eight on a node.
	Seconds float64 `json:"seconds"` // Seconds, added up over threads and nodes.
}

// WorkloadDetail is one workload with its profile over time: the response of GET /api/reckon/v1/workloads/{id}.
type WorkloadDetail struct {
	Workload
	StepSeconds float64 `json:"step_seconds"` // Length of a step of the profile, seconds.
	// Figures over time, one entry per figure and, if distinguished, node and part.
	Profile []Profile `json:"profile"`
	// Seconds before its end, or before now, without any work, in whole steps of its profile; absent if it worked to
	// its end or has no complete profile.
	RestSeconds *float64  `json:"rest_seconds,omitempty"`
	Commands    []Command `json:"commands"` // Use of each program; the largest few by name, the rest as other.
	// Disks that it waited for, most first: the part of io_wait_seconds with a known disk.
	DiskWaits []DiskWait `json:"disk_waits,omitempty"`
	// Distribution of the cores in use by the whole workload, with one observation per sample of
	// the agent (by default every second).
	CoresHistogram []Bucket `json:"cores_histogram,omitempty"`
	// Length in seconds of the means that cores_histogram is computed from, if it ran on several
	// nodes; absent if it is computed from samples.
	CoresHistogramStep *float64 `json:"cores_histogram_step_seconds,omitempty"`
	Parts              []Part   `json:"parts,omitempty"` // The pieces of the workload on each node.
	// Steps of a batch job by start. A job with very many has only those that failed or used most;
	// step_count is their total number.
	Steps    []Step    `json:"steps,omitempty"`
	Verdicts []Verdict `json:"verdicts,omitempty"` // Verdicts on the run, the most severe first.
	Events   []Event   `json:"events,omitempty"`   // Events in order of time; at most the 200 most severe.
	// How energy_joules was determined: measured, modelled or both; absent without energy.
	EnergyMethod string `json:"energy_method,omitempty"`
	// Share of the busy time of its GPUs by engine: sm is the share of multiprocessors with work, tensor, fp64, fp32
	// and fp16 are their pipes, dram is the share of the peak memory traffic. Absent if no GPU counts engines, or if
	// another workload used a GPU of it.
	GPUEngines map[string]float64 `json:"gpu_engines,omitempty"`
	Advice     *Advice            `json:"advice,omitempty"`    // Recommended request; null if there is no basis for one.
	NoAdvice   *Verdict           `json:"no_advice,omitempty"` // Reason for no recommended request, and the time of the first one.
	Runs       []Run              `json:"lives,omitempty"`     // All runs of the id, the latest first, if there is more than one.
	// Unavailable parts when the answer was made, with the reasons; absent for a complete answer.
	Missing []string `json:"missing,omitempty"`
}

// Bucket is one bucket of a distribution: seconds spent in (low, high].
type Bucket struct {
	Low     float64 `json:"low"`     // Exclusive lower bound.
	High    float64 `json:"high"`    // Inclusive upper bound.
	Seconds float64 `json:"seconds"` // Time spent in the bucket, seconds.
}

// Part is the part of a workload on one node.
type Part struct {
	Node                  string   `json:"node"`                               // The node.
	Part                  string   `json:"part"`                               // Job step, or pod and container; empty for other kinds.
	CPUSeconds            *float64 `json:"cpu_seconds"`                        // CPU time, seconds.
	MemoryPeakBytes       *float64 `json:"memory_peak_bytes"`                  // Highest resident memory, bytes.
	MemoryNeededPeakBytes *float64 `json:"memory_needed_peak_bytes,omitempty"` // Peak non-reclaimable memory, bytes; excludes page cache.
	// Busy share of GPUs, integrated over time, seconds; absent without a GPU.
	GPUSeconds *float64 `json:"gpu_seconds,omitempty"`
}

// Step is one step of a batch job: its accounting by the batch system, and its measurements over all its nodes.
type Step struct {
	ID   string `json:"id"`             // Name in the job: a number, batch, extern or interactive.
	Name string `json:"name,omitempty"` // Program, or the name given by the owner.
	// State in the words of the batch system; absent if its accounting has none.
	State           string     `json:"state,omitempty"`
	Start           *time.Time `json:"start"`             // Start by accounting.
	End             *time.Time `json:"end"`               // End by accounting; null while it runs.
	WallSeconds     *float64   `json:"wall_seconds"`      // Time from start to end, seconds.
	ExitCode        *int       `json:"exit_code"`         // Exit code, or 128 plus the number of the signal that ended it.
	Nodes           string     `json:"nodes,omitempty"`   // Nodes in the batch system's notation.
	Cores           *float64   `json:"cores"`             // Allocated cores.
	CPUSeconds      *float64   `json:"cpu_seconds"`       // CPU time, seconds.
	MemoryPeakBytes *float64   `json:"memory_peak_bytes"` // Highest resident memory, bytes; from accounting, the highest of a single task.
	// Peak non-reclaimable memory, bytes; excludes page cache.
	MemoryNeededPeakBytes *float64 `json:"memory_needed_peak_bytes,omitempty"`
	GPUSeconds            *float64 `json:"gpu_seconds,omitempty"` // Busy share of GPUs, integrated over time, seconds.
	// Whether CPU time and memory come from the batch system's accounting, because no agent measured the step.
	Accounted bool `json:"accounted,omitempty"`
}

// Failed reports whether the step ended unsuccessfully: it failed, was killed for lack of memory,
// lost its node, or has a nonzero exit code despite a successful state.
func (s *Step) Failed() bool {
	switch s.State {
	case "failed", "out_of_memory", "node_fail", "boot_fail":
		return true
	case "completed":
		return s.ExitCode != nil && *s.ExitCode != 0
	}
	return false
}

// Node is one machine: an element of GET /api/reckon/v1/nodes.
type Node struct {
	Node  string `json:"node"`           // Name of the node.
	Site  string `json:"site,omitempty"` // Site of the node.
	Agent bool   `json:"agent"`          // Whether an agent measures it; other nodes come only from the batch system.
	// Whether its agent reported recently; without an agent, whether the batch system reports it as running.
	Up   bool       `json:"up"`
	Seen time.Time  `json:"seen"`           // Time of the latest sample.
	Boot *time.Time `json:"boot,omitempty"` // Boot time.
	// Online processors; without an agent those that the batch system allocates.
	Cores          *float64 `json:"cores"`
	CoresUsed      *float64 `json:"cores_used"`                // Cores in use now.
	MemoryBytes    *float64 `json:"memory_bytes"`              // Installed memory, bytes; without an agent, the batch system's value.
	MemoryUsed     *float64 `json:"memory_used_bytes"`         // Memory that is not available to new work, bytes.
	Load1          *float64 `json:"load1,omitempty"`           // Load average over one minute.
	CPUPressure    *float64 `json:"cpu_pressure,omitempty"`    // Share of time in which some task waited for a processor, 0 to 1.
	MemoryPressure *float64 `json:"memory_pressure,omitempty"` // Share of time in which some task waited for memory, 0 to 1.
	IOPressure     *float64 `json:"io_pressure,omitempty"`     // Share of time in which some task waited for storage, 0 to 1.

	NetworkBytes *float64 `json:"network_bytes_per_second,omitempty"` // Bytes received and sent each second.
	DiskBytes    *float64 `json:"disk_bytes_per_second,omitempty"`    // Bytes read from and written to storage each second.
	// Bytes received and sent per second at InfiniBand, Omni-Path, RoCE and Slingshot ports. IP
	// over them is in network_bytes_per_second as well.
	InterconnectBytes *float64 `json:"interconnect_bytes_per_second,omitempty"`
	// Bytes per second through the memory controllers of all sockets or, if these are not read,
	// between caches and memory (resctrl).
	MemoryTraffic *float64 `json:"memory_traffic_bytes_per_second,omitempty"`
	Watts         *float64 `json:"power_watts,omitempty"`      // Power of the whole node, each joule counted once, watts.
	WattsIdle     *float64 `json:"power_idle_watts,omitempty"` // Idle part of the power, watts.
	PowerMethod   string   `json:"power_method,omitempty"`     // Whether the power is measured, modelled, or both in parts.
	// Grams of CO2 in an hour at this power, by the site's grid intensity.
	CO2GramsPerHour *float64 `json:"co2_grams_per_hour,omitempty"`
	CostPerHour     *float64 `json:"cost_per_hour,omitempty"`      // Cost of an hour at this power, by the site's tariff.
	Currency        string   `json:"currency,omitempty"`           // Currency of the cost.
	Workloads       int      `json:"workloads"`                    // Running workloads.
	AgentCPU        *float64 `json:"agent_cpu_cores,omitempty"`    // Cores that the agent itself uses.
	AgentMemory     *float64 `json:"agent_memory_bytes,omitempty"` // Resident memory of the agent itself, bytes.
	Sensors         []Sensor `json:"sensors"`                      // Sensors, with the reason if one is unavailable.
	Distribution    string   `json:"distribution,omitempty"`       // Operating system by its own name.
	KernelRelease   string   `json:"kernel,omitempty"`             // Release of the kernel.
	// GPUs allocatable by the batch system or, without one, detected by sensors.
	GPUs          *float64   `json:"gpus,omitempty"`
	GPUsUsed      *float64   `json:"gpus_used,omitempty"`             // GPUs that computed, as a mean over the last two minutes.
	GPUMemory     *float64   `json:"gpu_memory_bytes,omitempty"`      // Memory of all GPUs, bytes.
	GPUMemoryUsed *float64   `json:"gpu_memory_used_bytes,omitempty"` // Memory of GPUs in use, bytes.
	GPUWatts      *float64   `json:"gpu_power_watts,omitempty"`       // Power of all GPUs, watts.
	Batch         *NodeBatch `json:"batch,omitempty"`                 // State of the node in the batch system; absent without one.
	Day           *NodeSpan  `json:"day,omitempty"`                   // Last day in whole hours, plus the current one.
	Week          *NodeSpan  `json:"week,omitempty"`                  // The last seven days.
	// Client that sends for the node; null if it does not identify itself, like other programs.
	Sender  *NodeSender  `json:"sender,omitempty"`
	Waiting *NodeWaiting `json:"waiting,omitempty"` // Demand of the last day that fit its free capacity; absent if unknown.
	Bounds  []NodeBound  `json:"bounds,omitempty"`  // Work without rows because of a limit.
}

// NodeBound is work without rows of its own on a node, because it exceeds a limit of the agent or the server.
type NodeBound struct {
	Owner string  `json:"owner,omitempty"` // Owner; empty for the node itself.
	Kind  string  `json:"kind"`            // One of process groups, file systems, and new series.
	Count float64 `json:"count"`           // Number without a row.
}

// NodeSender is the agent that sends for a node.
type NodeSender struct {
	Address string    `json:"address"` // Address of the last request.
	Since   time.Time `json:"since"`   // Time since which it has used the name.
	Seen    time.Time `json:"seen"`    // Time of the last request.
	// Seconds that its clock is ahead of the server's, minus the transmission time of the request.
	ClockAheadSeconds float64    `json:"clock_ahead_seconds"`
	Other             *NodeOther `json:"other,omitempty"` // A second machine that sends under this name and is refused; null for none.
}

// NodeOther is a second machine with the name of a node.
type NodeOther struct {
	Address     string    `json:"address"`      // Address of the last request.
	First       time.Time `json:"first"`        // Time of the first refused request.
	Last        time.Time `json:"last"`         // Time of the last refused request.
	Refused     int       `json:"refused"`      // Number of refused requests; the machine retains the data.
	SameMachine bool      `json:"same_machine"` // Whether it has the machine id of the first: a clone, or a second agent.
}

// Sensor reports whether a sensor of a node works, and why not.
type Sensor struct {
	Sensor string `json:"sensor"`           // Name of the sensor.
	Up     bool   `json:"up"`               // Whether it works.
	Reason string `json:"reason,omitempty"` // Reason why it does not, and the remedy.
}

// NodeList is the nodes of the site: the response of GET /api/reckon/v1/nodes.
type NodeList struct {
	Nodes []Node `json:"nodes"` // The nodes, by name.
	// Time when the list was read, if before the request; omitted for a current list.
	AsOf    *time.Time `json:"as_of,omitempty"`
	Missing []string   `json:"missing,omitempty"` // Unavailable parts of a partial answer.
}

// Error is the body of every response with a status of 400 or above, in the format of RFC 9457 with
// the extra members error and hint.
type Error struct {
	Error  string `json:"error"`            // A problem and where it occurred.
	Hint   string `json:"hint,omitempty"`   // Remedy.
	Type   string `json:"type,omitempty"`   // Always about:blank: the problem is defined by the status (RFC 9457).
	Title  string `json:"title,omitempty"`  // Name of the status.
	Detail string `json:"detail,omitempty"` // The same as error.
}

// Live is one tick of GET /api/reckon/v1/live, an event stream of the local agent's measurements
// for `reckon top` and the pages.
type Live struct {
	Time       time.Time      `json:"time"`                            // Time of the tick.
	Node       string         `json:"node"`                            // Name of the node.
	Cores      float64        `json:"cores"`                           // Processors online.
	CoresUsed  *float64       `json:"cores_used"`                      // Cores in use over the tick.
	Memory     *float64       `json:"memory_bytes"`                    // Memory installed, bytes.
	MemUsed    *float64       `json:"memory_used_bytes"`               // Memory that is not available to new work, bytes.
	GPUs       *float64       `json:"gpus,omitempty"`                  // GPUs; absent where none is measured.
	GPUsUsed   *float64       `json:"gpus_used,omitempty"`             // GPUs that computed, as a mean over the tick.
	GPUMemory  *float64       `json:"gpu_memory_bytes,omitempty"`      // Memory of all GPUs, bytes.
	GPUMemUsed *float64       `json:"gpu_memory_used_bytes,omitempty"` // GPU memory in use, bytes.
	Workloads  []LiveWorkload `json:"workloads"`                       // Workloads that are alive.
}

// LiveWorkload is the current activity of one workload.
type LiveWorkload struct {
	ID           string   `json:"id"`                                // kind/name.
	Part         string   `json:"part,omitempty"`                    // Job step, or pod and container; absent for other kinds.
	Name         string   `json:"name"`                              // Name given by the owner.
	Owner        string   `json:"owner"`                             // Unix user or namespace.
	Cores        float64  `json:"cores"`                             // Cores in use over the tick.
	CPUSeconds   float64  `json:"cpu_seconds"`                       // CPU time since it started, seconds.
	MemoryBytes  *float64 `json:"memory_bytes"`                      // Resident memory, bytes.
	MemoryPeak   *float64 `json:"memory_peak_bytes"`                 // Highest resident memory, bytes.
	ReadRate     *float64 `json:"io_read_bytes_per_second"`          // Bytes read from storage each second.
	WriteRate    *float64 `json:"io_write_bytes_per_second"`         // Bytes written to storage each second.
	ReceiveRate  *float64 `json:"network_receive_bytes_per_second"`  // Bytes received over the network per second.
	TransmitRate *float64 `json:"network_transmit_bytes_per_second"` // Bytes sent over the network per second.
	// Bytes per second between caches and memory, by a monitoring group or estimated from cache
	// misses; absent if not counted.
	MemoryTrafficRate *float64 `json:"memory_traffic_bytes_per_second,omitempty"`
	// Mean number of GPUs that computed for it over the tick; absent while it has none open.
	GPU       *float64 `json:"gpu,omitempty"`
	GPUMemory *float64 `json:"gpu_memory_bytes,omitempty"` // GPU memory that it holds, bytes.
	GPUWatts  *float64 `json:"gpu_watts,omitempty"`        // Power that it causes in GPUs, watts.

	Wait      *float64 `json:"cpu_wait"`   // Threads ready to run and waiting, in cores.
	Processes int      `json:"processes"`  // Processes alive.
	Threads   int      `json:"threads"`    // Threads alive.
	Command   string   `json:"command"`    // The program with the highest use.
	StartedAt int64    `json:"started_at"` // Start time, Unix seconds.
	// Exactness, by name, of the figures that were not exact at the last export: at least (a lower
	// bound), at most (an upper bound), estimated, modelled.
	Exactness figure.Degrees `json:"exactness,omitempty"`
}
