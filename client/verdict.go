package client

// Verdict is one sentence on a workload and the number behind it.
type Verdict struct {
	Kind     string  `json:"kind"`     // cores, memory, gpu, cpu_wait, throttled, balance, time, swap, oom, timeout, exit, ...
	Severity string  `json:"severity"` // critical, warning, good or info
	Text     string  `json:"text"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"` // ratio, bytes, seconds, count or code
}
