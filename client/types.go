// Package client is the Go client of reckon's HTTP API, and defines the types of
// that API: the server encodes them, the command line and other
// programs decode them.
//
// Times are RFC 3339 in UTC; figures are in SI base units. A figure that was not
// measured is absent (null), never zero.
package client

import (
	"time"

	"reckon/figure"
)

// Workload is one element of GET /api/reckon/v1/workloads and of `reckon jobs
// --format json`.
type Workload struct {
	ID        string     `json:"id"`   // kind/name
	Kind      string     `json:"kind"` // first segment of id
	Name      string     `json:"name"`
	Owner     string     `json:"owner"`
	Site      string     `json:"site,omitempty"`
	Account   string     `json:"account,omitempty"`
	Partition string     `json:"partition,omitempty"`
	Command   string     `json:"command,omitempty"`
	Nodes     []string   `json:"nodes"`
	Start     time.Time  `json:"start"`
	End       *time.Time `json:"end"` // null while it runs
	Seen      time.Time  `json:"seen"`
	Running   bool       `json:"running"`
	ExitCode  *int       `json:"exit_code,omitempty"`

	WallSeconds float64 `json:"wall_seconds"`
	figure.Row
	// CoresP95Method is the meaning of cores_p95 across several nodes: joint, or upper bound
	// while it runs. Empty for one node.
	CoresP95Method string   `json:"cores_p95_method,omitempty"`
	CO2Grams       *float64 `json:"co2_grams,omitempty"`
	Cost           *float64 `json:"cost,omitempty"`
	Currency       string   `json:"currency,omitempty"` // of cost

	// As reported by the scheduler.
	State  string     `json:"state,omitempty"`  // pending, running, completed, failed, ...
	Reason string     `json:"reason,omitempty"` // why it is waiting or in that state
	Submit *time.Time `json:"submit,omitempty"`
	// EndedBy is who or what ended it, other than itself: user, time_limit, deadline, out_of_memory,
	// node_failure, preempted or scheduler; EndedByUser is the user who cancelled it.
	EndedBy     string `json:"ended_by,omitempty"`
	EndedByUser string `json:"ended_by_user,omitempty"`
	QOS         string `json:"qos,omitempty"`
	// Lost is true if the scheduler stopped reporting it before it ended. Whether and when it ended
	// is unknown; Seen is the time of the last report.
	Lost bool `json:"lost,omitempty"`
}

// WorkloadList is the response of GET /api/reckon/v1/workloads.
type WorkloadList struct {
	Workloads []Workload `json:"workloads"`
	Total     int        `json:"total"` // without limit and offset
	// Missing names the unavailable parts of a partial answer.
	Missing []string `json:"missing,omitempty"`
}

// Point is one step of a profile. A step without a measurement is null.
type Point struct {
	Time  time.Time `json:"time"`
	Value *float64  `json:"value"`
}

// Profile is one figure of a workload over time.
type Profile struct {
	Metric string `json:"metric"` // cores, memory_bytes, io_read_bytes_per_second, ...
	Unit   string `json:"unit"`
	Node   string `json:"node,omitempty"`
	Part   string `json:"part,omitempty"`
	// Command is the program of a line of command_cores.
	Command string  `json:"command,omitempty"`
	Points  []Point `json:"points"`
}

// Command is the use of one program within a workload.
type Command struct {
	Command    string   `json:"command"`
	CPUSeconds float64  `json:"cpu_seconds"`
	Processes  *float64 `json:"processes,omitempty"`
}

// DiskWait is the time that threads of a workload slept until disks of one name had answered, added up over threads and nodes.
type DiskWait struct {
	Device  string  `json:"device"`
	Seconds float64 `json:"seconds"`
}

