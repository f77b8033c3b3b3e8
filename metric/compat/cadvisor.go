package compat

import "reckon/metric"

// cadvisor shows usage under the names of cAdvisor and the kubelet
// (https://github.com/google/cadvisor/blob/master/docs/storage/prometheus.md). Workloads
// that are no containers have their id, and no container, name and image, as its control
// groups do; dashboards choose containers by that. The image itself is not known here.
type cadvisor struct {
	t     table
	names map[string]string // of workloads, as people say
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
)

// CAdvisor returns the view under cAdvisor's names.
func CAdvisor(string) View { return &cadvisor{names: map[string]string{}} }

// Name implements View.
func (c *cadvisor) Name() string { return "cadvisor" }

// Descs implements View.
func (c *cadvisor) Descs() []*metric.Desc {
	return []*metric.Desc{cadvisorCPU, cadvisorUser, cadvisorSystem, cadvisorThrottled, cadvisorMemory, cadvisorRSS, cadvisorCache, cadvisorMax,
		cadvisorSwap, cadvisorRead, cadvisorWritten, cadvisorProcs, cadvisorThreads, cadvisorOOM, cadvisorStart, cadvisorLimit, machineCores, machineMemory}
}

// Append implements View.
func (c *cadvisor) Append(b *metric.Batch, n int) {
	c.t.begin(b.Time)
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
		s, v := b.Samples[i].Series, b.Samples[i].Value
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
			c.add(cadvisorMemory, s, v)
			switch label(s, "type") {
			case "anon":
				c.add(cadvisorRSS, s, v)
			case "file":
				c.add(cadvisorCache, s, v)
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
		case "reckon_workload_request_memory_bytes":
			c.add(cadvisorLimit, s, v)
		case "node_cpu_seconds_total":
			if label(s, "mode") == "idle" {
				c.t.add(machineCores, 1)
			}
		case "node_memory_MemTotal_bytes":
			c.t.add(machineMemory, v)
		}
	}
	c.t.end(b)
	if len(c.names) > 4*n {
		clear(c.names)
	}
}

func (c *cadvisor) add(to *metric.Desc, s *metric.Series, v float64, extra ...string) {
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
	if len(extra) > 0 {
		c.t.add(to, v, workload, container, name, namespace, pod, image, extra[0])
		return
	}
	c.t.add(to, v, workload, container, name, namespace, pod, image)
}
