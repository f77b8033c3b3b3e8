// Package client is the Go client of reckon's HTTP API, and holds the types of
// that API as they travel: the server encodes them, the command line and other
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
	Kind      string     `json:"kind"` // first word of id
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
	// CoresP95Method says what cores_p95 is of several nodes at a time: joint, or upper bound
	// while it runs. Empty for one node.
	CoresP95Method string   `json:"cores_p95_method,omitempty"`
	CO2Grams       *float64 `json:"co2_grams,omitempty"`
	Cost           *float64 `json:"cost,omitempty"`
	Currency       string   `json:"currency,omitempty"` // of cost

	// As reported by the scheduler.
	State  string     `json:"state,omitempty"`  // pending, running, completed, failed, ...
	Reason string     `json:"reason,omitempty"` // why it waits or is in that state
	Submit *time.Time `json:"submit,omitempty"`
	// EndedBy is who or what ended it, if not itself: user, time_limit, deadline, out_of_memory,
	// node_failure, preempted or scheduler; EndedByUser is the user who cancelled it.
	EndedBy     string `json:"ended_by,omitempty"`
	EndedByUser string `json:"ended_by_user,omitempty"`
	QOS         string `json:"qos,omitempty"`
	// Lost: the scheduler fell silent about it while it had not ended. Whether and when it ended
	// is not known; Seen is when it was last heard of.
	Lost bool `json:"lost,omitempty"`
}

// WorkloadList is the answer of GET /api/reckon/v1/workloads.
type WorkloadList struct {
	Workloads []Workload `json:"workloads"`
	Total     int        `json:"total"` // without limit and offset
	// Missing names what could not be asked, when the answer is partial.
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
	// Command is the program that a line of command_cores is of.
	Command string  `json:"command,omitempty"`
	Points  []Point `json:"points"`
}

// Command is what one program used within a workload.
type Command struct {
	Command    string   `json:"command"`
	CPUSeconds float64  `json:"cpu_seconds"`
	Processes  *float64 `json:"processes,omitempty"`
}

// WorkloadDetail is the answer of GET /api/reckon/v1/workloads/{id}.
type WorkloadDetail struct {
	Workload
	StepSeconds float64   `json:"step_seconds"`
	Profile     []Profile `json:"profile"`
	Commands    []Command `json:"commands"`
	// CoresHistogram is the distribution of the cores in use of the whole workload, one
	// observation at each reading of the agent (a second where not set otherwise).
	CoresHistogram []Bucket `json:"cores_histogram,omitempty"`
	// CoresHistogramStep is the length of the means that CoresHistogram is taken of, seconds,
	// where it ran on several nodes; null: of readings.
	CoresHistogramStep *float64 `json:"cores_histogram_step_seconds,omitempty"`
	Parts              []Part   `json:"parts,omitempty"`
	// Steps of a batch job, by begin. Of a job of very many, those that failed or used most;
	// StepCount is how many there were.
	Steps []Step `json:"steps,omitempty"`
	// Verdicts say in words how it went, the gravest first.
	Verdicts []Verdict `json:"verdicts,omitempty"`
	// Events are what befell it and when, in order of time.
	Events []Event `json:"events,omitempty"`
	// EnergyMethod says how sure energy_joules is: measured, modelled or both; empty
	// where there is no energy.
	EnergyMethod string `json:"energy_method,omitempty"`
	// GPUEngines is the share of the time in which its GPUs computed, by the part of them that was
	// busy: sm is the share of multiprocessors with work, tensor, fp64, fp32 and fp16 the pipes in
	// them, dram the share of the highest memory traffic. Absent where no GPU tells, or another
	// workload computed on one of them.
	GPUEngines map[string]float64 `json:"gpu_engines,omitempty"`
	// Advice is what to ask for next time; null where nothing can be said.
	Advice *Advice `json:"advice,omitempty"`
	// Runs are all runs of the id, the latest first, where there is more than one.
	Runs []Run `json:"lives,omitempty"`
	// Missing names what could not be asked, when the answer is partial.
	Missing []string `json:"missing,omitempty"`
}

// Bucket is one bucket of a distribution: seconds spent in (Low, High].
type Bucket struct {
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Seconds float64 `json:"seconds"`
}

// Part is the piece of a workload on one node.
type Part struct {
	Node            string   `json:"node"`
	Part            string   `json:"part"`
	CPUSeconds      *float64 `json:"cpu_seconds"`
	MemoryPeakBytes *float64 `json:"memory_peak_bytes"`
	// MemoryNeededPeakBytes is the highest memory that can not be given back; page cache is not in it.
	MemoryNeededPeakBytes *float64 `json:"memory_needed_peak_bytes,omitempty"`
	GPUSeconds            *float64 `json:"gpu_seconds,omitempty"`
}

