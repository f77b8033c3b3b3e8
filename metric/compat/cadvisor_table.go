package compat

import (
	"math"

	"reckon/metric"
)

// mapping defines the representation of one of our series: a sample of to, summed over series with the same labels.
type mapping struct {
	to        *metric.Desc
	label, is string // only series with this label
	except    bool   // not for containers of pods
	measured  bool   // only for parts with an account: ended containers are reported, but are not in this view
	pod       bool   // the row of the whole pod, not of its sandbox
	extra     string // value of the last label, or
	copies    string // our label that is copied to it
	machine   bool   // of the machine: without labels
	value     func(v float64, b *metric.Batch) float64
}

const (
	// cfsPeriod is the CPU bandwidth period that the kubelet sets in microseconds (cpuCFSQuotaPeriod, 100 ms).
	cfsPeriod = 100_000
	// sharesPerCore and minShares define how the kubelet converts requested cores to cpu.shares (pkg/kubelet/cm).
	sharesPerCore, minShares = 1024, 2
)

func constantValue(v float64) func(float64, *metric.Batch) float64 {
	return func(float64, *metric.Batch) float64 { return v }
}

// cadvisorMappings maps our metrics to the samples in the view.
var cadvisorMappings = map[string][]mapping{
	"reckon_workload_cpu_seconds_total": {
		{to: cadvisorCPU, extra: "total"},
		{to: cadvisorUser, label: "mode", is: "user"},
		{to: cadvisorSystem, label: "mode", is: "system"},
	},
	"reckon_workload_cpu_throttled_seconds_total": {{to: cadvisorThrottled}},
	"reckon_workload_memory_bytes": {
		{to: cadvisorRSS, label: "type", is: "anon"},
		{to: cadvisorCache, label: "type", is: "file"},
		{to: cadvisorCache, label: "type", is: "shmem"}, // its page cache includes shared memory
		{to: cadvisorMemory, except: true},              // for containers of pods the whole charge is known, see below
	},
	"reckon_workload_memory_peak_bytes": {{to: cadvisorMax}},
	"reckon_workload_swap_bytes":        {{to: cadvisorSwap}},
	"reckon_workload_io_bytes_total": {
		{to: cadvisorRead, label: "direction", is: "read"},
		{to: cadvisorWritten, label: "direction", is: "write"},
	},
	"reckon_workload_pressure_seconds_total": {
		{to: pressureDesc("cpu", "cpu time"), label: "resource", is: "cpu"},
		{to: pressureDesc("memory", "memory"), label: "resource", is: "memory"},
		{to: pressureDesc("io", "IO"), label: "resource", is: "io"},
	},
	"reckon_workload_processes":          {{to: cadvisorProcs}},
	"reckon_workload_threads":            {{to: cadvisorThreads}},
	"reckon_workload_oom_kills_total":    {{to: cadvisorOOM}},
	"reckon_workload_start_time_seconds": {{to: cadvisorStart}},
	// for pods the limit of each container is known, see below
	"reckon_workload_limit_memory_bytes": {{to: cadvisorLimit, label: "kind", is: "container"}},

	"reckon_container_info": {
		{to: cadvisorSeen, measured: true, value: func(_ float64, b *metric.Batch) float64 { return float64(b.Time.UnixMilli()) / 1000 }}},
	"reckon_container_memory_usage_bytes":          {{to: cadvisorMemory}},
	"reckon_container_memory_working_set_bytes":    {{to: cadvisorWorking}},
	"reckon_container_cpu_periods_total":           {{to: cadvisorPeriods}},
	"reckon_container_cpu_throttled_periods_total": {{to: cadvisorThrottle}},
	"reckon_container_limit_memory_bytes":          {{to: cadvisorLimit}},
	"reckon_container_storage_bytes":               {{to: cadvisorHeld, copies: "device"}},
	"reckon_container_limit_cores": {
		{to: cadvisorQuota, value: func(v float64, _ *metric.Batch) float64 { return v * cfsPeriod }},
		{to: cadvisorPeriod, value: constantValue(cfsPeriod)},
	},
	"reckon_container_request_cores": {{to: cadvisorShares, value: func(v float64, _ *metric.Batch) float64 {
		return max(math.Floor(v*sharesPerCore+1e-6), minShares)
	}}},

	"reckon_pod_cpu_seconds_total": {
		{to: cadvisorCPU, extra: "total", pod: true},
		{to: cadvisorUser, label: "mode", is: "user", pod: true},
		{to: cadvisorSystem, label: "mode", is: "system", pod: true},
	},
	"reckon_pod_memory_bytes": {
		{to: cadvisorRSS, label: "type", is: "anon", pod: true},
		{to: cadvisorCache, label: "type", is: "file", pod: true},
		{to: cadvisorMemory, label: "type", is: "usage", pod: true},
		{to: cadvisorWorking, label: "type", is: "working_set", pod: true},
		{to: cadvisorSwap, label: "type", is: "swap", pod: true},
	},
	"reckon_pod_memory_peak_bytes": {{to: cadvisorMax, pod: true}},
	"reckon_pod_io_bytes_total": {
		{to: cadvisorRead, label: "direction", is: "read", pod: true},
		{to: cadvisorWritten, label: "direction", is: "write", pod: true},
	},
	"reckon_pod_processes": {{to: cadvisorThreads, pod: true}},

	"reckon_pod_network_bytes_total":   networkMappings("bytes", "Cumulative count of bytes"),
	"reckon_pod_network_packets_total": networkMappings("packets", "Cumulative count of packets"),
	"reckon_pod_network_errors_total":  networkMappings("errors", "Cumulative count of errors encountered while"),
	"reckon_pod_network_dropped_total": networkMappings("packets_dropped", "Cumulative count of packets dropped while"),

	"node_cpu_seconds_total":     {{to: machineCores, label: "mode", is: "idle", machine: true, value: constantValue(1)}},
	"node_memory_MemTotal_bytes": {{to: machineMemory, machine: true}},
}

// pressureDesc describes the pressure metric of a resource: the time in which some task waited for it.
func pressureDesc(resource, verb string) *metric.Desc {
	return cadvisorDesc("pressure_"+resource+"_waiting_seconds_total", metric.Counter, metric.Seconds,
		"Total time duration tasks in the container have waited due to "+verb+" congestion.")
}

// networkMappings returns the mappings for the network traffic of a pod, which the view reports at the pod's sandbox.
func networkMappings(counted, help string) []mapping {
	unit := metric.None
	if counted == "bytes" {
		unit = metric.Bytes
	}
	receive, transmit := " received", " transmitted"
	if counted == "errors" || counted == "packets_dropped" {
		receive, transmit = " receiving", " transmitting"
	}
	return []mapping{
		{to: cadvisorDesc("network_receive_"+counted+"_total", metric.Counter, unit, help+receive, "interface"), label: "direction",
			is: "receive", copies: "device"},
		{to: cadvisorDesc("network_transmit_"+counted+"_total", metric.Counter, unit, help+transmit, "interface"), label: "direction",
			is: "transmit", copies: "device"},
	}
}
