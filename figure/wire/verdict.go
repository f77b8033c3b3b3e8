package wire

import "time"

// Verdict is one sentence on a workload and the number behind it.
type Verdict struct {
	// Subject: cores, memory, gpu, cpu_wait, throttled, balance, gpu_balance, memory_balance,
	// renamed, time, swap, oom, timeout, node_fail, exit, short or advice.
	Kind     string    `json:"kind"`
	Severity string    `json:"severity"`           // critical, warning, good or info.
	Text     string    `json:"text"`               // The sentence.
	Sentence *Sentence `json:"sentence,omitempty"` // The sentence with its figures.
	Value    float64   `json:"value"`              // Number behind the verdict.
	Unit     string    `json:"unit"`               // Unit of the number: ratio, bytes, seconds, count or code.
}

// Sentence is a message as a template and the values of its placeholders in order. Every digit of
// the message is in a value or in the template.
type Sentence struct {
	Key      string  `json:"key"`      // Key of the sentence.
	Template string  `json:"template"` // Text with a placeholder for each value: "it needed {needed} of the {given} ...".
	Values   []Value `json:"values"`   // Figures and names in the sentence, in order.
	// Run of the sentence as kind/name, and the measured time.
	Run  string    `json:"run"`
	From time.Time `json:"from"` // Start of that time.
	To   time.Time `json:"to"`   // End of the run, or the latest reading.
	Over bool      `json:"over"` // Whether the run has ended.
}

// Value is a figure or a name in a sentence.
type Value struct {
	Name  string   `json:"name"`            // Name of the placeholder; a second one of the same name ends in 2.
	Text  string   `json:"text"`            // Text as displayed.
	Value *float64 `json:"value,omitempty"` // Number; absent for other values, such as the name of a node.
	Unit  string   `json:"unit,omitempty"`  // Unit of the value: bytes, bytes/s, seconds, cores, ratio, count or code.
	Run   string   `json:"run,omitempty"`   // Run of the value, if it is not the sentence's.
}

// Event is an incident of a workload between two readings; incidents in consecutive readings are one event.
type Event struct {
	Kind  string    `json:"kind"`           // oom_kill or throttled.
	From  time.Time `json:"from"`           // Time of the reading before it.
	To    time.Time `json:"to"`             // Time of the reading that showed it.
	Node  string    `json:"node,omitempty"` // Node.
	Part  string    `json:"part,omitempty"` // Part.
	Value float64   `json:"value"`          // Processes killed, or seconds throttled.
	Unit  string    `json:"unit"`           // count or seconds.
}

// Run is one of the runs of a reused id.
type Run struct {
	Start time.Time  `json:"start"` // Start time.
	End   *time.Time `json:"end"`   // End time; null while it runs.
	Owner string     `json:"owner"` // Its owner.
	Name  string     `json:"name"`  // Name given by the owner.
}

// Advice is the recommended request for the next run. A figure without evidence is null.
type Advice struct {
	Runs        int      `json:"runs"`         // Number of runs of the same name and owner that it is based on, including this one.
	Cores       *float64 `json:"cores"`        // Cores on all nodes together; null if no run shows them.
	MemoryBytes *float64 `json:"memory_bytes"` // Memory on each node, bytes.
	Seconds     *float64 `json:"seconds"`      // Wall time, seconds.
	GPUs        *float64 `json:"gpus"`         // GPUs, on all nodes together.
	Nodes       int      `json:"nodes"`        // Nodes of the run.
	// The same in the syntax of the batch system or as container resources; empty for kinds without requests.
	Paste string   `json:"paste,omitempty"`
	Why   []string `json:"why"` // Basis of each figure, and objections.
	// The sentences of why, with the figures that they are made of.
	Sentences []Sentence `json:"sentences"`
	// Recommended request per replica of each container of a service, from its daily use.
	Containers []ContainerAdvice `json:"containers,omitempty"`
	Patch      string            `json:"patch,omitempty"` // Strategic merge patch of a Kubernetes service's object.
	// VerticalPodAutoscaler for a Kubernetes service that recommends and changes nothing.
	VPA string `json:"vpa,omitempty"`
}

// ContainerAdvice is the recommended request of each replica of a container, or of a service without containers.
type ContainerAdvice struct {
	Container   string   `json:"container,omitempty"` // Name; absent for a service without containers.
	Days        int      `json:"days"`                // Number of days that it is based on.
	Cores       *float64 `json:"cores"`               // Cores; null if the days do not show them.
	MemoryBytes *float64 `json:"memory_bytes"`        // Memory, bytes; null if the days do not show it.
	// GPUs that were busy on average on the busiest day; null if none was measured.
	GPUs *float64 `json:"gpus"`
	// Cores that were not exceeded in 95 % of the seconds, later days counting more.
	CoresP95   *float64 `json:"cores_p95"`
	CoresP99   *float64 `json:"cores_p99"`         // The same for 99 %.
	MemoryPeak *float64 `json:"memory_peak_bytes"` // The highest needed memory of a replica, bytes.
	// Backtest: cores computed each day from the preceding days, compared with that day's use; null
	// with fewer than three days.
	TestedCores  *RequestTest `json:"tested_cores"`
	TestedMemory *RequestTest `json:"tested_memory"` // The same for memory.
	NowCores     *RequestTest `json:"now_cores"`     // Its current core request, compared with the same days; null if unknown.
	NowMemory    *RequestTest `json:"now_memory"`    // The same for memory.
}

// RequestTest is the result of a request on past days.
type RequestTest struct {
	Days  int     `json:"days"`  // Number of days.
	Slack float64 `json:"slack"` // Idle share of the request.
	// Share of the seconds with more use than the request; of memory, share of the days.
	Above float64 `json:"above"`
}
