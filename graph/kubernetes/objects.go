// Package kubernetes reads objects of a Kubernetes cluster, in the JSON of its API server, into the objects that the
// knowledge graph describes. It uses no library of Kubernetes: of each object only the required fields are declared
// (https://kubernetes.io/docs/reference/kubernetes-api/).
package kubernetes

import (
	"encoding/json"
	"fmt"
	"time"

	"reckon/graph/object"
)

// annotationPrefix is the prefix of GLACIATION's annotations.
const annotationPrefix = "glaciation-project.eu/"

// dataAnnotation is the annotation of a pod template with the data sets that it reads, separated by commas.
const dataAnnotation = "reckon.io/reads"

type meta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	UID         json.RawMessage   `json:"uid"` // some write a number
	Annotations map[string]string `json:"annotations"`
	Owners      []struct {
		Kind, Name string
		UID        json.RawMessage `json:"uid"`
	} `json:"ownerReferences"`
}

func rawText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}

func (m *meta) ownerRefs() (out []object.Ref) {
	for _, o := range m.Owners {
		out = append(out, object.Ref{Kind: o.Kind, Namespace: m.Namespace, Name: o.Name, UID: rawText(o.UID)})
	}
	return out
}

type resources map[string]Quantity

var resourceNames = map[string]object.Resource{"cpu": object.CPU, "memory": object.Memory, "ephemeral-storage": object.Storage,
	"nvidia.com/gpu": object.GPU}

func (r resources) toAmounts() object.Amounts {
	out := object.Amounts{}
	for name, v := range r {
		if known, ok := resourceNames[name]; ok && v >= 0 {
			out[known] = float64(v)
		}
	}
	return out
}

type container struct {
	Name          string `json:"name"`
	RestartPolicy string `json:"restartPolicy"`
	Resources     struct {
		Requests resources `json:"requests"`
		Limits   resources `json:"limits"`
	} `json:"resources"`
}

type podSpec struct {
	Containers     []container `json:"containers"`
	InitContainers []container `json:"initContainers"`
	SchedulerName  string      `json:"schedulerName"`
	NodeName       string      `json:"nodeName"`
	Volumes        []struct {
		Claim *struct {
			Name string `json:"claimName"`
		} `json:"persistentVolumeClaim"`
		ConfigMap *struct {
			Name string `json:"name"`
		} `json:"configMap"`
		NFS *struct {
			Server, Path string
		} `json:"nfs"`
		HostPath *struct {
			Path string `json:"path"`
		} `json:"hostPath"`
	} `json:"volumes"`
}

func (p *podSpec) containerRequirements() (out []object.Requirements) {
	for _, c := range p.InitContainers {
		out = append(out, object.Requirements{Init: true, Sidecar: c.RestartPolicy == "Always", Requests: c.Resources.Requests.toAmounts(),
			Limits: c.Resources.Limits.toAmounts()})
	}
	for _, c := range p.Containers {
		out = append(out, object.Requirements{Requests: c.Resources.Requests.toAmounts(), Limits: c.Resources.Limits.toAmounts()})
	}
	return out
}

// listData returns the volumes of the pod that hold data, and the data sets named by its annotation. It omits Secrets,
// because their names are confidential.
func (p *podSpec) listData(namespace string, annotated map[string]string) (out []object.Data) {
	for _, v := range p.Volumes {
		switch {
		case v.Claim != nil:
			out = append(out, object.Data{Kind: "persistentVolumeClaim", Namespace: namespace, Name: v.Claim.Name})
		case v.ConfigMap != nil:
			out = append(out, object.Data{Kind: "configMap", Namespace: namespace, Name: v.ConfigMap.Name})
		case v.NFS != nil:
			out = append(out, object.Data{Kind: "nfs", Name: v.NFS.Server + ":" + v.NFS.Path})
		case v.HostPath != nil:
			out = append(out, object.Data{Kind: "hostPath", Name: v.HostPath.Path})
		}
	}
	for _, name := range splitList(annotated[dataAnnotation]) {
		out = append(out, object.Data{Kind: "dataset", Name: name})
	}
	return out
}

// jobStatus is the status of a Job.
type jobStatus struct {
	StartTime  string `json:"startTime"`
	Conditions []struct {
		Type, Status       string
		LastTransitionTime string `json:"lastTransitionTime"`
	} `json:"conditions"`
}

