package compat

import (
	"maps"
	"math"
	"slices"
	"strings"

	"reckon/metric"
)

// cadvisor shows usage under the names of cAdvisor and the kubelet
// (https://github.com/google/cadvisor/blob/master/docs/storage/prometheus.md). Containers of
// pods have the labels that the kubelet gives them; the sandbox of a pod has no container, name
// and image, as its pod's control group there; it has the network of the pod. Workloads that are no containers have their id, and none of
// these either; dashboards choose containers by that.
//
// What is not measured is absent: file systems (which the kubelet's own page has of the machine only), load averages.
type cadvisor struct {
	t     table
	pods  containers
	paths map[*metric.Series]string // ids of containers, by their names
	names map[string]string         // of workloads, as people say
}

var cadvisorLabels = []string{"id", "container", "name", "namespace", "pod", "image"}

const imageUnknown = "unknown"

func cadvisorDesc(name string, kind metric.Kind, unit metric.Unit, help string, extra ...string) *metric.Desc {
	return &metric.Desc{Name: "container_" + name, Kind: kind, Unit: unit, Help: help, Labels: append(append([]string{}, cadvisorLabels...), extra...)}
}

var (
	cadvisorCPU       = cadvisorDesc("cpu_usage_seconds_total", metric.Counter, metric.Seconds, "Cumulative cpu time consumed in seconds.", "cpu")
	cadvisorUser      = cadvisorDesc("cpu_user_seconds_total", metric.Counter, metric.Seconds, "Cumulative user cpu time consumed in seconds.")
	cadvisorSystem    = cadvisorDesc("cpu_system_seconds_total", metric.Counter, metric.Seconds, "Cumulative system cpu time consumed in seconds.")
	cadvisorThrottled = cadvisorDesc("cpu_cfs_throttled_seconds_total", metric.Counter, metric.Seconds, "Total time duration the container has been throttled.")
	cadvisorMemory    = cadvisorDesc("memory_usage_bytes", metric.Gauge, metric.Bytes, "Current memory usage in bytes.")
	cadvisorRSS       = cadvisorDesc("memory_rss", metric.Gauge, metric.None, "Size of RSS in bytes.")
	cadvisorCache     = cadvisorDesc("memory_cache", metric.Gauge, metric.None, "Number of bytes of page cache memory.")
	cadvisorMax       = cadvisorDesc("memory_max_usage_bytes", metric.Gauge, metric.Bytes, "Maximum memory usage recorded in bytes.")
	cadvisorSwap      = cadvisorDesc("memory_swap", metric.Gauge, metric.None, "Container swap usage in bytes.")
	cadvisorRead      = cadvisorDesc("fs_reads_bytes_total", metric.Counter, metric.Bytes, "Cumulative count of bytes read.")
	cadvisorWritten   = cadvisorDesc("fs_writes_bytes_total", metric.Counter, metric.Bytes, "Cumulative count of bytes written.")
	cadvisorProcs     = cadvisorDesc("processes", metric.Gauge, metric.None, "Number of processes running inside the container.")
	cadvisorThreads   = cadvisorDesc("threads", metric.Gauge, metric.None, "Number of threads running inside the container.")
	cadvisorOOM       = cadvisorDesc("oom_events_total", metric.Counter, metric.None, "Count of out of memory events observed for the container.")
	cadvisorStart     = cadvisorDesc("start_time_seconds", metric.Gauge, metric.Seconds, "Start time of the container since unix epoch in seconds.")
	machineCores      = &metric.Desc{Name: "machine_cpu_cores", Kind: metric.Gauge, Help: "Number of logical CPU cores."}
	machineMemory     = &metric.Desc{Name: "machine_memory_bytes", Kind: metric.Gauge, Unit: metric.Bytes, Help: "Amount of memory installed on the machine."}
	cadvisorLimit     = cadvisorDesc("spec_memory_limit_bytes", metric.Gauge, metric.Bytes, "Memory limit for the container.")
	cadvisorWorking   = cadvisorDesc("memory_working_set_bytes", metric.Gauge, metric.Bytes, "Current working set in bytes.")
	cadvisorPeriods   = cadvisorDesc("cpu_cfs_periods_total", metric.Counter, metric.None, "Number of elapsed enforcement period intervals.")
	cadvisorThrottle  = cadvisorDesc("cpu_cfs_throttled_periods_total", metric.Counter, metric.None, "Number of throttled period intervals.")
	cadvisorQuota     = cadvisorDesc("spec_cpu_quota", metric.Gauge, metric.None, "CPU quota of the container.")
	cadvisorPeriod    = cadvisorDesc("spec_cpu_period", metric.Gauge, metric.None, "CPU period of the container.")
	cadvisorShares    = cadvisorDesc("spec_cpu_shares", metric.Gauge, metric.None, "CPU share of the container.")
	// Of the sandbox of a pod, which has its network.
	cadvisorNetwork = map[string]map[string]*metric.Desc{
		"receive": {
			"reckon_pod_network_bytes_total":   cadvisorDesc("network_receive_bytes_total", metric.Counter, metric.Bytes, "Cumulative count of bytes received", "interface"),
			"reckon_pod_network_packets_total": cadvisorDesc("network_receive_packets_total", metric.Counter, metric.None, "Cumulative count of packets received", "interface"),
			"reckon_pod_network_errors_total":  cadvisorDesc("network_receive_errors_total", metric.Counter, metric.None, "Cumulative count of errors encountered while receiving", "interface"),
			"reckon_pod_network_dropped_total": cadvisorDesc("network_receive_packets_dropped_total", metric.Counter, metric.None, "Cumulative count of packets dropped while receiving", "interface"),
		},
		"transmit": {
			"reckon_pod_network_bytes_total":   cadvisorDesc("network_transmit_bytes_total", metric.Counter, metric.Bytes, "Cumulative count of bytes transmitted", "interface"),
			"reckon_pod_network_packets_total": cadvisorDesc("network_transmit_packets_total", metric.Counter, metric.None, "Cumulative count of packets transmitted", "interface"),
			"reckon_pod_network_errors_total":  cadvisorDesc("network_transmit_errors_total", metric.Counter, metric.None, "Cumulative count of errors encountered while transmitting", "interface"),
			"reckon_pod_network_dropped_total": cadvisorDesc("network_transmit_packets_dropped_total", metric.Counter, metric.None, "Cumulative count of packets dropped while transmitting", "interface"),
		},
	}
	cadvisorSeen = cadvisorDesc("last_seen", metric.Gauge, metric.Seconds, "Last time a container was seen by the exporter")
)

