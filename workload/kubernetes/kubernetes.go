// Package kubernetes recognises the pods of Kubernetes by their control groups.
//
// The kubelet makes a group for each pod, and the container runtime one for each container in it (pkg/kubelet/cm of
// Kubernetes; the runtimes name the last piece):
//
//	/kubepods/burstable/parsePodUID/CID                                      driver cgroupfs, k3s
//	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-parsePodUID.slice/cri-containerd-CID.scope
//	.../crio-CID.scope, docker-CID.scope, CID                           driver systemd
//	/kubelet.slice/kubelet-kubepods.slice/...-parsePodUID.slice/...          kubelet with cgroupRoot, kind
//	/docker/CID/kubelet/kubepods/besteffort/parsePodUID/CID                  kind: nested in a container
//	/system.slice/containerd.service/kubepods-burstable-parsePodUID.slice:cri-containerd:CID
//	                                                                    containerd without SystemdCgroup
//	/kubepods/burstable/parsePodUID/kata_SANDBOX, /kata_overhead/SANDBOX     Kata Containers: the virtual machine, and its shim
//
// With the driver systemd a UID has underscores for hyphens. Static pods have a hash of 32 digits for a UID.
//
// Names come from [Pods], the kubelet's list; until it has a pod the workload is pod/UID, its owner "kubernetes" (the
// namespace is not known), and the part is the first twelve digits of the container's id. Such an identity is
// provisional, and [Resolver.Rename] returns the better one once it is known.
package kubernetes

import (
	"strings"

	"reckon/internal/cgpath"
	"reckon/internal/kubelet"
	"reckon/workload"
)

// unknownOwner is the owner of a pod with a namespace that is not known yet. The user of the process cannot be used,
// because it differs between the processes of a pod.
const unknownOwner = "kubernetes"

// Pods returns pods of this node from memory, without waiting for the kubelet.
type Pods interface {
	// Pod returns the pod with the UID in its control groups, nil while it is not known.
	Pod(uid string) *kubelet.Pod
	// Refresh means that something is expected of the list soon; why is any text that names it.
	Refresh(why string)
}

// Options configures the sources of the resolver.
type Options struct {
	// Pods is nil if pods are unknown.
	Pods Pods
	// Account are labels of pods; the first that a pod has names the account it is charged to.
	Account []string
}

// Resolver implements [workload.Resolver].
type Resolver struct {
	Options
	sandboxes map[string]string // UID of the pod of a sandbox of Kata Containers, by the id of the sandbox
}

var _ workload.Resolver = (*Resolver)(nil)

// New returns a resolver.
func New(o Options) *Resolver { return &Resolver{o, make(map[string]string)} }

// Name implements [workload.Resolver].
func (r *Resolver) Name() string { return "kubernetes" }

// Resolve implements [workload.Resolver].
func (r *Resolver) Resolve(h *workload.Hint) (workload.Identity, bool) {
	if h.Kernel {
		return workload.Identity{}, false
	}
	for _, c := range h.Cgroups {
		if p, ok := findPod(c.Path); ok {
			r.addSandbox(&p)
			return r.identityAt(&p, h.Comm), true
		}
	}
	return workload.Identity{}, false
}

// kataOverhead is the control group of Kata Containers for processes of a sandbox outside its virtual machine. It is
// used in place of the pod's UID until that is known.
const kataOverhead = "kata_overhead"

// maxSandboxes limits the number of remembered sandboxes. A node has a few hundred pods.
const maxSandboxes = 4096

// addSandbox remembers which pod a sandbox belongs to.
func (r *Resolver) addSandbox(p *cgroupPlace) {
	if p.sandbox != "" && p.uid != kataOverhead {
		if len(r.sandboxes) >= maxSandboxes {
			clear(r.sandboxes)
		}
		r.sandboxes[p.sandbox] = p.uid
	}
}

// sandboxProgram is the program that holds the namespaces of a pod.
const sandboxProgram = "pause"

// Rename returns the identity of a place in which a program runs. It uses the names that are known at present and does
// not read control groups.
func (r *Resolver) Rename(place, program string) workload.Identity {
	uid, container, _ := strings.Cut(place, "/")
	if uid == kataOverhead {
		return r.identityAt(&cgroupPlace{uid: uid, sandbox: container}, program)
	}
	return r.identityAt(&cgroupPlace{uid: uid, container: container}, program)
}

func (r *Resolver) identityAt(p *cgroupPlace, program string) workload.Identity {
	if p.uid == kataOverhead {
		uid := r.sandboxes[p.sandbox]
		if uid == "" { // its virtual machine starts later
			return workload.Identity{Workload: workload.MakeID(workload.Pod, kataOverhead+"-"+shortID(p.sandbox)), Owner: unknownOwner,
				Place: p.uid + "/" + p.sandbox, Naming: workload.Unnamed}
		}
		p = &cgroupPlace{uid: uid}
	}
	id := workload.Identity{
		Workload: workload.MakeID(workload.Pod, p.uid), Part: shortID(p.container), Owner: unknownOwner,
		Place: p.uid + "/" + p.container, Run: p.uid, Cgroup: p.cgroup, Whole: p.pod,
	}
	if r.Pods == nil {
		return id
	}
	pod := r.Pods.Pod(p.uid)
	if pod == nil || pod.Namespace == "" || pod.Name == "" {
		id.Naming = workload.Unnamed
		return id
	}
	r.fillPod(&id, pod)
	name := shortID(p.container)
	switch c := pod.Container(p.container); {
	case c != nil:
		name = cgpath.Clean(c.Name)
	case p.container == "" || program == sandboxProgram && pod.Started():
		return id // a process of the pod in no container, or the sandbox
	case program == sandboxProgram: // most likely; a container may run a program of that name
		id.Naming = workload.HalfNamed
		return id
	case len(pod.Containers) == 1 && program != "" && !workload.RuntimeStage(program):
		name = cgpath.Clean(pod.Containers[0].Name) // there is no other
	default:
		id.Naming = workload.HalfNamed
		r.Pods.Refresh(id.Place)
	}
	id.Part = containerPart(id.Part, name)
	return id
}

