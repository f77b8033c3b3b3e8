package agent

import (
	"path"
	"strings"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

var podGroupLabels = []string{"workload", "kind", "part", "owner"}

func podGroupDesc(name string, kind metric.Kind, unit metric.Unit, help string, labels ...string) *metric.Desc {
	return metric.NewDesc("reckon_pod_"+name, kind, unit, append(podGroupLabels[:len(podGroupLabels):len(podGroupLabels)], labels...),
		help+"; of the control group of the whole pod, shown on /metrics with the view cadvisor.")
}

// The control group of a pod includes its containers' groups and ended containers.
var (
	podCPU = podGroupDesc("cpu_seconds_total", metric.Counter, metric.Seconds, "CPU time by mode (user, system)", "mode")
	podMem = podGroupDesc("memory_bytes", metric.Gauge, metric.Bytes,
		"Memory by type (anon, file with shared memory, swap), and as the kubelet counts it (usage, working_set)", "type")
	podPeak = podGroupDesc("memory_peak_bytes", metric.Gauge, metric.Bytes, "Highest memory with page cache")
	podIO   = podGroupDesc("io_bytes_total", metric.Counter, metric.Bytes, "Bytes read and written (direction read, write)", "direction")
	podProc = podGroupDesc("processes", metric.Gauge, metric.None, "Processes and threads that the pids controller counts")
)

// podCgroups reads the control groups of pods, for the view that shows them.
type podCgroups struct {
	series metric.Cache
	open   map[string]*podCgroup // by reported UID
	round  uint64
}

type podCgroup struct {
	handle sensor.CgroupHandle
	cg     sensor.Cgroup
	round  uint64
}

// exportPodGroups appends the figures of each pod's control group, if it can be found and read.
func (a *Agent) exportPodGroups(b *metric.Batch) {
	g := &a.podGroups
	g.round++
	a.ledger.Runs(func(id workload.ID, part, owner string, f *workload.ContainerFacts, pid int32) {
		p := g.open[f.UID]
		if p == nil {
			if p = a.openPodGroup(pid); p == nil {
				return
			}
			if g.open == nil {
				g.open = map[string]*podCgroup{}
			}
			g.open[f.UID] = p
		}
		if p.handle.Read(&p.cg) != nil {
			return // it was removed
		}
		p.round = g.round
		p.export(b, func(d *metric.Desc, more ...string) *metric.Series {
			return g.series.Get(d, append([]string{string(id), string(id.Kind()), part, owner}, more...)...)
		})
	})
	for uid, p := range g.open {
		if p.round != g.round {
			_ = p.handle.Close() // nothing is written through it
			delete(g.open, uid)
		}
	}
	g.series.Sweep()
}

// openPodGroup opens the control group of the pod that a process belongs to. It recognises the kubelet's names for both
// cgroup drivers: pod<UID> and kubepods-<class>-pod<UID>.slice.
func (a *Agent) openPodGroup(pid int32) *podCgroup {
	paths, err := a.look.Cgroups(pid)
	if err != nil {
		return nil
	}
	var above []sensor.CgroupPath
	for _, c := range paths {
		for dir := c.Path; dir != "/" && dir != "."; dir = path.Dir(dir) {
			if name := path.Base(dir); strings.HasPrefix(name, "pod") || strings.HasPrefix(name, "kubepods") &&
				strings.Contains(name, "-pod") {
				above = append(above, sensor.CgroupPath{Controllers: c.Controllers, Path: dir})
				break
			}
		}
	}
	if len(above) == 0 {
		return nil
	}
	handle, err := a.cgroups.Open(above)
	if err != nil {
		return nil
	}
	return &podCgroup{handle: handle}
}

func (p *podCgroup) export(b *metric.Batch, row func(*metric.Desc, ...string) *metric.Series) {
	c := &p.cg
	if c.Have&sensor.CgroupCPU != 0 {
		system := uint64(0)
		if split := c.UserNanos + c.SystemNanos; c.Have&sensor.CgroupCPUSplit != 0 && split > 0 {
			system = uint64(float64(c.UsageNanos) * (float64(c.SystemNanos) / float64(split)))
		}
		b.Add(row(podCPU, "user"), float64(c.UsageNanos-system)/1e9)
		b.Add(row(podCPU, "system"), float64(system)/1e9)
	}
	if c.Have&sensor.CgroupMemory != 0 {
		b.Add(row(podMem, "anon"), float64(c.Anon))
		file := c.File
		if c.Have&sensor.CgroupShmem != 0 {
			file += c.Shmem
		}
		b.Add(row(podMem, "file"), float64(file))
		b.Add(row(podMem, "usage"), float64(c.Current))
		if c.Have&sensor.CgroupInactive != 0 {
			b.Add(row(podMem, "working_set"), float64(c.Current-min(c.Current, c.InactiveFile)))
		}
	}
	if c.Have&sensor.CgroupSwap != 0 {
		b.Add(row(podMem, "swap"), float64(c.Swap))
	}
	if c.Have&sensor.CgroupPeak != 0 {
		b.Add(row(podPeak), float64(c.Peak))
	}
	if c.Have&sensor.CgroupIO != 0 {
		b.Add(row(podIO, "read"), float64(c.ReadBytes))
		b.Add(row(podIO, "write"), float64(c.WriteBytes))
	}
	if c.Have&sensor.CgroupPIDs != 0 {
		b.Add(row(podProc), float64(c.PIDs))
	}
}
