package compat

import (
	"slices"
	"strings"

	"reckon/metric"
	"reckon/workload"
)

// kube exports the kubelet's facts about its pods under the names of kube-state-metrics
// (https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/pod-metrics.md),
// which dashboards and recording rules join with usage. Each agent exports the pods of its node;
// unscheduled pods are in none. Facts known only to the API server (labels of other objects,
// desired replicas) are absent.
type kube struct {
	node string
	t    table
	pods containers
	// owners caches the owner of a pod, by series.
	owners map[*metric.Series]owner
	// alive are the containers that run or wait in this round: their exit is a previous one.
	alive map[partKey]bool
}

func kubeDesc(name, help string, labels ...string) *metric.Desc {
	kind := metric.Gauge
	if strings.HasSuffix(name, "_total") {
		kind = metric.Counter
	}
	return &metric.Desc{Name: "kube_" + name, Kind: kind, Help: help, Labels: labels}
}

func kubePodDesc(name, help string, more ...string) *metric.Desc {
	return kubeDesc("pod_"+name, help, append([]string{"namespace", "pod", "uid"}, more...)...)
}

var (
	kubeInfo = kubePodDesc("info", "Information about pod.", "host_ip", "pod_ip", "node", "created_by_kind", "created_by_name",
		"priority_class", "host_network")
	kubeOwner    = kubePodDesc("owner", "Information about the Pod's owner.", "owner_kind", "owner_name", "owner_is_controller")
	kubePhase    = kubePodDesc("status_phase", "The pods current phase.", "phase")
	kubeQoS      = kubePodDesc("status_qos_class", "The pods current qosClass.", "qos_class")
	kubeReady    = kubePodDesc("status_ready", "Describes whether the pod is ready to serve requests.", "condition")
	kubeCreated  = kubePodDesc("created", "Unix creation timestamp")
	kubeReplicas = kubeDesc("replicaset_owner", "Information about the ReplicaSet's owner.", "namespace", "replicaset", "owner_kind",
		"owner_name", "owner_is_controller")
	kubeJob = kubeDesc("job_owner", "Information about the Job's owner.", "namespace", "job_name", "owner_kind", "owner_name",
		"owner_is_controller")
)

// kubeContainers holds the container series. Init containers have their own set with init_ in the names.
type kubeContainers struct {
	info, restarts, ready, waiting, waitingReason, running, terminated, termReason, lastTermReason, lastExit, requests, limits *metric.Desc
}

func newKubeContainers(prefix, article, noun string) kubeContainers {
	desc := func(name, help string, more ...string) *metric.Desc {
		return kubePodDesc(prefix+name, strings.NewReplacer("a container", article, "container", noun).Replace(help),
			append([]string{"container"}, more...)...)
	}
	return kubeContainers{
		info:           desc("info", "Information about a container in a pod.", "image", "container_id"),
		restarts:       desc("status_restarts_total", "The number of container restarts per container."),
		ready:          desc("status_ready", "Describes whether the containers readiness check succeeded."),
		waiting:        desc("status_waiting", "Describes whether the container is currently in waiting state."),
		waitingReason:  desc("status_waiting_reason", "Describes the reason the container is currently in waiting state.", "reason"),
		running:        desc("status_running", "Describes whether the container is currently in running state."),
		terminated:     desc("status_terminated", "Describes whether the container is currently in terminated state."),
		termReason:     desc("status_terminated_reason", "Describes the reason the container is currently in terminated state.", "reason"),
		lastTermReason: desc("status_last_terminated_reason", "Describes the last reason the container was in terminated state.", "reason"),
		lastExit:       desc("status_last_terminated_exitcode", "Describes the exit code for the last container in terminated state."),
		requests:       desc("resource_requests", "The number of requested request resource by a container.", "node", "resource", "unit"),
		limits:         desc("resource_limits", "The number of requested limit resource by a container.", "node", "resource", "unit"),
	}
}