// containerPart returns the name of the part for a container of a pod.
func containerPart(pod, container string) string { return strings.TrimPrefix(pod+"/"+container, "/") }

// Pod is the record of a pod.
type Pod = kubelet.Pod

// IdentityOf returns the identity of a whole pod from the names, labels, owner and times in its record.
func IdentityOf(p *Pod) (id workload.Identity) {
	new(Resolver).fillPod(&id, p)
	return id
}

// fillPod fills in the names of a pod, and its part as the part of the whole pod.
func (r *Resolver) fillPod(id *workload.Identity, pod *kubelet.Pod) {
	owner, namespace := findOwner(pod), cgpath.Clean(pod.Namespace)
	id.Owner = namespace
	id.Workload = workload.MakeID(workload.Kind(cgpath.Clean(owner.Kind)), namespace+"/"+cgpath.Clean(owner.Name))
	id.Facts = workload.Facts{
		Name: namespace + "/" + cgpath.Clean(owner.Name), Account: cleanOrEmpty(accountLabel(pod, r.Account)),
		Partition: cleanOrEmpty(pod.Labels[queueLabel]),
		Run:       cleanOrEmpty(runID(pod, owner)),
	}
	id.Part = ""
	if bare := owner == (Owner{"pod", pod.Name}); !bare {
		id.Part, id.Whole = cgpath.Clean(pod.Name), ""
	}
}

// cleanOrEmpty is like cgpath.Clean but accepts an empty name.
func cleanOrEmpty(s string) string {
	if s == "" {
		return ""
	}
	return cgpath.Clean(s)
}

// shortID cuts an id as the runtimes' commands do.
func shortID(id string) string {
	if cgpath.Hex(id, 12) {
		return id[:12]
	}
	return cgpath.Clean(id)
}

// cgroupPlace holds the pod and container that a control group path names, with their control groups.
type cgroupPlace struct{ uid, container, cgroup, pod, sandbox string }

// findPod finds the pod in a control group path. A pod within a pod (a cluster in a container) counts as the outer pod.
func findPod(path string) (p cgroupPlace, ok bool) {
	if _, overhead, ok := strings.Cut(path, "/"+kataOverhead+"/"); ok && overhead != "" {
		overhead, _, _ = strings.Cut(overhead, "/")
		return cgroupPlace{uid: kataOverhead, sandbox: strings.TrimSuffix(overhead, ".scope")}, true
	}
	if !strings.Contains(path, "kubepods") {
		return p, false
	}
	pieces := cgpath.Split(path)
	kubepods := false
	for i, c := range pieces {
		if slice, rest, ok := strings.Cut(c.Name, ":"); ok { // SLICE:RUNTIME:CID in one component
			if uid, ok := parseSliceUID(slice); ok {
				_, id, _ := strings.Cut(rest, ":")
				return cgroupPlace{uid: uid, container: id, cgroup: c.Prefix}, true
			}
		}
		uid, isPod := parseSliceUID(c.Name)
		if !isPod && kubepods {
			uid, isPod = parsePodUID(c.Name, "pod")
		}
		if isPod {
			p.uid, p.pod = uid, c.Prefix
			if i+1 < len(pieces) {
				p.parseComponent(pieces[i+1])
			}
			return p, true
		}
		kubepods = kubepods || c.Name == "kubepods" || strings.HasSuffix(c.Name, "kubepods.slice")
	}
	return cgroupPlace{}, false
}

// parseComponent parses the component below a pod: a container, or a container monitor, which counts as the pod itself.
func (p *cgroupPlace) parseComponent(c cgpath.Piece) {
	name := strings.TrimSuffix(c.Name, ".scope")
	if sandbox, ok := strings.CutPrefix(name, "kata_"); ok { // a virtual machine with all containers of the pod
		p.sandbox = sandbox
		return
	}
	if strings.HasPrefix(name, "crio-conmon-") || strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".slice") ||
		name == "init" {
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

// parseSliceUID reads "kubepods-burstable-parsePodUID.slice", which may have a prefix.
func parseSliceUID(name string) (string, bool) {
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
	return parsePodUID(name[i+1:], "pod")
}

// parsePodUID checks that a name is the prefix and a UID: hexadecimal digits in groups.
func parsePodUID(name, prefix string) (string, bool) {
	uid, ok := strings.CutPrefix(name, prefix)
	if !ok || len(uid) < 8 || len(uid) > 64 {
		return "", false
	}
	uid = strings.ReplaceAll(uid, "_", "-")
	return uid, cgpath.Hex(strings.ReplaceAll(uid, "-", ""), 8)
}
