package dataset

import (
	"fmt"
	"strings"
	"time"
)

// PowerFeature is a feature of a power model as PromQL over the series of a node; NODE
// stands for its matcher and WINDOW for the time of a rate: [OnNode] fills them in.
type PowerFeature struct{ Name, Unit, Expr string }

// PowerFeatures have the names that attribution knows (doc/power-model-format.md).
func PowerFeatures() []PowerFeature {
	return []PowerFeature{
		{"cpu_utilization", "ratio", `clamp(1 - sum(rate(node_cpu_seconds_total{mode=~"idle|iowait",NODE}[WINDOW])) / count(node_cpu_seconds_total{mode="idle",NODE}), 0, 1)`},
		{"cpu_cycles", "1/s", `sum(rate(node_cpu_seconds_total{mode!~"idle|iowait",NODE}[WINDOW])) * scalar(avg(node_cpu_scaling_frequency_hertz{NODE}))`},
		{"gpu_utilization", "ratio", `sum(rate(reckon_gpu_busy_seconds_total{NODE}[WINDOW]))`},
		{"disk_read_bytes", "B/s", `sum(rate(node_disk_read_bytes_total{NODE}[WINDOW]))`},
		{"disk_write_bytes", "B/s", `sum(rate(node_disk_written_bytes_total{NODE}[WINDOW]))`},
		{"network_bytes", "B/s", `sum(rate(node_network_receive_bytes_total{device!="lo",NODE}[WINDOW])) + sum(rate(node_network_transmit_bytes_total{device!="lo",NODE}[WINDOW]))`},
	}
}

// PowerMeters are ways to the measured power of a whole node, the widest first.
func PowerMeters() []string {
	return []string{
		`sum(rate(reckon_node_energy_joules_total{domain="board",method="measured",NODE}[WINDOW]))`,
		`sum(rate(reckon_node_energy_joules_total{domain="psys",method="measured",NODE}[WINDOW]))`,
		`sum(rate(reckon_node_energy_joules_total{domain=~"package|dram|gpu",method="measured",NODE}[WINDOW]))`,
	}
}

// OnNode fills in the matcher of a node, which may be empty, and the window of rates.
func OnNode(expr, node string, window time.Duration) string {
	matcher := ""
	if node != "" {
		matcher = fmt.Sprintf("node=%q", node)
	}
	return strings.NewReplacer(",NODE", strings.TrimSuffix(","+matcher, ","), "{NODE}", "{"+matcher+"}", "WINDOW", fmt.Sprintf("%dms", window.Milliseconds())).Replace(expr)
}