// WorkloadDetail is the response of GET /api/reckon/v1/workloads/{id}.
type WorkloadDetail struct {
	Workload
	StepSeconds float64   `json:"step_seconds"`
	Profile     []Profile `json:"profile"`
	Commands    []Command `json:"commands"`
	// DiskWaits are the disks that it waited for, most first: the part of io_wait_seconds for which the disk is known.
	DiskWaits []DiskWait `json:"disk_waits,omitempty"`
	// CoresHistogram is the distribution of the cores in use by the whole workload, with one
	// observation per sample of the agent (by default every second).
	CoresHistogram []Bucket `json:"cores_histogram,omitempty"`
	// CoresHistogramStep is the length of the means that CoresHistogram is computed from, seconds,
	// if it ran on several nodes; null: it is computed from samples.
	CoresHistogramStep *float64 `json:"cores_histogram_step_seconds,omitempty"`
	Parts              []Part   `json:"parts,omitempty"`
	// Steps of a batch job, in order of start. For a job with very many, only those that failed or used most;
	// StepCount is their total number.
	Steps []Step `json:"steps,omitempty"`
	// Verdicts are sentences on how it went, the most severe first.
	Verdicts []Verdict `json:"verdicts,omitempty"`
	// Events are events that affected the workload, in order of time.
	Events []Event `json:"events,omitempty"`
	// EnergyMethod is how energy_joules was determined: measured, modelled or both; empty
	// without energy.
	EnergyMethod string `json:"energy_method,omitempty"`
	// GPUEngines is the share of the busy time of its GPUs, by the engine that was
	// busy: sm is the share of multiprocessors with work, tensor, fp64, fp32 and fp16 their
	// pipes, dram the share of the peak memory traffic. Absent if no GPU counts engines, or if another
	// workload computed on one of them.
	GPUEngines map[string]float64 `json:"gpu_engines,omitempty"`
	// Advice is the recommended request for the next run; null if there is none.
	Advice *Advice `json:"advice,omitempty"`
	// Runs lists all runs of the id, the latest first, if there is more than one.
	Runs []Run `json:"lives,omitempty"`
	// Missing names the unavailable parts of a partial answer.
	Missing []string `json:"missing,omitempty"`
}

// Bucket is one bucket of a distribution: seconds spent in (Low, High].
type Bucket struct {
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Seconds float64 `json:"seconds"`
}

// Part is the part of a workload on one node.
type Part struct {
	Node            string   `json:"node"`
	Part            string   `json:"part"`
	CPUSeconds      *float64 `json:"cpu_seconds"`
	MemoryPeakBytes *float64 `json:"memory_peak_bytes"`
	// MemoryNeededPeakBytes is the peak of the needed memory; page cache is not included.
	MemoryNeededPeakBytes *float64 `json:"memory_needed_peak_bytes,omitempty"`
	GPUSeconds            *float64 `json:"gpu_seconds,omitempty"`
}

// Step is one step of a batch job: its accounting by the batch system, and the measurements
// on all its nodes together.
type Step struct {
	ID          string     `json:"id"`              // 0, 1, batch, extern, interactive
	Name        string     `json:"name,omitempty"`  // the program, or the value of --job-name
	State       string     `json:"state,omitempty"` // absent without accounting
	Start       *time.Time `json:"start"`
	End         *time.Time `json:"end"`
	WallSeconds *float64   `json:"wall_seconds"`
	ExitCode    *int       `json:"exit_code"` // 128 plus the number of the signal that ended it
	Nodes       string     `json:"nodes,omitempty"`
	Cores       *float64   `json:"cores"` // allocated
	// CPUSeconds and MemoryPeakBytes are measured if there was an agent; otherwise Accounted is true and they
	// are from accounting, whose peak is that of a single task.
	CPUSeconds      *float64 `json:"cpu_seconds"`
	MemoryPeakBytes *float64 `json:"memory_peak_bytes"`
	// MemoryNeededPeakBytes is the peak of the needed memory; page cache is not included.
	MemoryNeededPeakBytes *float64 `json:"memory_needed_peak_bytes,omitempty"`
	GPUSeconds            *float64 `json:"gpu_seconds,omitempty"`
	Accounted             bool     `json:"accounted,omitempty"`
}