func (c *kubeContainers) descs() []*metric.Desc {
	return []*metric.Desc{c.info, c.restarts, c.ready, c.waiting, c.waitingReason, c.running, c.terminated, c.termReason, c.lastTermReason,
		c.lastExit, c.requests, c.limits}
}

var (
	kubeMain = newKubeContainers("container_", "a container", "container")
	kubeInit = newKubeContainers("init_container_", "an init container", "init container")
)

// podPhases are the phases of a pod (core/v1 PodPhase).
var podPhases = [...]string{"Pending", "Succeeded", "Failed", "Unknown", "Running"}

// Kube returns the view under the names of kube-state-metrics.
func Kube(node string) View {
	return &kube{node: node, owners: map[*metric.Series]owner{}, alive: map[partKey]bool{}}
}

// KubeName is the name of the view of kube-state-metrics.
const KubeName = "kube"

// Name implements View.
func (k *kube) Name() string { return KubeName }

// Descs implements View.
func (k *kube) Descs() []*metric.Desc {
	return slices.Concat([]*metric.Desc{kubeInfo, kubeOwner, kubePhase, kubeReady, kubeQoS, kubeCreated, kubeReplicas, kubeJob},
		kubeMain.descs(), kubeInit.descs())
}

// Append implements View.
func (k *kube) Append(b *metric.Batch, n int) {
	k.t.beginRound(b.Time)
	k.pods.readNames(b, n)
	clear(k.alive)
	for i := range b.Samples[:n] {
		s, v := b.Samples[i].Series, b.Samples[i].Value
		switch {
		case b.Samples[i].Last:
		case strings.HasPrefix(s.Desc.Name, "reckon_pod_"):
			k.addPod(s, v)
		case s.Desc.Name == "reckon_container_waiting", s.Desc.Name == "reckon_container_running" && v == 1:
			k.alive[partOf(s)] = true
		}
	}
	for i := range b.Samples[:n] {
		if s := b.Samples[i].Series; !b.Samples[i].Last && strings.HasPrefix(s.Desc.Name, "reckon_container_") {
			k.addContainer(s, b.Samples[i].Value)
		}
	}
	k.t.endRound(b)
	if len(k.owners) > 4*len(k.pods.info)+16 {
		clear(k.owners)
	}
}

// owner is the owner of a pod, and the owner's owner if the name implies it.
type owner struct {
	kind, name           string
	aboveKind, aboveName string
}

// podOwner returns the controller of a pod. If the owner of the controller is known as well, that is the workload of the pod.
func (k *kube) podOwner(s *metric.Series) owner {
	if o, ok := k.owners[s]; ok {
		return o
	}
	o := owner{kind: label(s, "owner_kind"), name: label(s, "owner_name")}
	_, name, _ := strings.Cut(label(s, "workload"), "/")
	_, name, _ = strings.Cut(name, "/")
	if object, through := workload.Kind(label(s, "kind")).Controller(); through != "" && through == o.kind {
		o.aboveKind, o.aboveName = object, name
	}
	k.owners[s] = o
	return o
}

// addPod adds one of our samples about a whole pod.
func (k *kube) addPod(s *metric.Series, v float64) {
	info := k.pods.find(s)
	if info == nil {
		return
	}
	ns, pod, uid := label(info, "namespace"), label(info, "pod"), label(info, "uid")
	switch s.Desc.Name {
	case "reckon_pod_info":
		o := k.podOwner(s)
		kind, name, controlled := o.kind, o.name, "true"
		switch {
		case kind == "Node":
			name = k.node // of a static pod
		case kind == "": // as in the original
			kind, name, controlled = noValue, noValue, noValue
		}
		k.t.add(kubeInfo, 1, ns, pod, uid, label(s, "host_ip"), label(s, "ip"), k.node, kind, name, label(s,
			"priority_class"), label(s, "host_network"))
		k.t.add(kubeOwner, 1, ns, pod, uid, kind, name, controlled)
		if qos := label(s, "qos"); qos != "" {
			k.t.add(kubeQoS, 1, ns, pod, uid, qos)
		}
		switch {
		case o.aboveKind == "":
		case o.kind == "ReplicaSet":
			k.setOne(kubeReplicas, ns, o.name, o.aboveKind, o.aboveName, "true")
		case o.kind == "Job":
			k.setOne(kubeJob, ns, o.name, o.aboveKind, o.aboveName, "true")
		}
	case "reckon_pod_phase":
		for _, p := range podPhases {
			is := 0.0
			if p == label(s, "phase") {
				is = 1
			}
			k.t.add(kubePhase, is, ns, pod, uid, p)
		}
	case "reckon_pod_ready":
		for _, c := range [...]struct {
			is string
			v  float64
		}{{"true", v}, {"false", 1 - v}, {"unknown", 0}} {
			k.t.add(kubeReady, c.v, ns, pod, uid, c.is)
		}
	case "reckon_pod_created_time_seconds":
		k.t.add(kubeCreated, v, ns, pod, uid)
	}
}

