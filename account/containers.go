package account

import (
	"math"
	"slices"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// The state of containers as the kubelet reports it. Times are from the kubelet's clock.
var (
	containerInfo = metric.NewDesc("reckon_container_info", metric.Gauge, metric.None,
		chargedLabels("namespace", "pod", "uid", "container", "type", "image", "container_id", "qos"),
		"Names of a container of a pod, as the kubelet reports them; the value is always 1. The type is main, init, sidecar, ephemeral "+
			"or sandbox.")
	containerRestarts = metric.NewDesc("reckon_container_restarts_total", metric.Counter, metric.None, chargedLabels(),
		"How often the kubelet has restarted the container.")
	containerWaiting = metric.NewDesc("reckon_container_waiting", metric.Gauge, metric.None, chargedLabels("reason"),
		"1 while the container waits to be started, with the kubelet's reason, such as CrashLoopBackOff.")
	containerExit = metric.NewDesc("reckon_container_exit_code", metric.Gauge, metric.None, chargedLabels("reason"),
		"Exit code of the latest end of the container, with the kubelet's reason, such as OOMKilled.")
	containerExitBefore = metric.NewDesc("reckon_container_previous_exit_code", metric.Gauge, metric.None, chargedLabels("reason"),
		"Exit code of the container's last end but one, with the kubelet's reason. Present after the container has ended for good.")
	containerRequestCores = metric.NewDesc("reckon_container_request_cores", metric.Gauge, metric.Cores, chargedLabels(),
		"Cores that the container requests; its workload's are in reckon_workload_request_cores.")
	containerRequestMemory = metric.NewDesc("reckon_container_request_memory_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"Memory that the container requests; its workload's is in reckon_workload_request_memory_bytes.")
	containerLimitCores = metric.NewDesc("reckon_container_limit_cores", metric.Gauge, metric.Cores, chargedLabels(),
		"Cores that the container is limited to; absent where there is no limit.")
	containerLimitMemory = metric.NewDesc("reckon_container_limit_memory_bytes", metric.Gauge, metric.Bytes, chargedLabels(),
		"Memory that the container is limited to; absent where there is no limit.")
)

// containerDevice describes allocated devices; their use is in the series of GPUs, under the same device name.
var containerDevice = metric.NewDesc("reckon_container_device_info", metric.Gauge, metric.None, chargedLabels("resource", "device"),
	"A device that the kubelet allocated to the container, such as a GPU, with the name of the requested resource. The value is "+
		"always 1.")

// sandbox is the type of the container that holds the namespaces of a pod.
const sandbox = "sandbox"

// container is the reported state of a part.
type container struct {
	facts       *workload.ContainerFacts // never nil
	seriesFacts workload.ContainerFacts  // the facts that the series were made from
	// ended is the id of the container with the last examined end, kills the OOM kills that its
	// part had counted until then.
	ended string
	kills uint64

	info, restarts, waiting, exit, exitBefore    *metric.Series
	reqCores, reqMemory, limitCores, limitMemory *metric.Series
	running, ready                               *metric.Series
	devices                                      []*metric.Series // of the reported devices
	cgroupSeries
	pod podSeries
}

// readReports reads the current state of the containers. A state that is no longer reported is kept.
func (r *registry) readReports() {
	if r.config.Container == nil {
		return
	}
	for _, p := range r.order {
		if p.place == "" || p.rejectsCharges() {
			continue
		}
		if f := r.config.Container(p.place, p.end != 0); f != nil {
			if p.container == nil {
				p.container = new(container)
			}
			p.container.facts = f
			p.countReportedKill(f)
		}
	}
}

// oomKilled is the kubelet's reason for a container killed for lack of memory.
const oomKilled = "OOMKilled"

// countReportedKill counts an OOM kill that only the kubelet reported. Without exit records, the control group of a
// container that is killed early is removed before it can be read again.
func (p *Part) countReportedKill(f *workload.ContainerFacts) {
	c := p.container
	if !f.Ended || f.EndedID != f.ID || f.EndedID == c.ended {
		return
	}
	if f.Reason == oomKilled && p.oomKills() == c.kills {
		p.oomSeen++
		p.past[cgOOMKills]++
	}
	c.ended, c.kills = f.EndedID, p.oomKills()
}

// exportContainer appends to b the reported state of a container and the counters of its control group that no other
// series of the part has.
func (p *Part) exportContainer(b *metric.Batch) {
	c := p.container
	if c == nil {
		return
	}
	f, devices := c.facts, c.seriesFacts.Devices
	p.exportReport(b)
	p.exportCgroup(b)
	if f.Name == "" {
		return
	}
	p.exportDevices(devices, b)
	for _, x := range [...]struct {
		row  **metric.Series
		desc *metric.Desc
		v    float64
	}{
		{&c.reqCores, containerRequestCores, f.Request.Cores}, {&c.reqMemory, containerRequestMemory, f.Request.MemoryBytes},
		{&c.limitCores, containerLimitCores, f.Limit.Cores}, {&c.limitMemory, containerLimitMemory, f.Limit.MemoryBytes},
	} {
		if x.v > 0 {
			b.Add(p.seriesOnce(x.row, x.desc), x.v)
		}
	}
}

// exportReport appends the reported state of a container and, for a sandbox, of its pod.
func (p *Part) exportReport(b *metric.Batch) {
	c := p.container
	f, was := c.facts, c.seriesFacts
	c.seriesFacts = *f
	replace := func(s **metric.Series, same bool, make func() *metric.Series) { replaceSeries(s, same, b, make) }
	names := func(f *workload.ContainerFacts) [8]string {
		return [...]string{f.Namespace, f.Pod, f.UID, f.Name, f.Type, f.Image, f.ID, f.QoS}
	}
	n := names(f)
	replace(&c.info, n == names(&was), func() *metric.Series { return p.newSeries(containerInfo, n[:]...) })
	b.Add(c.info, 1)
	if f.Name == "" {
		if f.Type == sandbox { // otherwise a container that is not reported yet
			p.exportPod(f, &was, b)
		}
		return
	}
	b.Add(p.seriesOnce(&c.running, containerRunning), boolValue(f.Running))
	b.Add(p.seriesOnce(&c.ready, containerReady), boolValue(f.Ready))
	b.Add(p.seriesOnce(&c.restarts, containerRestarts), float64(f.Restarts))
	if f.Waiting != "" {
		replace(&c.waiting, f.Waiting == was.Waiting, func() *metric.Series { return p.newSeries(containerWaiting, f.Waiting) })
		b.Add(c.waiting, 1)
	} else if c.waiting != nil {
		b.End(c.waiting)
		c.waiting = nil
	}
	if f.Ended {
		replace(&c.exit, f.Reason == was.Reason, func() *metric.Series { return p.newSeries(containerExit, f.Reason) })
		b.Add(c.exit, float64(f.ExitCode))
	}
	if f.BeforeReason != "" {
		replace(&c.exitBefore, f.BeforeReason == was.BeforeReason,
			func() *metric.Series { return p.newSeries(containerExitBefore, f.BeforeReason) })
		b.Add(c.exitBefore, float64(f.BeforeExitCode))
	} else if c.exitBefore != nil {
		b.End(c.exitBefore)
		c.exitBefore = nil
	}
}

// exportDevices appends the devices allocated to the container. was holds the devices of the last export.
func (p *Part) exportDevices(was []workload.Device, b *metric.Batch) {
	c := p.container
	if !slices.Equal(was, c.seriesFacts.Devices) {
		for _, s := range c.devices {
			b.End(s)
		}
		c.devices = nil
	}
	if c.devices == nil {
		for _, d := range c.seriesFacts.Devices {
			c.devices = append(c.devices, p.newSeries(containerDevice, d.Resource, d.ID))
		}
	}
	for _, s := range c.devices {
		b.Add(s, 1)
	}
}

// podSum is the sum over the pods of a workload for one export.
type podSum struct {
	export         uint64
	request, limit workload.Amounts
	completes      bool
}

// resourceBounds holds the requests and limits of a workload on this node. For pods they come from the kubelet's report, for
// other workloads from the control group.
type resourceBounds struct {
	request workload.Amounts
	limit   workload.Amounts // maximum so far
	free    workload.Amounts // not 0: a pod has no limit
	asked   bool             // the pods of the workload have been reported

	reqCores, reqMemory, reqGPUs *metric.Series
	limitCores, limitMemory      *metric.Series
}

// sumPodBounds sums the requests and limits of each workload over its running pods. It keeps the current requests of a
// service and the highest requests of a workload that completes. For limits it keeps the highest values, because they
// bound the peak use.
func (r *registry) sumPodBounds() {
	seen := map[string]bool{}
	for _, ended := range [...]bool{false, true} { // a pod runs as long as one of its containers does
		for _, p := range r.order {
			if p.container == nil || p.rejectsCharges() || p.end != 0 != ended || seen[p.run] {
				continue
			}
			seen[p.run] = true
			p.group.addPod(p.container.facts, ended, r.exports)
		}
	}
	for _, g := range r.groups {
		x := &g.resourceBounds
		if !x.asked || g.sum.export != r.exports {
			continue
		}
		if x.limit = maxAmounts(x.limit, g.sum.limit); g.sum.completes || g.sum.request == (workload.Amounts{}) {
			g.sum.request = maxAmounts(x.request, g.sum.request)
		}
		x.request = g.sum.request
	}
}

// addPod adds the requests and limits of a pod to the sums for an export.
func (g *group) addPod(f *workload.ContainerFacts, ended bool, export uint64) {
	x := &g.resourceBounds
	if g.sum.export != export {
		g.sum = podSum{export: export}
	}
	g.sum.completes = g.sum.completes || f.Completes
	x.asked = true
	if f.PodLimit.Cores == 0 {
		x.free.Cores = 1
	}
	if f.PodLimit.MemoryBytes == 0 {
		x.free.MemoryBytes = 1
	}
	if ended && x.request != (workload.Amounts{}) {
		return // it was counted while it ran
	}
	g.sum.request, g.sum.limit = addAmounts(g.sum.request, f.PodRequest), addAmounts(g.sum.limit, f.PodLimit)
}

func addAmounts(a, b workload.Amounts) workload.Amounts {
	return workload.Amounts{Cores: a.Cores + b.Cores, MemoryBytes: a.MemoryBytes + b.MemoryBytes, GPUs: a.GPUs + b.GPUs}
}

func maxAmounts(a, b workload.Amounts) workload.Amounts {
	return workload.Amounts{Cores: max(a.Cores, b.Cores), MemoryBytes: max(a.MemoryBytes, b.MemoryBytes), GPUs: max(a.GPUs, b.GPUs)}
}

// hardLimits returns the hard limits of the workload on this node, 0 for no limit. They come from its pods, from the
// control group of the whole workload, or from the control group of its only part. p is the leading part.
func (g *group) hardLimits(p *Part) (l workload.Amounts) {
	x := &g.resourceBounds
	switch {
	case x.asked:
		if l = x.limit; x.free.Cores != 0 {
			l.Cores = 0
		}
		if x.free.MemoryBytes != 0 {
			l.MemoryBytes = 0
		}
		return l
	case g.whole != nil && g.whole.cg.Have&(sensor.CgroupMemoryMax|sensor.CgroupCPUMax) != 0:
		return cgroupLimits(&g.whole.cg)
	case p.part == "" && g.parts == 1:
		return cgroupLimits(&p.cg)
	}
	return l
}

// cgroupLimits returns the limits of a control group.
func cgroupLimits(c *sensor.Cgroup) (l workload.Amounts) {
	if c.Have&sensor.CgroupCPUMax != 0 {
		l.Cores = c.CPUMax
	}
	if c.Have&sensor.CgroupMemoryMax != 0 {
		l.MemoryBytes = float64(c.MemoryMax)
	}
	return l
}

// exportBounds appends the requests and limits of the workload. p is the leading part of the workload.
func (g *group) exportBounds(p *Part, b *metric.Batch) {
	x := &g.resourceBounds
	add := func(s **metric.Series, d *metric.Desc, v float64) {
		if v <= 0 || math.IsInf(v, 0) {
			return
		}
		if *s == nil {
			*s = metric.NewSeries(d, string(p.id), string(p.kind), "", p.owner)
		}
		b.Add(*s, v)
	}
	if x.asked {
		add(&x.reqCores, requestCores, x.request.Cores)
		add(&x.reqMemory, requestMemory, x.request.MemoryBytes)
		add(&x.reqGPUs, requestGPUs, x.request.GPUs)
	}
	l := g.hardLimits(p)
	add(&x.limitCores, limitCores, l.Cores)
	add(&x.limitMemory, limitMemory, l.MemoryBytes)
}
