package client

import "time"

// Verdict is one sentence on a workload and the number behind it.
type Verdict struct {
	Kind     string  `json:"kind"`     // cores, memory, gpu, cpu_wait, throttled, balance, time, swap, oom, timeout, exit, renamed, ...
	Severity string  `json:"severity"` // critical, warning, good or info
	Text     string  `json:"text"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"` // ratio, bytes, seconds, count or code
}

// Event is an incident of a workload: at some time in (From, To], because counters
// are read every few seconds, and incidents in consecutive readings are merged into one event.
type Event struct {
	Kind  string    `json:"kind"` // oom_kill or throttled
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Node  string    `json:"node,omitempty"`
	Part  string    `json:"part,omitempty"`
	Value float64   `json:"value"`
	Unit  string    `json:"unit"` // count, or seconds throttled
}

// Run is one of the runs of a reused id.
type Run struct {
	Start time.Time  `json:"start"`
	End   *time.Time `json:"end"`
	Owner string     `json:"owner"`
	Name  string     `json:"name"`
}

// Advice is the recommended request for the next run. A figure without evidence is null.
type Advice struct {
	Runs        int      `json:"runs"`         // number of runs it is based on, this one included
	Cores       *float64 `json:"cores"`        // sum over all nodes
	MemoryBytes *float64 `json:"memory_bytes"` // per node
	Seconds     *float64 `json:"seconds"`      // wall time
	GPUs        *float64 `json:"gpus"`         // sum over all nodes
	Nodes       int      `json:"nodes"`
	// Paste is the same in the syntax of the batch system or of Kubernetes; empty for
	// kinds without requests.
	Paste string   `json:"paste,omitempty"`
	Why   []string `json:"why"` // one sentence per figure, and caveats
	// Containers are those of a service, advised from daily use; Patch and VPA are the same for its object in
	// Kubernetes: a patch of its pod template, and a VerticalPodAutoscaler that recommends without changing anything.
	Containers []ContainerAdvice `json:"containers,omitempty"`
	Patch      string            `json:"patch,omitempty"`
	VPA        string            `json:"vpa,omitempty"`
}

// ContainerAdvice is the recommended request of each replica of a container, or of a service without containers.
type ContainerAdvice struct {
	Container   string   `json:"container,omitempty"`
	Days        int      `json:"days"` // number of days it is based on
	Cores       *float64 `json:"cores"`
	MemoryBytes *float64 `json:"memory_bytes"`
	GPUs        *float64 `json:"gpus"` // mean number of busy ones on the busiest day
	CoresP95    *float64 `json:"cores_p95"`
	CoresP99    *float64 `json:"cores_p99"`
	MemoryPeak  *float64 `json:"memory_peak_bytes"`
	// The results of requests computed by the rule for each of the last days from the days before, and of the current
	// requests, compared with the actual use; null if unknown.
	TestedCores  *RequestTest `json:"tested_cores"`
	TestedMemory *RequestTest `json:"tested_memory"`
	NowCores     *RequestTest `json:"now_cores"`
	NowMemory    *RequestTest `json:"now_memory"`
}

// RequestTest is the result of a request on past days.
type RequestTest struct {
	Days  int     `json:"days"`
	Slack float64 `json:"slack"` // idle share of the request
	Above float64 `json:"above"` // share of the seconds, or for memory of the days, with more use than the request
}
