package findings

import (
	"fmt"
	"strings"

	"reckon/store"
)

// Query is a PromQL query that shows the data behind a finding, over its time.
type Query struct{ Text, Query string }

// Queries returns the queries that show the data of a finding.
func Queries(f *store.Finding) []Query {
	work := match("site", f.Site, "workload", f.Workload)
	if f.Workload == "" {
		work = match("site", f.Site, "owner", f.Owner)
	}
	on := match("site", f.Site, "node", f.Node)
	cores := rate(workloadCPU, work)
	gpus := rate(workloadGPU, work)
	switch f.Rule + " " + f.Part {
	case "over-share cpu":
		return []Query{
			{"cores in use by owner", "sum by (owner) (" + rate(workloadCPU, on) + ")"},
			{"threads that wait for a processor, by owner", "sum by (owner) (" + rate(workloadWait, on) + ")"},
			{"cores", "count(" + nodeCPU + match("site", f.Site, "node", f.Node, "mode", "idle") + ")"},
			{"share of time in which a task waited", rate(cpuPressure, on)},
			{"tasks that run or could", nodeRunnable + on},
		}
	case "over-share memory":
		return []Query{
			{"memory by owner", "sum by (owner) (" + workloadMemory + on + ")"},
			{"memory", nodeMemory + on},
			{"share that is available", nodeAvailable + on + " / " + nodeMemory + on},
			{"share of time in which a task waited", rate(memoryPressure, on)},
		}
	case "over-share gpu":
		return []Query{
			{"GPUs busy by owner", "sum by (owner) (" + rate(workloadGPU, on) + ")"},
			{"GPUs", "count(" + gpuInfo + on + ")"},
		}
	case "over-share storage":
		return []Query{
			{"bytes a second by owner", "sum by (owner) (" + rate(workloadIO, on) + ")"},
			{"threads that wait for storage, by owner", "sum by (owner) (" + rate(workloadIOWait, on) + ")"},
			{"share of time in which a task waited", rate(ioPressure, on)},
		}
	case "gpu-unused cpu":
		return []Query{
			{"cores in use", "sum(" + cores + ")"},
			{"GPUs busy", "sum(" + gpus + ")"},
		}
	case "gpu-unused gpu":
		return []Query{
			{"GPUs busy", "sum(" + gpus + ")"},
			{"requested GPUs", "max(reckon_workload_request_gpus" + work + ")"},
		}
	case "over-requested cpu":
		return []Query{
			{"cores in use", "sum(" + cores + ")"},
			{"requested cores", "max(reckon_workload_request_cores" + work + ")"},
		}
	case "over-requested memory":
		return []Query{
			{"memory in use", "sum(" + workloadMemory + work + ")"},
			{"requested memory", "max(reckon_workload_request_memory_bytes" + work + ")"},
		}
	case "idle-allocation gpu":
		return []Query{
			{"GPUs busy", "sum by (node, device) (" + gpus + ")"},
			{"memory of GPUs held", "sum by (node, device) (" + gpuMemory + work + ")"},
		}
	case "idle-allocation allocation":
		return []Query{{"processes", "sum by (node) (" + workloadProcesses + work + ")"}}
	case "idle-allocation zombies":
		return []Query{{"zombies", zombieCount + match("site", f.Site, "node", f.Node, "owner", f.Owner)}}
	case "many-small-jobs cpu", "many-small-jobs short":
		return []Query{
			{"workloads", "count(count by (workload) (" + workloadCPU + work + "))"},
			{"cores in use", "sum(" + cores + ")"},
		}
	case "memory-thrashing faults":
		return []Query{{"major faults per second", "sum(" + rate(workloadFaults, work) + ")"}}
	case "memory-thrashing swap":
		return []Query{{"share of its memory that is swapped out", fmt.Sprintf("sum(%s) / (sum(%s) + sum(%s))", workloadSwap+work, workloadSwap+work, workloadMemory+work)}}
	case "memory-thrashing quota":
		return []Query{{"share of time in which the quota held it back", "sum(" + rate(workloadThrottled, work) + ")"}}
	case "imbalance nodes":
		return []Query{{"cores in use by node", "sum by (node) (" + cores + ")"}}
	case "imbalance tasks":
		return []Query{{"cores in use by the busiest task, by step and node", "sum by (node, part) (" + rate(busiestTask, work) + ")"}, {"cores in use by all tasks", "sum by (node, part) (" + cores + ")"}}
	case "many-connections tcp":
		return []Query{{"TCP connections a second, by node", "sum by (node) (" + rate(workloadConnects, match("site", f.Site, "workload", f.Workload, "role", "client")) + ")"}}
	case "storage-pattern metadata":
		return []Query{{"requests a second, by file system and operation", "sum by (source, operation) (" + rate(workloadMounts, work) + ")"}}
	case "storage-pattern again":
		return []Query{{"bytes read a second", "sum(" + rate(workloadIO, match("site", f.Site, "workload", f.Workload, "direction", "read")) + ")"}, {"bytes a second that had been in memory shortly before", "sum(" + rate(workloadRefaults, work) + ")"}}
	case "storage-pattern writer":
		return []Query{{"bytes written a second, by node", "sum by (node) (" + rate(workloadIO, match("site", f.Site, "workload", f.Workload, "direction", "write")) + ")"}}
	case "cannot-start queue":
		return []Query{{"pending jobs of the owner", "count(reckon_workload_state" + match("site", f.Site, "owner", f.Owner, "state", "pending") + ")"}}
	case "imbalance gpus":
		return []Query{{"GPUs busy, by device", "sum by (node, device) (" + gpus + ")"}}
	}
	return nil
}

func rate(name, labels string) string { return "rate(" + name + labels + "[5m])" }

// match formats label matchers; one without a value is left out.
func match(pairs ...string) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, fmt.Sprintf("%s=%q", pairs[i], pairs[i+1]))
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}
