package kubelet

import (
	"cmp"
	"slices"
	"time"
)

// Pod is the record of a pod.
type Pod struct {
	Namespace, Name string
	// UID is the id that names the control groups of the pod: of a static pod the hash of its file.
	UID string
	// ReportedUID is the UID that the API server has; the mirror of a static pod has another one.
	ReportedUID string
	Created     time.Time
	Labels      map[string]string
	// Annotations for the agent: prometheus.io/ and reckon/.
	Annotations map[string]string
	// OwnerKind and OwnerName are of the owner that controls the pod, or else of the first; empty for none.
	OwnerKind, OwnerName, OwnerUID string
	Static                         bool // of a file or a URL of the node, not of the API server
	// Unlisted means that the kubelet no longer lists it. It has no report, and only known names if it was never listed.
	Unlisted bool

	Phase, QoS, IP, HostIP string
	Ready                  string // status of the condition: True, False or Unknown; empty while none is reported
	Priority               string // class
	HostNetwork            bool
	// Completes means that the pod does not restart after success (restart policy Never or OnFailure).
	Completes  bool
	Containers []Container
	// NeedsDevices: it requests a resource that a device plugin offers, or has a claim for devices.
	NeedsDevices bool
	// Own are amounts of the pod itself, which replace the sums of its containers. Overhead is
	// added to its requests.
	Own      struct{ Request, Limit Resources }
	Overhead Resources
}

// Type is the purpose of a container in a pod.
type Type string

// The types of containers.
const (
	Main      Type = "main"
	Init      Type = "init"
	Sidecar   Type = "sidecar"   // an init container that keeps running beside the main ones
	Ephemeral Type = "ephemeral" // added by kubectl debug
	Sandbox   Type = "sandbox"   // holds the namespaces of the pod (pause); in no list of containers
)

// Container is the record of one container of a pod.
type Container struct {
	Name, Image string
	Type        Type
	// ID is the runtime's hexadecimal id, Previous the id before the restart; empty if there is none.
	ID, Previous string
	Restarts     int
	Running      bool
	Ready        bool   // by its readiness probe; an init container that has ended well is
	Waiting      string // reason: CrashLoopBackOff, ImagePullBackOff; empty while it does not wait
	// Ended describes the last end of the container, or the one before a restart; nil if there is none.
	Ended *End
	// Before describes the end of the container before it, once it has ended itself; nil else.
	Before         *End
	Request, Limit Resources
	Ports          []Port
	// Devices are the devices that the kubelet assigned to it; nil if unknown.
	Devices []Device
}

// End describes the end of a container.
type End struct {
	ID       string // of the container
	ExitCode int
	Reason   string // Completed, Error, OOMKilled
}

// Resources are amounts that a container requests or is limited to; 0 for none.
type Resources struct {
	Cores       float64
	MemoryBytes float64
	GPUs        float64
}

// Port is a declared port.
type Port struct {
	Name, Protocol string
	Number         int
}

// Container returns the container with this id in the runtime, now or before its restart, or nil.
func (p *Pod) Container(id string) *Container {
	for i := range p.Containers {
		if c := &p.Containers[i]; id != "" && (c.ID == id || c.Previous == id || c.Ended != nil && c.Ended.ID == id) {
			return c
		}
	}
	return nil
}

// awaitsRestart reports whether a container ended that is always restarted. The kubelet will soon report
// that it waits for the restart.
func (p *Pod) awaitsRestart() bool {
	return !p.Completes && p.Phase == "Running" && slices.ContainsFunc(p.Containers, func(c Container) bool {
		return (c.Type == Main || c.Type == Sidecar) && c.Ended != nil && !c.Running && c.Waiting == ""
	})
}

// Started reports whether all required containers of the pod have an id. If so, a control group with any other id
// belongs to the pod's sandbox.
func (p *Pod) Started() bool {
	for i := range p.Containers {
		if p.Containers[i].ID == "" {
			return false
		}
	}
	return true
}

// Request returns the request of the whole pod as the scheduler computes it. It is the sum of main containers and
// sidecars, or the largest init container plus the sidecars started before it, whichever is larger
// (https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers).
func (p *Pod) Request() Resources {
	return p.combineResources(func(c *Container) Resources { return c.Request }).withReported(p.Own.Request).add(p.Overhead)
}

// Limit returns the limit of the pod as a whole; 0 if a container has no limit.
func (p *Pod) Limit() Resources {
	l := p.combineResources(func(c *Container) Resources { return c.Limit })
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Type == Ephemeral { // has no resources
			continue
		}
		if c.Limit.Cores == 0 {
			l.Cores = 0
		}
		if c.Limit.MemoryBytes == 0 {
			l.MemoryBytes = 0
		}
	}
	return l.withReported(p.Own.Limit)
}

func (p *Pod) combineResources(amounts func(*Container) Resources) Resources {
	var run, start, sidecars Resources
	for i := range p.Containers {
		c := &p.Containers[i]
		r := amounts(c)
		switch c.Type {
		case Main:
			run = run.add(r)
		case Sidecar:
			run, sidecars = run.add(r), sidecars.add(r)
			start = start.max(sidecars)
		case Init:
			start = start.max(sidecars.add(r))
		}
	}
	return run.max(start)
}

func (r Resources) add(o Resources) Resources {
	return Resources{r.Cores + o.Cores, r.MemoryBytes + o.MemoryBytes, r.GPUs + o.GPUs}
}

func (r Resources) max(o Resources) Resources {
	return Resources{max(r.Cores, o.Cores), max(r.MemoryBytes, o.MemoryBytes), max(r.GPUs, o.GPUs)}
}

// withReported replaces amounts by those that o reports.
func (r Resources) withReported(o Resources) Resources {
	return Resources{cmp.Or(o.Cores, r.Cores), cmp.Or(o.MemoryBytes, r.MemoryBytes), cmp.Or(o.GPUs, r.GPUs)}
}