// Failed reports whether the step did not end successfully: it failed, was killed for lack of
// memory or lost its node, or has a nonzero exit code despite a successful state.
func (s *Step) Failed() bool {
	switch s.State {
	case "failed", "out_of_memory", "node_fail", "boot_fail":
		return true
	case "completed":
		return s.ExitCode != nil && *s.ExitCode != 0
	}
	return false
}

// Node is one element of GET /api/reckon/v1/nodes.
type Node struct {
	Node string `json:"node"`
	Site string `json:"site,omitempty"`
	// Agent reports whether an agent measures the node; others are reported only by the batch
	// system. Up is derived from the agent's last report or, without an agent, from the batch system.
	Agent       bool       `json:"agent"`
	Up          bool       `json:"up"`
	Seen        time.Time  `json:"seen"`
	Boot        *time.Time `json:"boot,omitempty"`
	Cores       *float64   `json:"cores"`
	CoresUsed   *float64   `json:"cores_used"`
	MemoryBytes *float64   `json:"memory_bytes"`
	MemoryUsed  *float64   `json:"memory_used_bytes"`
	Load1       *float64   `json:"load1,omitempty"`
	// Shares of time in which some task waited for a processor, for memory, for storage, 0 to 1.
	CPUPressure    *float64 `json:"cpu_pressure,omitempty"`
	MemoryPressure *float64 `json:"memory_pressure,omitempty"`
	IOPressure     *float64 `json:"io_pressure,omitempty"`

	NetworkBytes *float64 `json:"network_bytes_per_second,omitempty"`
	DiskBytes    *float64 `json:"disk_bytes_per_second,omitempty"`
	// InterconnectBytes is the traffic of InfiniBand, Omni-Path, RoCE and Slingshot ports that bypasses the
	// devices in NetworkBytes; IP over them is in both.
	InterconnectBytes *float64 `json:"interconnect_bytes_per_second,omitempty"`
	// MemoryTraffic is what the memory controllers of all sockets move or, where they are not read, what the caches exchange with memory (resctrl).
	MemoryTraffic *float64 `json:"memory_traffic_bytes_per_second,omitempty"`
	// Power of the whole node, each joule counted once, and the part of it that
	// the node draws without work; PowerMethod tells whether it is modelled.
	Watts           *float64 `json:"power_watts,omitempty"`
	WattsIdle       *float64 `json:"power_idle_watts,omitempty"`
	PowerMethod     string   `json:"power_method,omitempty"` // measured, modelled or both
	CO2GramsPerHour *float64 `json:"co2_grams_per_hour,omitempty"`
	CostPerHour     *float64 `json:"cost_per_hour,omitempty"`
	Currency        string   `json:"currency,omitempty"` // of cost_per_hour
	Workloads       int      `json:"workloads"`
	AgentCPU        *float64 `json:"agent_cpu_cores,omitempty"`
	AgentMemory     *float64 `json:"agent_memory_bytes,omitempty"`
	Sensors         []Sensor `json:"sensors"`
	Distribution    string   `json:"distribution,omitempty"`
	KernelRelease   string   `json:"kernel,omitempty"`
	// GPUs are the allocatable ones of the batch system or, without one, those that sensors detect.
	GPUs *float64 `json:"gpus,omitempty"`
	// Batch is the state of the node in the batch system; nil without one.
	Batch *NodeBatch `json:"batch,omitempty"`
	// Day and Week cover the last day and the last seven days; nil if unknown.
	Day  *NodeSpan `json:"day,omitempty"`
	Week *NodeSpan `json:"week,omitempty"`
	// Sender is the client that sends for the node; nil if it does not identify itself, such as other programs.
	Sender *NodeSender `json:"sender,omitempty"`
	// Waiting is the work that waited in the last day for capacity that was free on the node; nil if either is
	// unknown.
	Waiting *NodeWaiting `json:"waiting,omitempty"`
}

