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

// Event is something that befell a workload: at some time in (From, To], for counters
// are read every few seconds, and what goes on from one reading to the next is one event.
type Event struct {
	Kind  string    `json:"kind"` // oom_kill or throttled
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Node  string    `json:"node,omitempty"`
	Part  string    `json:"part,omitempty"`
	Value float64   `json:"value"`
	Unit  string    `json:"unit"` // count, or seconds held back
}

// Run is one of the runs of an id that was given more than once.
type Run struct {
	Start time.Time  `json:"start"`
	End   *time.Time `json:"end"`
	Owner string     `json:"owner"`
	Name  string     `json:"name"`
}

// Advice is what to ask for next time. A figure that is null has nothing to rest on.
type Advice struct {
	Runs        int      `json:"runs"`         // that it rests on, this one included
	Cores       *float64 `json:"cores"`        // on all nodes together
	MemoryBytes *float64 `json:"memory_bytes"` // on each node
	Seconds     *float64 `json:"seconds"`      // wall time
	GPUs        *float64 `json:"gpus"`         // on all nodes together
	Nodes       int      `json:"nodes"`
	// Paste is the same in the words of the batch system or of Kubernetes; empty for
	// kinds that ask nobody.
	Paste string   `json:"paste,omitempty"`
	Why   []string `json:"why"` // one sentence for each figure, and what speaks against it
	// Containers are those of a service that is advised by what it used day by day; Patch and VPA are the same for its object in
	// Kubernetes: a patch of its pod template, and a VerticalPodAutoscaler that recommends and changes nothing.
	Containers []ContainerAdvice `json:"containers,omitempty"`
	Patch      string            `json:"patch,omitempty"`
	VPA        string            `json:"vpa,omitempty"`
}

// ContainerAdvice is what each replica of a container, or of a service without containers, should ask for.
type ContainerAdvice struct {
	Container   string   `json:"container,omitempty"`
	Days        int      `json:"days"` // that it rests on
	Cores       *float64 `json:"cores"`
	MemoryBytes *float64 `json:"memory_bytes"`
	GPUs        *float64 `json:"gpus"` // busy on average on the busiest day
	CoresP95    *float64 `json:"cores_p95"`
	CoresP99    *float64 `json:"cores_p99"`
	MemoryPeak  *float64 `json:"memory_peak_bytes"`
	// Cores and memory as the rule would have set them anew on each of the last days from the days before, and as they are asked
	// for now, beside what was used; null where that is not known.
	TestedCores  *RequestTest `json:"tested_cores"`
	TestedMemory *RequestTest `json:"tested_memory"`
	NowCores     *RequestTest `json:"now_cores"`
	NowMemory    *RequestTest `json:"now_memory"`
}

// RequestTest is a request held against days that were.
type RequestTest struct {
	Days  int     `json:"days"`
	Slack float64 `json:"slack"` // share of it that lay idle
	Above float64 `json:"above"` // share of the seconds, of memory share of the days, with more than it
}
