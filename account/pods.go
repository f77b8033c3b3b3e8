package account

import (
	"strconv"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// The reported facts of a pod are stored with its sandbox. Counters of control groups, under the names that the kubelet
// uses, are stored with each container.
var (
	podInfo = metric.NewDesc("reckon_pod_info", metric.Gauge, metric.None,
		chargedLabels("namespace", "pod", "uid", "owner_kind", "owner_name", "ip", "host_ip", "priority_class", "host_network", "qos"),
		"What the kubelet reports about a pod: its controlling owner, its address, the address of its node, and its priority class. "+
			"The value is always 1.")
	podPhase = metric.NewDesc("reckon_pod_phase", metric.Gauge, metric.None, chargedLabels("phase"),
		"1 for the phase that the pod is in, as the kubelet reports it: Pending, Running, Succeeded, Failed or Unknown.")
	podReady = metric.NewDesc("reckon_pod_ready", metric.Gauge, metric.None, chargedLabels(),
		"1 while the pod's condition Ready is true, else 0. Absent where the kubelet does not know.")
	podCreated = metric.NewDesc("reckon_pod_created_time_seconds", metric.Gauge, metric.Seconds, chargedLabels(),
		"When the pod was created, by the clock of the API server, since the Unix epoch.")
	podUnscheduled = metric.NewDesc("reckon_pod_unscheduled_since_seconds", metric.Gauge, metric.Seconds, chargedLabels("run", "reason",
		"message"),
		"When a pod without a node was created, seconds since the Unix epoch, with the scheduler's reason and message. The operator "+
			"reports it, without a node, until the pod has one; part is the pod, and run as in the start time.")
	containerRunning = metric.NewDesc("reckon_container_running", metric.Gauge, metric.None, chargedLabels(),
		"1 while the kubelet reports that the container runs, else 0.")
	containerReady = metric.NewDesc("reckon_container_ready", metric.Gauge, metric.None, chargedLabels(),
		"1 while the readiness probe of the container succeeds, else 0. An init container that succeeded has 1.")
	containerUsage = metric.NewDesc("reckon_container_memory_usage_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"All memory charged to the container's control group, including page cache and kernel memory.")
	containerWorking = metric.NewDesc("reckon_container_memory_working_set_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"Memory charged to the container without inactive page cache. kubectl top shows this value, and the kubelet evicts by it.")
	containerPeriods = metric.NewDesc("reckon_container_cpu_periods_total", metric.Counter, metric.None, chargedLabels(),
		"Periods of the CPU limit in which the container ran, since it started.")
	containerThrottled = metric.NewDesc("reckon_container_cpu_throttled_periods_total", metric.Counter, metric.None, chargedLabels(),
		"Periods of the CPU limit in which the container was throttled, since it started.")
)

// podSeries are the series at a sandbox.
type podSeries struct{ info, phase, ready, created *metric.Series }

// cgroupSeries are the series of a control group in the kubelet's terms.
type cgroupSeries struct{ usage, working, periods, throttled *metric.Series }

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// podInfoLabels returns the labels of podInfo in addition to the workload's.
func podInfoLabels(f *workload.ContainerFacts) [10]string {
	return [...]string{f.Namespace, f.Pod, f.UID, f.OwnerKind, f.OwnerName, f.IP, f.HostIP, f.Priority, strconv.FormatBool(f.HostNetwork),
		f.QoS}
}

// isKnownStatus reports whether a condition of a pod is.
func isKnownStatus(status string) bool { return status == "True" || status == "False" }

// exportPod appends the reported facts of a whole pod; was is the state at the last export.
func (p *Part) exportPod(f, was *workload.ContainerFacts, b *metric.Batch) {
	x := &p.container.pod
	n := podInfoLabels(f)
	replaceSeries(&x.info, n == podInfoLabels(was), b, func() *metric.Series { return p.newSeries(podInfo, n[:]...) })
	b.Add(x.info, 1)
	if f.Phase != "" {
		replaceSeries(&x.phase, f.Phase == was.Phase, b, func() *metric.Series { return p.newSeries(podPhase, f.Phase) })
		b.Add(x.phase, 1)
	}
	if isKnownStatus(f.PodReady) {
		b.Add(p.seriesOnce(&x.ready, podReady), boolValue(f.PodReady == "True"))
	}
	if f.Created != 0 {
		b.Add(p.seriesOnce(&x.created, podCreated), float64(f.Created))
	}
}

// replaceSeries ends a series with changed labels and creates its successor.
func replaceSeries(s **metric.Series, same bool, b *metric.Batch, make func() *metric.Series) {
	if *s != nil && !same {
		b.End(*s)
		*s = nil
	}
	if *s == nil {
		*s = make()
	}
}

// exportCgroup appends the counters of a container's control group that no other series of the part has. For an ended
// container, it omits the memory.
func (p *Part) exportCgroup(b *metric.Batch) {
	x, c := &p.container.cgroupSeries, &p.cg
	if p.end == 0 && c.Have&sensor.CgroupMemory != 0 && c.Current > 0 {
		b.Add(p.seriesOnce(&x.usage, containerUsage), float64(c.Current))
		if c.Have&sensor.CgroupInactive != 0 {
			b.Add(p.seriesOnce(&x.working, containerWorking), float64(c.Current-min(c.Current, c.InactiveFile)))
		}
	}
	// Without a limit there are no periods; the kernel writes 0.
	if c.Have&(sensor.CgroupPeriods|sensor.CgroupThrottle) == sensor.CgroupPeriods|sensor.CgroupThrottle && c.Periods > 0 {
		b.Add(p.seriesOnce(&x.periods, containerPeriods), float64(c.Periods))
		b.Add(p.seriesOnce(&x.throttled, containerThrottled), float64(c.ThrottledPeriods))
	}
}