// CAdvisor returns the view under cAdvisor's names.
func CAdvisor(string) View {
	return &cadvisor{names: map[string]string{}, paths: map[*metric.Series]string{}}
}

// CAdvisorName is the name of the view of cAdvisor.
const CAdvisorName = "cadvisor"

// Name implements View.
func (c *cadvisor) Name() string { return CAdvisorName }

// Descs implements View.
func (c *cadvisor) Descs() []*metric.Desc {
	descs := []*metric.Desc{cadvisorCPU, cadvisorUser, cadvisorSystem, cadvisorThrottled, cadvisorMemory, cadvisorRSS, cadvisorCache, cadvisorMax,
		cadvisorSwap, cadvisorRead, cadvisorWritten, cadvisorProcs, cadvisorThreads, cadvisorOOM, cadvisorStart, cadvisorLimit, machineCores, machineMemory,
		cadvisorWorking, cadvisorPeriods, cadvisorThrottle, cadvisorQuota, cadvisorPeriod, cadvisorShares, cadvisorSeen}
	for _, direction := range []string{"receive", "transmit"} {
		descs = slices.AppendSeq(descs, maps.Values(cadvisorNetwork[direction]))
	}
	return descs
}

// Append implements View.
func (c *cadvisor) Append(b *metric.Batch, n int) {
	c.t.begin(b.Time)
	c.pods.begin(b, n)
	for i := range b.Samples[:n] {
		s := b.Samples[i].Series
		if s.Desc.Name != "reckon_workload_info" || b.Samples[i].Last || label(s, "kind") != "container" {
			continue
		}
		if id, name := label(s, "workload"), label(s, "name"); c.names[id] != name {
			c.names[id] = name
		}
	}
	for i := range b.Samples[:n] {
		c.sample(b.Samples[i].Series, b.Samples[i].Value, b)
	}
	c.t.end(b)
	if len(c.names) > 4*n {
		clear(c.names)
	}
	if len(c.paths) > 4*len(c.pods.info)+16 {
		clear(c.paths)
	}
}

