package compat

import (
	"strings"

	"reckon/metric"
	"reckon/workload"
)

// kepler exports energy like Kepler 0.10 and newer (https://sustainable-computing.io/kepler/,
// docs/user/metrics.md), with two differences. Its processes are our process groups, or whole
// workloads outside containers (with the pid of the leader if there is one), so that the number of
// series does not grow with the number of processes. Modelled energy is in zone psys.
type kepler struct {
	node     string
	t        table
	pods     containers
	commands map[partKey]string
	idle     float64 // idle seconds of all processors, at the last export
	all      float64
}

func keplerDesc(name string, kind metric.Kind, unit metric.Unit, help string, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Kind: kind, Unit: unit, Help: help, Labels: append(labels, "node_name")}
}

func keplerPair(name, level string, labels ...string) [2]*metric.Desc {
	return [2]*metric.Desc{
		keplerDesc("kepler_"+name+"_joules_total", metric.Counter, metric.Joules, "Energy consumption of "+level+" in joules.", labels...),
		keplerDesc("kepler_"+name+"_watts", metric.Gauge, metric.Watts, "Power consumption of "+level+" in watts.", labels...),
	}
}

var (
	keplerNode       = keplerPair("node_cpu", "cpu at node level", "zone", "path")
	keplerNodeActive = keplerPair("node_cpu_active", "cpu in active state at node level", "zone", "path")
	keplerNodeIdle   = keplerPair("node_cpu_idle", "cpu in idle state at node level", "zone", "path")
	keplerContainer  = keplerPair("container_cpu", "cpu at container level", "container_id", "container_name", "runtime", "state", "zone",
		"pod_id")
	keplerPod = keplerPair("pod_cpu", "cpu at pod level", "pod_id", "pod_name", "pod_namespace", "state", "zone")
	keplerVM  = keplerPair("vm_cpu", "cpu at vm level", "vm_id", "vm_name", "hypervisor", "state", "zone")
	// The processor model is unknown here.
	keplerInfo = &metric.Desc{Name: "kepler_node_cpu_info", Kind: metric.Gauge, Help: "CPU information from procfs",
		Labels: []string{"processor", "vendor_id", "model_name", "physical_id", "core_id"}}
	keplerProcess = keplerPair("process_cpu", "cpu at process level", "pid", "comm", "exe", "type", "state", "container_id", "vm_id",
		"zone")
	keplerSeconds = keplerDesc("kepler_process_cpu_seconds_total", metric.Counter, metric.Seconds,
		"Total user and system time of cpu at process level in seconds.", "pid", "comm", "exe", "type", "container_id", "vm_id")
	keplerUsage = keplerDesc("kepler_node_cpu_usage_ratio", metric.Gauge, metric.Ratio,
		"CPU usage ratio of a node (value between 0.0 and 1.0).")
)

func keplerPairs() [][2]*metric.Desc {
	return [][2]*metric.Desc{keplerNode, keplerNodeActive, keplerNodeIdle, keplerContainer, keplerPod, keplerVM, keplerProcess}
}

// Kepler returns the view under Kepler's names.
func Kepler(node string) View {
	k := &kepler{node: node, commands: make(map[partKey]string), t: table{rates: make(map[*metric.Desc]rate)}}
	for _, p := range keplerPairs() {
		k.t.rates[p[0]] = rate{desc: p[1], scale: 1}
	}
	return k
}

// Name implements View.
func (k *kepler) Name() string { return "kepler" }

// Descs implements View.
func (k *kepler) Descs() []*metric.Desc {
	out := []*metric.Desc{keplerSeconds, keplerUsage, keplerInfo}
	for _, p := range keplerPairs() {
		out = append(out, p[:]...)
	}
	return out
}

// keplerZone returns Kepler's zone for the domain of an energy series, or "" if Kepler has no such zone. Modelled energy has
// a separate zone, because the energy in Kepler's zones is always measured.
func keplerZone(s *metric.Series) string {
	domain := label(s, "domain")
	switch domain {
	case "package", "dram", "core", "uncore", "psys", "board":
		if label(s, "method") == "modelled" {
			return "modelled"
		}
	}
	switch domain {
	case "package", "dram", "core", "uncore", "psys":
		return domain
	case "board":
		return "psys" // its most comprehensive zone for processors
	}
	return ""
}

