// Package kubernetes recognises the pods of Kubernetes by their control groups.
//
// The kubelet makes a group for each pod, and the container runtime one for each
// container in it (pkg/kubelet/cm of Kubernetes; the runtimes name the last piece):
//
//	/kubepods/burstable/podUID/CID                                      driver cgroupfs, k3s
//	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-CID.scope
//	.../crio-CID.scope, docker-CID.scope, CID                           driver systemd
//	/kubelet.slice/kubelet-kubepods.slice/...-podUID.slice/...          kubelet with cgroupRoot, kind
//	/docker/CID/kubelet/kubepods/besteffort/podUID/CID                  kind: nested in a container
//	/system.slice/containerd.service/kubepods-burstable-podUID.slice:cri-containerd:CID
//	                                                                    containerd without SystemdCgroup
//
// With the driver systemd a UID has underscores for hyphens. Static pods have a hash of
// 32 digits for a UID.
//
// Names come from a [Namer], which may learn them later; until then the workload is
// pod/UID, its owner "kubernetes" (the namespace is not known), and the part is the
// first twelve digits of the container's id.
package kubernetes

import (
	"strings"

	"reckon/internal/cgpath"
	"reckon/workload"
)

// Owner stands for the namespace of a pod until that is known. It must not be the
// user in the container, which differs between the processes of one pod.
const Owner = "kubernetes"

// Name is what the API server knows of a container.
type Name struct {
	Namespace string
	Pod       string
	// ControllerKind and Controller say what the pod is a replica of, at the top:
	// "Deployment", not the ReplicaSet between. Empty for a bare pod.
	ControllerKind, Controller string
	// Container is empty for the sandbox ("pause") of a pod.
	Container string
	Facts     workload.Facts
}

// Namer knows the names of pods. It answers at once, from memory.
type Namer interface {
	// PodName returns the names of a pod and of its container with the given id, which
	// is empty for a process that is in no container; false while they are not known.
	PodName(uid, containerID string) (Name, bool)
}

// Resolver implements [workload.Resolver].
type Resolver struct{ namer Namer }

var _ workload.Resolver = (*Resolver)(nil)

// New returns a resolver; namer may be nil.
func New(namer Namer) *Resolver { return &Resolver{namer} }

// Name implements [workload.Resolver].
func (r *Resolver) Name() string { return "kubernetes" }

// Resolve implements [workload.Resolver].
func (r *Resolver) Resolve(h *workload.Hint) (workload.Identity, bool) {
	if h.Kernel {
		return workload.Identity{}, false
	}
	for _, c := range h.Cgroups {
		if p, ok := find(c.Path); ok {
			return r.identity(&p), true
		}
	}
	return workload.Identity{}, false
}

func (r *Resolver) identity(p *place) workload.Identity {
	id := workload.Identity{
		Workload: workload.MakeID(workload.Pod, p.uid), Part: short(p.container),
		Owner: Owner, Cgroup: p.cgroup,
	}
	if r.namer == nil {
		return id
	}
	n, ok := r.namer.PodName(p.uid, p.container)
	if !ok || n.Namespace == "" || n.Pod == "" {
		return id
	}
	namespace, pod := cgpath.Clean(n.Namespace), cgpath.Clean(n.Pod)
	id.Owner, id.Part, id.Facts = namespace, cgpath.Clean(n.Container), n.Facts
	id.Workload = workload.MakeID(workload.Pod, namespace+"/"+pod)
	if n.ControllerKind != "" && n.Controller != "" {
		kind := workload.Kind(cgpath.Clean(strings.ToLower(n.ControllerKind)))
		id.Workload = workload.MakeID(kind, namespace+"/"+cgpath.Clean(n.Controller))
		if id.Part = pod; n.Container != "" {
			id.Part += "/" + cgpath.Clean(n.Container)
		}
	}
	return id
}

// short cuts an id as the runtimes' commands do.
func short(id string) string {
	if cgpath.Hex(id, 12) {
		return id[:12]
	}
	return cgpath.Clean(id)
}

// place is what a path says.
type place struct{ uid, container, cgroup string }

// find reads a path. Pods within a pod (a cluster in a container of another) are the
// outer pod's.
func find(path string) (p place, ok bool) {
	if !strings.Contains(path, "kubepods") {
		return p, false
	}
	pieces := cgpath.Split(path)
	kubepods := false
	for i, c := range pieces {
		if slice, rest, ok := strings.Cut(c.Name, ":"); ok { // SLICE:RUNTIME:CID in one component
			if uid, ok := sliceUID(slice); ok {
				_, id, _ := strings.Cut(rest, ":")
				return place{uid, id, c.Prefix}, true
			}
		}
		uid, isPod := sliceUID(c.Name)
		if !isPod && kubepods {
			uid, isPod = podUID(c.Name, "pod")
		}
		if isPod {
			p.uid = uid
			if i+1 < len(pieces) {
				p.inside(pieces[i+1])
			}
			return p, true
		}
		kubepods = kubepods || c.Name == "kubepods" || strings.HasSuffix(c.Name, "kubepods.slice")
	}
	return place{}, false
}

// inside reads the component below a pod: a container, or the monitor of one, which is
// the pod's own business.
func (p *place) inside(c cgpath.Piece) {
	name := strings.TrimSuffix(c.Name, ".scope")
	if strings.HasPrefix(name, "crio-conmon-") || strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".slice") || name == "init" {
		return
	}
	for _, runtime := range []string{"cri-containerd-", "crio-", "docker-", "libpod-", "containerd-"} {
		if id, ok := strings.CutPrefix(name, runtime); ok {
			name = id
			break
		}
	}
	p.container, p.cgroup = name, c.Prefix
}

// sliceUID reads "kubepods-burstable-podUID.slice", which may have a prefix.
func sliceUID(name string) (string, bool) {
	name, ok := strings.CutSuffix(name, ".slice")
	if !ok {
		return "", false
	}
	i := strings.LastIndex(name, "-pod")
	if i < 0 {
		return "", false
	}
	class := name[:i]
	class = strings.TrimSuffix(strings.TrimSuffix(class, "-burstable"), "-besteffort")
	if !strings.HasSuffix(class, "kubepods") {
		return "", false
	}
	return podUID(name[i+1:], "pod")
}

// podUID checks that a name is the prefix and a UID: hexadecimal digits in groups.
func podUID(name, prefix string) (string, bool) {
	uid, ok := strings.CutPrefix(name, prefix)
	if !ok || len(uid) < 8 || len(uid) > 64 {
		return "", false
	}
	uid = strings.ReplaceAll(uid, "_", "-")
	return uid, cgpath.Hex(strings.ReplaceAll(uid, "-", ""), 8)
}