// sample shows one of our samples.
func (c *cadvisor) sample(s *metric.Series, v float64, b *metric.Batch) {
	switch s.Desc.Name {
	case "reckon_workload_cpu_seconds_total":
		c.add(cadvisorCPU, s, v, "total")
		if label(s, "mode") == "user" {
			c.add(cadvisorUser, s, v)
		} else {
			c.add(cadvisorSystem, s, v)
		}
	case "reckon_workload_cpu_throttled_seconds_total":
		c.add(cadvisorThrottled, s, v)
	case "reckon_workload_memory_bytes":
		switch label(s, "type") {
		case "anon":
			c.add(cadvisorRSS, s, v)
		case "file", "shmem": // its page cache holds shared memory
			c.add(cadvisorCache, s, v)
		}
		if c.pods.of(s) == nil { // of a container of a pod all that is charged to it is known, see below
			c.add(cadvisorMemory, s, v)
		}
	case "reckon_workload_memory_peak_bytes":
		c.add(cadvisorMax, s, v)
	case "reckon_workload_swap_bytes":
		c.add(cadvisorSwap, s, v)
	case "reckon_workload_io_bytes_total":
		if label(s, "direction") == "read" {
			c.add(cadvisorRead, s, v)
		} else {
			c.add(cadvisorWritten, s, v)
		}
	case "reckon_workload_processes":
		c.add(cadvisorProcs, s, v)
	case "reckon_workload_threads":
		c.add(cadvisorThreads, s, v)
	case "reckon_workload_oom_kills_total":
		c.add(cadvisorOOM, s, v)
	case "reckon_workload_start_time_seconds":
		c.add(cadvisorStart, s, v)
	case "reckon_workload_limit_memory_bytes":
		if label(s, "kind") == "container" { // of pods that of each container is known, see below
			c.add(cadvisorLimit, s, v)
		}
	case "node_cpu_seconds_total":
		if label(s, "mode") == "idle" {
			c.t.add(machineCores, 1)
		}
	case "node_memory_MemTotal_bytes":
		c.t.add(machineMemory, v)
	case "reckon_pod_network_bytes_total", "reckon_pod_network_packets_total", "reckon_pod_network_errors_total", "reckon_pod_network_dropped_total":
		c.add(cadvisorNetwork[label(s, "direction")][s.Desc.Name], s, v, label(s, "device"))
	default:
		c.reported(s, v, b)
	}
}

const (
	// cfsPeriod is the period of the CPU bandwidth controller that the kubelet sets, microseconds
	// (cpuCFSQuotaPeriod of its configuration, 100 ms).
	cfsPeriod = 100_000
	// sharesPerCore and minShares are how it writes requested cores into cpu.shares (pkg/kubelet/cm).
	sharesPerCore, minShares = 1024, 2
)

// reported shows what stands in series of containers alone.
func (c *cadvisor) reported(s *metric.Series, v float64, b *metric.Batch) {
	switch s.Desc.Name {
	case "reckon_container_info":
		c.add(cadvisorSeen, s, float64(b.Time.UnixMilli())/1000)
	case "reckon_container_memory_usage_bytes":
		c.add(cadvisorMemory, s, v)
	case "reckon_container_memory_working_set_bytes":
		c.add(cadvisorWorking, s, v)
	case "reckon_container_cpu_periods_total":
		c.add(cadvisorPeriods, s, v)
	case "reckon_container_cpu_throttled_periods_total":
		c.add(cadvisorThrottle, s, v)
	case "reckon_container_limit_memory_bytes":
		c.add(cadvisorLimit, s, v)
	case "reckon_container_limit_cores":
		c.add(cadvisorQuota, s, v*cfsPeriod)
		c.add(cadvisorPeriod, s, cfsPeriod)
	case "reckon_container_request_cores":
		c.add(cadvisorShares, s, max(math.Floor(v*sharesPerCore+1e-6), minShares))
	}
}

func (c *cadvisor) add(to *metric.Desc, s *metric.Series, v float64, extra ...string) {
	if info := c.pods.of(s); info != nil {
		container, name, image := label(info, "container"), "", ""
		if container != "" {
			name, image = label(info, "container_id"), label(info, "image")
		}
		c.put(to, v, extra, c.path(info), container, name, label(info, "namespace"), label(info, "pod"), image)
		return
	}
	workload, part, kind := label(s, "workload"), label(s, "part"), label(s, "kind")
	var container, namespace, pod, image string
	name := part
	switch {
	case kind == "container":
		container, image = workload[len("container/"):], imageUnknown
		if name = c.names[workload]; name == "" {
			name = container
		}
	case contained(kind):
		_, pod, container = podOf(workload, part)
		namespace, image = label(s, "owner"), imageUnknown
	}
	c.put(to, v, extra, workload, container, name, namespace, pod, image)
}

func (c *cadvisor) put(to *metric.Desc, v float64, extra []string, id, container, name, namespace, pod, image string) {
	if len(extra) > 0 {
		c.t.add(to, v, id, container, name, namespace, pod, image, extra[0])
		return
	}
	c.t.add(to, v, id, container, name, namespace, pod, image)
}

// path is the control group of a container as the kubelet's driver cgroupfs names it. On nodes with
// the driver systemd the kernel's name is another one for the same group.
func (c *cadvisor) path(info *metric.Series) string {
	if p, ok := c.paths[info]; ok {
		return p
	}
	p := "/kubepods"
	if qos := label(info, "qos"); qos == "Burstable" || qos == "BestEffort" {
		p += "/" + strings.ToLower(qos)
	}
	p += "/pod" + label(info, "uid")
	if id := label(info, "container_id"); id != "" {
		p += "/" + id
	}
	c.paths[info] = p
	return p
}