// Step is one step of a batch job: what the batch system accounts for, and what was measured of it
// on all its nodes together.
type Step struct {
	ID          string     `json:"id"`              // 0, 1, batch, extern, interactive
	Name        string     `json:"name,omitempty"`  // the program, or what --job-name says
	State       string     `json:"state,omitempty"` // absent where there is no accounting
	Start       *time.Time `json:"start"`
	End         *time.Time `json:"end"`
	WallSeconds *float64   `json:"wall_seconds"`
	ExitCode    *int       `json:"exit_code"` // 128 and the number of the signal that ended it
	Nodes       string     `json:"nodes,omitempty"`
	Cores       *float64   `json:"cores"` // allocated
	// CPUSeconds and MemoryPeakBytes are measured where an agent was there, else as accounting
	// says, which Accounted tells; its peak is that of a single task.
	CPUSeconds      *float64 `json:"cpu_seconds"`
	MemoryPeakBytes *float64 `json:"memory_peak_bytes"`
	// MemoryNeededPeakBytes is the highest memory that can not be given back; page cache is not in it.
	MemoryNeededPeakBytes *float64 `json:"memory_needed_peak_bytes,omitempty"`
	GPUSeconds            *float64 `json:"gpu_seconds,omitempty"`
	Accounted             bool     `json:"accounted,omitempty"`
}

// Failed reports whether the step ended otherwise than it should: it failed, was killed for want of
// memory or lost its node, or ended with an exit code though its state is a good one.
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
	// Agent says whether one measures the node; those without are known from the batch system
	// only. Up is what the agent's silence or, without one, the batch system says.
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
	// InterconnectBytes went through ports of InfiniBand, Omni-Path, RoCE and Slingshot, past the
	// devices that NetworkBytes is of; IP over them is in both.
	InterconnectBytes *float64 `json:"interconnect_bytes_per_second,omitempty"`
	// Power of the whole node as it is counted, each joule once, and the part of it that
	// the node draws without work; modelled where PowerMethod says so.
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
	// GPUs are those that the batch system gives out or, without one, that sensors see.
	GPUs *float64 `json:"gpus,omitempty"`
	// Batch is what the batch system says of the node; nil where there is none.
	Batch *NodeBatch `json:"batch,omitempty"`
	// Day and Week are the last day and the last seven; nil when nothing is known of them.
	Day  *NodeSpan `json:"day,omitempty"`
	Week *NodeSpan `json:"week,omitempty"`
	// Sender is who sends for the node; nil where it does not show itself, such as other programs.
	Sender *NodeSender `json:"sender,omitempty"`
	// Waiting is what waited in the last day for what the node had free; nil where it is not
	// known what is free or what waited.
	Waiting *NodeWaiting `json:"waiting,omitempty"`
}

// NodeSender is the agent that sends for a node.
type NodeSender struct {
	Address string    `json:"address"` // of the last request
	Since   time.Time `json:"since"`   // it has the name
	Seen    time.Time `json:"seen"`
	// ClockAheadSeconds is by how much its clock is ahead of the server's, less the way of the request.
	ClockAheadSeconds float64 `json:"clock_ahead_seconds"`
	// Other is a second machine that sends by this name and is refused; nil for none.
	Other *NodeOther `json:"other,omitempty"`
}

// NodeOther is a second machine of the name of a node.
type NodeOther struct {
	Address     string    `json:"address"`
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
	Refused     int       `json:"refused"`      // requests, which the machine keeps
	SameMachine bool      `json:"same_machine"` // by machine-id(5): a clone, or a second agent
}

// Sensor says whether a sensor of a node works, and why not.
type Sensor struct {
	Sensor string `json:"sensor"`
	Up     bool   `json:"up"`
	Reason string `json:"reason,omitempty"`
}

// NodeList is the answer of GET /api/reckon/v1/nodes.
type NodeList struct {
	Nodes   []Node   `json:"nodes"`
	Missing []string `json:"missing,omitempty"`
}

// Error is the body of every answer with a status of 400 and above, as RFC 9457 has it and with
// the members that it had before.
type Error struct {
	Error string `json:"error"` // what is wrong and where
	Hint  string `json:"hint,omitempty"`
	// Type is about:blank: the status says which problem it is.
	Type string `json:"type,omitempty"`
	// Title is the name of the status.
	Title string `json:"title,omitempty"`
	// Detail is the same as error.
	Detail string `json:"detail,omitempty"`
}

// Live is one tick of GET /api/reckon/v1/live, an event stream of what the local
// agent sees, for `reckon top` and the pages.
type Live struct {
	Time      time.Time      `json:"time"`
	Node      string         `json:"node"`
	Cores     float64        `json:"cores"`      // of the machine
	CoresUsed *float64       `json:"cores_used"` // over the last tick
	Memory    *float64       `json:"memory_bytes"`
	MemUsed   *float64       `json:"memory_used_bytes"`
	Workloads []LiveWorkload `json:"workloads"`
}

// LiveWorkload is what one workload does now.
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
	// Payload at sockets, the loopback network left out.
	ReceiveRate  *float64 `json:"network_receive_bytes_per_second"`
	TransmitRate *float64 `json:"network_transmit_bytes_per_second"`
	Wait         *float64 `json:"cpu_wait"` // runnable but waiting, in cores
	Processes    int      `json:"processes"`
	Threads      int      `json:"threads"`
	Command      string   `json:"command"` // the program that used most
	StartedAt    int64    `json:"started_at"`
	// Exactness of the figures that were not exact at the last export, by key.
	Exactness figure.Degrees `json:"exactness,omitempty"`
}