// toState returns the state of a Job (Running, Suspended, Complete, Failed), its start and its end.
func (s *jobStatus) toState() (state string, start, end time.Time) {
	state, start = "Running", parseTime(s.StartTime)
	for _, c := range s.Conditions {
		switch {
		case c.Status != "True":
		case c.Type == "Complete", c.Type == "Completed", c.Type == "Failed": // Completed is a JobSet's
			return c.Type, start, parseTime(c.LastTransitionTime)
		case c.Type == "Suspended":
			state = c.Type
		}
	}
	return state, start, time.Time{}
}

// podTemplate is the template of the pods of a workload.
type podTemplate struct {
	Metadata meta    `json:"metadata"`
	Spec     podSpec `json:"spec"`
}

// jobTemplate is the template of the Jobs of a CronJob or JobSet.
type jobTemplate struct {
	Spec struct {
		Template podTemplate `json:"template"`
	} `json:"spec"`
}

// Workload parses a Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob or JobSet. The
// requests of a JobSet are the sum over one pod of each of its replicated Jobs.
func Workload(raw []byte) (object.Workload, error) {
	var in struct {
		Kind     string `json:"kind"`
		Metadata meta   `json:"metadata"`
		Spec     struct {
			Template podTemplate `json:"template"`
			Job      jobTemplate `json:"jobTemplate"`
			Jobs     []struct {
				Template jobTemplate `json:"template"`
			} `json:"replicatedJobs"`
		} `json:"spec"`
		Status jobStatus `json:"status"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return object.Workload{}, fmt.Errorf("read a workload: %w", err)
	}
	m, t := &in.Metadata, &in.Spec.Template
	switch {
	case in.Kind == "CronJob":
		t = &in.Spec.Job.Spec.Template
	case len(in.Spec.Jobs) > 0:
		t = &in.Spec.Jobs[0].Template.Spec.Template
		for _, j := range in.Spec.Jobs[1:] {
			more := &j.Template.Spec.Template.Spec
			t.Spec.Containers = append(t.Spec.Containers, more.Containers...)
			t.Spec.InitContainers = append(t.Spec.InitContainers, more.InitContainers...)
			t.Spec.Volumes = append(t.Spec.Volumes, more.Volumes...)
		}
	}
	w := object.Workload{
		Kind: in.Kind, Namespace: m.Namespace, Name: m.Name, UID: rawText(m.UID), Owner: m.Namespace, Owners: m.ownerRefs(),
		Scheduler: t.Spec.SchedulerName, Containers: t.Spec.containerRequirements(),
		AnnotatedRequests: object.Amounts{}, AnnotatedLimits: object.Amounts{},
		Reads: t.Spec.listData(m.Namespace, t.Metadata.Annotations),
	}
	if in.Kind == "Job" || in.Kind == "JobSet" {
		w.State, w.Start, w.End = in.Status.toState()
	}
	for _, a := range []struct {
		name string
		to   object.Amounts
		what object.Resource
	}{
		{"network-allocated", w.AnnotatedRequests, object.Network}, {"network-capacity", w.AnnotatedLimits, object.Network},
		{"energy-allocated", w.AnnotatedRequests, object.Energy}, {"energy-capacity", w.AnnotatedLimits, object.Energy},
	} {
		s, ok := t.Metadata.Annotations[annotationPrefix+a.name]
		if !ok {
			continue
		}
		v, err := ParseQuantity(s)
		if err != nil {
			return w, fmt.Errorf("the annotation %s%s of %s/%s: %w", annotationPrefix, a.name, m.Namespace, m.Name, err)
		}
		a.to[a.what] = float64(v)
	}
	return w, nil
}

// Node reads a Node.
func Node(raw []byte) (object.Node, error) {
	var in struct {
		Metadata meta `json:"metadata"`
		Status   struct {
			Allocatable resources `json:"allocatable"`
			Conditions  []struct {
				Type, Status       string
				LastTransitionTime string `json:"lastTransitionTime"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return object.Node{}, fmt.Errorf("read a node: %w", err)
	}
	n := object.Node{Name: in.Metadata.Name, UID: rawText(in.Metadata.UID), Status: "Unknown",
		Allocatable: in.Status.Allocatable.toAmounts()}
	for _, c := range in.Status.Conditions {
		if c.Type == "Ready" {
			n.Since = parseTime(c.LastTransitionTime)
			switch c.Status {
			case "True", "true":
				n.Status = "Ready"
			case "False", "false":
				n.Status = "NotReady"
			}
		}
	}
	if s, ok := in.Metadata.Annotations[annotationPrefix+"node-energy-index"]; ok {
		v, err := ParseQuantity(s)
		if err != nil {
			return n, fmt.Errorf("the energy index of node %s: %w", n.Name, err)
		}
		index := float64(v)
		n.EnergyIndex = &index
	}
	return n, nil
}

func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}