// Append implements View.
func (k *kepler) Append(b *metric.Batch, n int) {
	k.t.beginRound(b.Time)
	k.pods.readNames(b, n)
	var idle, all float64
	for i := range b.Samples[:n] {
		s := b.Samples[i].Series
		if s.Desc.Name == "reckon_workload_info" && !b.Samples[i].Last {
			at := partKey{label(s, "workload"), label(s, "part")}
			if c := label(s, "command"); k.commands[at] != c {
				k.commands[at] = c
			}
		}
	}
	for i := range b.Samples[:n] {
		s, v := b.Samples[i].Series, b.Samples[i].Value
		switch s.Desc.Name {
		case "reckon_node_attributed_energy_joules_total":
			z := keplerZone(s)
			if z == "" {
				continue
			}
			k.t.add(keplerNode[0], v, z, "", k.node)
			if label(s, "share") == "idle" {
				k.t.add(keplerNodeIdle[0], v, z, "", k.node)
			} else {
				k.t.add(keplerNodeActive[0], v, z, "", k.node)
			}
		case "reckon_workload_energy_joules_total":
			if z := keplerZone(s); z != "" {
				k.addEnergy(s, z, v)
			}
		case "reckon_workload_cpu_seconds_total":
			if kind := label(s, "kind"); !isContainerKind(kind) {
				pid, comm := k.leaderOf(s)
				k.t.add(keplerSeconds, v, pid, comm, "", "regular", "", "", k.node)
			}
		case "node_cpu_seconds_total":
			all += v
			if m := label(s, "mode"); m == "idle" || m == "iowait" {
				idle += v
			}
			if label(s, "mode") == "idle" {
				k.t.add(keplerInfo, 1, label(s, "cpu"), "", "", "", "")
			}
		}
	}
	if d := all - k.all; k.all > 0 && d > 0 {
		k.t.add(keplerUsage, min(max(1-(idle-k.idle)/d, 0), 1), k.node)
	}
	k.idle, k.all = idle, all
	k.t.endRound(b)
	if len(k.commands) > 4*n {
		clear(k.commands)
	}
}

// isContainerKind reports whether workloads of a kind are containers.
func isContainerKind(kind string) bool {
	k := workload.Kind(kind)
	return k.Pod() || k.Container()
}

func (k *kepler) addEnergy(s *metric.Series, z string, v float64) {
	kind, part, owner := label(s, "kind"), label(s, "part"), label(s, "owner")
	switch {
	case workload.Kind(kind).Guest():
		_, name, _ := strings.Cut(label(s, "workload"), "/")
		k.t.add(keplerVM[0], v, name, name, "kvm", "running", z, k.node) // the only hypervisor that Kepler supports
	case workload.Kind(kind).Container():
		_, name, _ := strings.Cut(label(s, "workload"), "/")
		k.t.add(keplerContainer[0], v, name, name, "", "running", z, "", k.node)
	case k.pods.find(s) != nil:
		info := k.pods.find(s)
		namespace, pod, uid, container := label(info, "namespace"), label(info, "pod"), label(info, "uid"), label(info, "container")
		if container != "" { // otherwise the sandbox, which is not a container
			k.t.add(keplerContainer[0], v, label(info, "container_id"), container, "", "running", z, uid, k.node)
		}
		k.t.add(keplerPod[0], v, uid, pod, namespace, "running", z, k.node)
	case isContainerKind(kind):
		id, pod, container := podLabels(label(s, "workload"), part)
		k.t.add(keplerContainer[0], v, container, container, "", "running", z, id, k.node)
		k.t.add(keplerPod[0], v, id, pod, owner, "running", z, k.node)
	default:
		pid, comm := k.leaderOf(s)
		k.t.add(keplerProcess[0], v, pid, comm, "", "regular", "running", "", "", z, k.node)
	}
}

// podLabels returns the label values of a pod from a workload id and a part. The part of a known pod is POD/CONTAINER. If
// only the UID of the pod is known, the part is the container.
func podLabels(of, part string) (id, pod, container string) {
	pod, container = workload.InPod(workload.ID(of), part)
	return pod, pod, container
}

// leaderOf returns the pid and command that represent a process: the leader of a group, or the workload.
func (k *kepler) leaderOf(s *metric.Series) (pid, comm string) {
	workload := label(s, "workload")
	comm = k.commands[partKey{workload, label(s, "part")}]
	if comm == "" {
		comm = workload
	}
	if strings.HasPrefix(workload, "group/") {
		last := workload[strings.LastIndexByte(workload, '/')+1:]
		pid, _, _ = strings.Cut(last, "-")
		return pid, comm
	}
	return "", workload
}
