package compat

import (
	"slices"
	"strings"

	"reckon/metric"
	"reckon/workload"
)

// cadvisor exports usage under the names of cAdvisor and the kubelet
// (https://github.com/google/cadvisor/blob/master/docs/storage/prometheus.md). Containers of pods
// have the kubelet's labels. A pod sandbox has no container label but its id as name, an image, and
// the pod's network. A pod's control group has none of the three. Other workloads have only their
// id as label id, because dashboards select containers by the other labels.
//
// Unmeasured figures, such as load averages, are absent.
type cadvisor struct {
	t        table
	pods     containers
	measured map[partKey]bool          // parts with an account
	paths    map[*metric.Series]string // container ids, by the series of their names
	names    map[string]string         // display names of workloads
}

var cadvisorLabels = []string{"id", "container", "name", "namespace", "pod", "image"}

const imageUnknown = "unknown"

func cadvisorDesc(name string, kind metric.Kind, unit metric.Unit, help string, extra ...string) *metric.Desc {
	return &metric.Desc{Name: "container_" + name, Kind: kind, Unit: unit, Help: help,
		Labels: append(append([]string{}, cadvisorLabels...), extra...)}
}

var (
	cadvisorCPU = cadvisorDesc("cpu_usage_seconds_total", metric.Counter, metric.Seconds, "Cumulative cpu time consumed in seconds.",
		"cpu")
	cadvisorUser   = cadvisorDesc("cpu_user_seconds_total", metric.Counter, metric.Seconds, "Cumulative user cpu time consumed in seconds.")
	cadvisorSystem = cadvisorDesc("cpu_system_seconds_total", metric.Counter, metric.Seconds,
		"Cumulative system cpu time consumed in seconds.")
	cadvisorThrottled = cadvisorDesc("cpu_cfs_throttled_seconds_total", metric.Counter, metric.Seconds,
		"Total time duration the container has been throttled.")
	cadvisorMemory  = cadvisorDesc("memory_usage_bytes", metric.Gauge, metric.Bytes, "Current memory usage in bytes.")
	cadvisorRSS     = cadvisorDesc("memory_rss", metric.Gauge, metric.None, "Size of RSS in bytes.")
	cadvisorCache   = cadvisorDesc("memory_cache", metric.Gauge, metric.None, "Number of bytes of page cache memory.")
	cadvisorMax     = cadvisorDesc("memory_max_usage_bytes", metric.Gauge, metric.Bytes, "Maximum memory usage recorded in bytes.")
	cadvisorSwap    = cadvisorDesc("memory_swap", metric.Gauge, metric.None, "Container swap usage in bytes.")
	cadvisorRead    = cadvisorDesc("fs_reads_bytes_total", metric.Counter, metric.Bytes, "Cumulative count of bytes read.")
	cadvisorWritten = cadvisorDesc("fs_writes_bytes_total", metric.Counter, metric.Bytes, "Cumulative count of bytes written.")
	cadvisorHeld    = cadvisorDesc("fs_usage_bytes", metric.Gauge, metric.Bytes,
		"Number of bytes that are consumed by the container on this filesystem.", "device")
	cadvisorProcs   = cadvisorDesc("processes", metric.Gauge, metric.None, "Number of processes running inside the container.")
	cadvisorThreads = cadvisorDesc("threads", metric.Gauge, metric.None, "Number of threads running inside the container.")
	cadvisorOOM     = cadvisorDesc("oom_events_total", metric.Counter, metric.None,
		"Count of out of memory events observed for the container.")
	cadvisorStart = cadvisorDesc("start_time_seconds", metric.Gauge, metric.Seconds,
		"Start time of the container since unix epoch in seconds.")
	machineCores  = &metric.Desc{Name: "machine_cpu_cores", Kind: metric.Gauge, Help: "Number of logical CPU cores."}
	machineMemory = &metric.Desc{Name: "machine_memory_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help: "Amount of memory installed on the machine."}
	cadvisorLimit    = cadvisorDesc("spec_memory_limit_bytes", metric.Gauge, metric.Bytes, "Memory limit for the container.")
	cadvisorWorking  = cadvisorDesc("memory_working_set_bytes", metric.Gauge, metric.Bytes, "Current working set in bytes.")
	cadvisorPeriods  = cadvisorDesc("cpu_cfs_periods_total", metric.Counter, metric.None, "Number of elapsed enforcement period intervals.")
	cadvisorThrottle = cadvisorDesc("cpu_cfs_throttled_periods_total", metric.Counter, metric.None, "Number of throttled period intervals.")
	cadvisorQuota    = cadvisorDesc("spec_cpu_quota", metric.Gauge, metric.None, "CPU quota of the container.")
	cadvisorPeriod   = cadvisorDesc("spec_cpu_period", metric.Gauge, metric.None, "CPU period of the container.")
	cadvisorShares   = cadvisorDesc("spec_cpu_shares", metric.Gauge, metric.None, "CPU share of the container.")
	cadvisorSeen     = cadvisorDesc("last_seen", metric.Gauge, metric.Seconds, "Last time a container was seen by the exporter")
)

// CAdvisor returns the view under cAdvisor's names.
func CAdvisor(string) View {
	return &cadvisor{names: map[string]string{}, measured: map[partKey]bool{}, paths: map[*metric.Series]string{}}
}

// CAdvisorName is the name of the view of cAdvisor.
const CAdvisorName = "cadvisor"

// Name implements View.
func (c *cadvisor) Name() string { return CAdvisorName }

// Descs implements View.
func (c *cadvisor) Descs() []*metric.Desc {
	var descs []*metric.Desc
	for _, list := range cadvisorMappings {
		for i := range list {
			if !slices.Contains(descs, list[i].to) {
				descs = append(descs, list[i].to)
			}
		}
	}
	return descs
}

// Append implements View.
func (c *cadvisor) Append(b *metric.Batch, n int) {
	c.t.beginRound(b.Time)
	c.pods.readNames(b, n)
	clear(c.measured)
	for i := range b.Samples[:n] {
		s := b.Samples[i].Series
		if s.Desc.Name == "reckon_workload_processes" {
			c.measured[partOf(s)] = true
		}
		if s.Desc.Name != "reckon_workload_info" || b.Samples[i].Last || !workload.Kind(label(s, "kind")).Container() {
			continue
		}
		if id, name := label(s, "workload"), label(s, "name"); c.names[id] != name {
			c.names[id] = name
		}
	}
	for i := range b.Samples[:n] {
		c.includeSample(b.Samples[i].Series, b.Samples[i].Value, b)
	}
	c.t.endRound(b)
	if len(c.names) > 4*n {
		clear(c.names)
	}
	if len(c.paths) > 4*len(c.pods.info)+16 {
		clear(c.paths)
	}
}

// includeSample adds one of our samples to the view, if the view has a counterpart.
func (c *cadvisor) includeSample(s *metric.Series, v float64, b *metric.Batch) {
	for i := range cadvisorMappings[s.Desc.Name] {
		x := &cadvisorMappings[s.Desc.Name][i]
		if x.label != "" && label(s, x.label) != x.is || x.except && c.pods.find(s) != nil || x.measured && !c.measured[partOf(s)] {
			continue
		}
		shown := v
		if x.value != nil {
			shown = x.value(v, b)
		}
		switch {
		case x.machine:
			c.t.add(x.to, shown)
		case x.pod:
			c.addPod(x, s, shown)
		case x.extra != "":
			c.addWorkload(x.to, s, shown, x.extra)
		case x.copies != "":
			c.addWorkload(x.to, s, shown, label(s, x.copies))
		default:
			c.addWorkload(x.to, s, shown)
		}
	}
}

// addPod adds a figure of a whole pod.
func (c *cadvisor) addPod(x *mapping, s *metric.Series, v float64) {
	info := c.pods.find(s)
	if info == nil {
		return
	}
	id := c.cgroupPath(info)
	if own := label(info, "container_id"); own != "" {
		id = strings.TrimSuffix(id, "/"+own)
	}
	var extra []string
	if x.extra != "" {
		extra = []string{x.extra}
	}
	c.addSample(x.to, v, extra, id, "", "", label(info, "namespace"), label(info, "pod"), "")
}

func (c *cadvisor) addWorkload(to *metric.Desc, s *metric.Series, v float64, extra ...string) {
	if info := c.pods.find(s); info != nil {
		container, name, image := label(info, "container"), label(info, "container_id"), label(info, "image")
		if container == "" && name != "" {
			image = imageUnknown // the kubelet does not report it for a sandbox
		}
		c.addSample(to, v, extra, c.cgroupPath(info), container, name, label(info, "namespace"), label(info, "pod"), image)
		return
	}
	id, part, kind := label(s, "workload"), label(s, "part"), label(s, "kind")
	var container, namespace, pod, image string
	name := part
	switch {
	case workload.Kind(kind).Container():
		container, image = workload.ID(id).Name(), imageUnknown
		if name = c.names[id]; name == "" {
			name = container
		}
	case isContainerKind(kind):
		_, pod, container = podLabels(id, part)
		namespace, image = label(s, "owner"), imageUnknown
	}
	c.addSample(to, v, extra, id, container, name, namespace, pod, image)
}

func (c *cadvisor) addSample(to *metric.Desc, v float64, extra []string, id, container, name, namespace, pod, image string) {
	if len(extra) > 0 {
		c.t.add(to, v, id, container, name, namespace, pod, image, extra[0])
		return
	}
	c.t.add(to, v, id, container, name, namespace, pod, image)
}

// cgroupPath returns the path of a container's control group in the format of the kubelet's cgroupfs driver. Dashboards
// expect that format. On nodes with the systemd driver, the kernel has another path for the same group.
func (c *cadvisor) cgroupPath(info *metric.Series) string {
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