// NodeSender is the agent that sends for a node.
type NodeSender struct {
	Address string    `json:"address"` // of the last request
	Since   time.Time `json:"since"`   // since when it has used the name
	Seen    time.Time `json:"seen"`
	// ClockAheadSeconds is how far its clock is ahead of the server's, less the transmission time of the request.
	ClockAheadSeconds float64 `json:"clock_ahead_seconds"`
	// Other is a second machine that sends under this name and is refused; nil for none.
	Other *NodeOther `json:"other,omitempty"`
}

// NodeOther is a second machine with the name of a node.
type NodeOther struct {
	Address     string    `json:"address"`
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
	Refused     int       `json:"refused"`      // number of requests; the machine retains the data
	SameMachine bool      `json:"same_machine"` // same machine-id(5): a clone, or a second agent
}

// Sensor reports whether a sensor of a node works, and why not.
type Sensor struct {
	Sensor string `json:"sensor"`
	Up     bool   `json:"up"`
	Reason string `json:"reason,omitempty"`
}

// NodeList is the response of GET /api/reckon/v1/nodes.
type NodeList struct {
	Nodes []Node `json:"nodes"`
	// AsOf is the time of a list that was kept, as reading one takes long on a large site; nil for one of now.
	AsOf    *time.Time `json:"as_of,omitempty"`
	Missing []string   `json:"missing,omitempty"`
}

// Error is the body of every response with a status of 400 and above, in the format of RFC 9457 plus
// the members of earlier versions.
type Error struct {
	Error string `json:"error"` // what is wrong and where
	Hint  string `json:"hint,omitempty"`
	// Type is about:blank: the problem is defined by the status.
	Type string `json:"type,omitempty"`
	// Title is the name of the status.
	Title string `json:"title,omitempty"`
	// Detail is the same as error.
	Detail string `json:"detail,omitempty"`
}

// Live is one tick of GET /api/reckon/v1/live, an event stream of the local
// agent's measurements, for `reckon top` and the pages.
type Live struct {
	Time      time.Time      `json:"time"`
	Node      string         `json:"node"`
	Cores     float64        `json:"cores"`      // of the machine
	CoresUsed *float64       `json:"cores_used"` // over the last tick
	Memory    *float64       `json:"memory_bytes"`
	MemUsed   *float64       `json:"memory_used_bytes"`
	Workloads []LiveWorkload `json:"workloads"`
}

// LiveWorkload is the current activity of one workload.
type LiveWorkload struct {
	ID          string   `json:"id"`
	Part        string   `json:"part,omitempty"`
	Name        string   `json:"name"`
	Owner       string   `json:"owner"`
	Cores       float64  `json:"cores"` // over the last tick
	CPUSeconds  float64  `json:"cpu_seconds"`
	MemoryBytes *float64 `json:"memory_bytes"`
	MemoryPeak  *float64 `json:"memory_peak_bytes"`
	ReadRate    *float64 `json:"io_read_bytes_per_second"`
	WriteRate   *float64 `json:"io_write_bytes_per_second"`
	// Payload at sockets, without the loopback network.
	ReceiveRate  *float64 `json:"network_receive_bytes_per_second"`
	TransmitRate *float64 `json:"network_transmit_bytes_per_second"`
	// Bytes moved between caches and memory; nil where nothing counts them.
	MemoryTrafficRate *float64 `json:"memory_traffic_bytes_per_second,omitempty"`

	Wait      *float64 `json:"cpu_wait"` // runnable but waiting, in cores
	Processes int      `json:"processes"`
	Threads   int      `json:"threads"`
	Command   string   `json:"command"` // the program with the highest use
	StartedAt int64    `json:"started_at"`
	// Exactness of the figures that were not exact at the last export, by key.
	Exactness figure.Degrees `json:"exactness,omitempty"`
}