// noValue represents an absent value, as in kube-state-metrics.
const noValue = "<none>"

// setOne sets to 1 a sample that several pods share.
func (k *kube) setOne(d *metric.Desc, labels ...string) { k.t.set(d, 1, labels...) }

// addContainer adds one of our samples about a container.
func (k *kube) addContainer(s *metric.Series, v float64) {
	info := k.pods.find(s)
	if info == nil || isSandbox(info) {
		return
	}
	ns, pod, uid, name := label(info, "namespace"), label(info, "pod"), label(info, "uid"), label(info, "container")
	d := &kubeMain
	if kind := label(info, "type"); kind == "init" || kind == "sidecar" {
		d = &kubeInit
	}
	switch s.Desc.Name {
	case "reckon_container_info":
		k.t.add(d.info, 1, ns, pod, uid, name, label(info, "image"), label(info, "container_id"))
	case "reckon_container_restarts_total":
		k.t.add(d.restarts, v, ns, pod, uid, name)
	case "reckon_container_running":
		k.t.add(d.running, v, ns, pod, uid, name)
	case "reckon_container_ready":
		k.t.add(d.ready, v, ns, pod, uid, name)
	case "reckon_container_waiting":
		k.t.add(d.waiting, v, ns, pod, uid, name)
		k.t.add(d.waitingReason, v, ns, pod, uid, name, label(s, "reason"))
	case "reckon_container_exit_code":
		k.addExit(d, s, v, ns, pod, uid, name)
	case "reckon_container_previous_exit_code":
		k.addLastEnd(d, v, ns, pod, uid, name, label(s, "reason"))
	case "reckon_container_request_cores":
		k.t.add(d.requests, v, ns, pod, uid, name, k.node, "cpu", "core")
	case "reckon_container_request_memory_bytes":
		k.t.add(d.requests, v, ns, pod, uid, name, k.node, "memory", "byte")
	case "reckon_container_limit_cores":
		k.t.add(d.limits, v, ns, pod, uid, name, k.node, "cpu", "core")
	case "reckon_container_limit_memory_bytes":
		k.t.add(d.limits, v, ns, pod, uid, name, k.node, "memory", "byte")
	}
}

// addExit adds the exit of a container. That is the current exit, or the one before the last restart.
func (k *kube) addExit(d *kubeContainers, s *metric.Series, code float64, ns, pod, uid, name string) {
	if k.alive[partOf(s)] {
		k.addLastEnd(d, code, ns, pod, uid, name, label(s, "reason"))
		return
	}
	k.t.add(d.terminated, 1, ns, pod, uid, name)
	k.t.add(d.termReason, 1, ns, pod, uid, name, label(s, "reason"))
}

// addLastEnd shows the last end of a container that was restarted since.
func (k *kube) addLastEnd(d *kubeContainers, code float64, ns, pod, uid, name, reason string) {
	k.t.add(d.lastTermReason, 1, ns, pod, uid, name, reason)
	k.t.add(d.lastExit, code, ns, pod, uid, name)
}
