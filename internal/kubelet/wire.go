package kubelet

import (
	"cmp"
	"strings"
	"time"
)

// wirePod holds the fields of a v1.Pod that this package uses
// (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/).
type wirePod struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Created     time.Time         `json:"creationTimestamp"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Owners      []struct {
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			UID        string `json:"uid"`
			Controller bool   `json:"controller"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		InitContainers []wireContainer `json:"initContainers"`
		Containers     []wireContainer `json:"containers"`
		Ephemeral      []wireContainer `json:"ephemeralContainers"`
		RestartPolicy  string          `json:"restartPolicy"`
		HostNetwork    bool            `json:"hostNetwork"`
		Priority       string          `json:"priorityClassName"`
		Resources      wireResources   `json:"resources"`
		Overhead       amounts         `json:"overhead"`
		Claims         []struct{}      `json:"resourceClaims"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		IP         string `json:"podIP"`
		HostIP     string `json:"hostIP"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
		QoS            string       `json:"qosClass"`
		InitContainers []wireStatus `json:"initContainerStatuses"`
		Containers     []wireStatus `json:"containerStatuses"`
		Ephemeral      []wireStatus `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

type wireContainer struct {
	Name          string `json:"name"`
	Image         string `json:"image"`
	RestartPolicy string `json:"restartPolicy"` // Always makes an init container a sidecar
	Ports         []struct {
		Name     string `json:"name"`
		Number   int    `json:"containerPort"`
		Protocol string `json:"protocol"`
	} `json:"ports"`
	Resources wireResources `json:"resources"`
}

type wireResources struct {
	Requests amounts `json:"requests"`
	Limits   amounts `json:"limits"`
}

type amounts map[string]string

type wireStatus struct {
	Name     string    `json:"name"`
	ID       string    `json:"containerID"` // containerd://DIGITS
	Ready    bool      `json:"ready"`
	Restarts int       `json:"restartCount"`
	State    wireState `json:"state"`
	Last     wireState `json:"lastState"`
}

type wireState struct {
	Waiting *struct {
		Reason string `json:"reason"`
	} `json:"waiting"`
	Running    *struct{} `json:"running"`
	Terminated *struct {
		ExitCode int    `json:"exitCode"`
		Reason   string `json:"reason"`
		ID       string `json:"containerID"`
	} `json:"terminated"`
}

func (w *wirePod) toPod() *Pod {
	m := &w.Metadata
	p := &Pod{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ReportedUID: m.UID, Created: m.Created, Labels: m.Labels,
		Phase: w.Status.Phase, QoS: w.Status.QoS, IP: w.Status.IP, Priority: w.Spec.Priority,
		HostNetwork: w.Spec.HostNetwork, Completes: w.Spec.RestartPolicy != "" && w.Spec.RestartPolicy != "Always",
	}
	p.HostIP = w.Status.HostIP
	for _, c := range w.Status.Conditions {
		if c.Type == "Ready" {
			p.Ready = c.Status
		}
	}
	for key, v := range m.Annotations {
		if strings.HasPrefix(key, "prometheus.io/") || strings.HasPrefix(key, "reckon/") {
			if p.Annotations == nil {
				p.Annotations = map[string]string{}
			}
			p.Annotations[key] = v
		}
	}
	if hash := m.Annotations["kubernetes.io/config.hash"]; hash != "" {
		p.UID, p.Static = hash, true
	}
	for i, o := range m.Owners {
		if o.Kind == "Node" { // the mirror of a static pod
			p.Static = true
		} else if i == 0 || o.Controller {
			p.OwnerKind, p.OwnerName, p.OwnerUID = o.Kind, o.Name, o.UID
		}
	}
	p.Own.Request, p.Own.Limit = w.Spec.Resources.Requests.toResources(), w.Spec.Resources.Limits.toResources()
	p.Overhead = w.Spec.Overhead.toResources()
	p.NeedsDevices = len(w.Spec.Claims) > 0
	p.addContainers(w.Spec.InitContainers, w.Status.InitContainers, Init)
	p.addContainers(w.Spec.Containers, w.Status.Containers, Main)
	p.addContainers(w.Spec.Ephemeral, w.Status.Ephemeral, Ephemeral)
	return p
}

// addContainers adds containers with their reported status.
func (p *Pod) addContainers(list []wireContainer, status []wireStatus, kind Type) {
	for i := range list {
		w := &list[i]
		c := Container{
			Name: w.Name, Image: w.Image, Type: kind,
			Request: w.Resources.Requests.toResources(), Limit: w.Resources.Limits.toResources(),
		}
		if kind == Init && w.RestartPolicy == "Always" {
			c.Type = Sidecar
		}
		p.NeedsDevices = p.NeedsDevices || w.Resources.Limits.isExtended()
		for _, x := range w.Ports {
			c.Ports = append(c.Ports, Port{x.Name, x.Protocol, x.Number})
		}
		for j := range status {
			if status[j].Name == w.Name {
				c.setStatus(&status[j])
			}
		}
		p.Containers = append(p.Containers, c)
	}
}

func (c *Container) setStatus(s *wireStatus) {
	c.ID, c.Restarts, c.Ready = stripRuntime(s.ID), s.Restarts, s.Ready
	c.Running = s.State.Running != nil
	if s.State.Waiting != nil {
		c.Waiting = s.State.Waiting.Reason
	}
	for _, t := range []*wireState{&s.Last, &s.State} {
		if e := t.Terminated; e != nil {
			c.Before, c.Ended = c.Ended, &End{ID: cmp.Or(stripRuntime(e.ID), c.ID), ExitCode: e.ExitCode, Reason: e.Reason}
		}
	}
	if s.Last.Terminated != nil {
		c.Previous = stripRuntime(s.Last.Terminated.ID)
	}
}

// stripRuntime returns an id without the name of the runtime.
func stripRuntime(id string) string {
	_, rest, ok := strings.Cut(id, "://")
	if !ok {
		return id
	}
	return rest
}

// isExtended reports whether a resource is not one of Kubernetes' own, which have no domain or one of Kubernetes.
func (list amounts) isExtended() bool {
	for name := range list {
		domain, _, ok := strings.Cut(name, "/")
		if ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") {
			return true
		}
	}
	return false
}

// toResources parses a list of resource amounts. Whole GPUs and slices of GPUs have the resource names of their vendors'
// device plugins.
func (list amounts) toResources() (r Resources) {
	for name, text := range list {
		v, ok := parseQuantity(text)
		vendor, device, _ := strings.Cut(name, "/")
		switch {
		case !ok:
		case name == "cpu":
			r.Cores = v
		case name == "memory":
			r.MemoryBytes = v
		case device == "gpu" || vendor == "nvidia.com" && strings.HasPrefix(device, "mig-") ||
			vendor == "gpu.intel.com" && (device == "i915" || device == "xe"):
			r.GPUs += v
		}
	}
	return r
}
