package rightsize

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"reckon/workload"
)

// Container is the advice for one container of a service; the name is empty for a service without containers.
type Container struct {
	Name string
	*ServiceAdvice
}

// templateKind returns the Kubernetes API kind of services with a pod template; empty for other kinds.
func templateKind(kind string) string {
	object, _ := workload.Kind(kind).Controller()
	if !workload.Kind(kind).Service() {
		return ""
	}
	return object
}

// Paste formats the advice as configuration of the service: Kubernetes containers with their resources, or a drop-in of
// a systemd unit. It sets cores only as a request, because a CPU limit would only throttle a container.
func Paste(kind string, list []Container) string {
	if workload.Kind(kind).Unit() {
		if m := list[0].Memory; m != nil {
			return fmt.Sprintf("[Service]\nMemoryMax=%.0fM", math.Ceil(*m/(1<<20)))
		}
		return ""
	}
	var out []string
	for _, c := range list {
		text := (&Advice{Cores: c.Cores, Memory: c.Memory}).Kubernetes()
		if text == "" {
			continue
		}
		if c.Name != "" {
			text = "- name: " + c.Name + "\n  " + strings.ReplaceAll(text, "\n", "\n  ")
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

// object is a JSON object of the Kubernetes API.
type object map[string]any

// Patch formats the advice as a strategic merge patch, which matches containers by name; empty for kinds without a pod template.
func Patch(kind string, list []Container) string {
	if templateKind(kind) == "" {
		return ""
	}
	var containers []object
	for _, c := range list {
		requests, limits := c.quantities(), object{}
		if v, ok := requests["memory"]; ok {
			limits["memory"] = v
		}
		resources := object{"requests": requests}
		if len(limits) > 0 {
			resources["limits"] = limits
		}
		containers = append(containers, object{"name": c.Name, "resources": resources})
	}
	return encodeStrings(object{"spec": object{"template": object{"spec": object{"containers": containers}}}})
}

// VPA formats the advice as a VerticalPodAutoscaler object (autoscaling.k8s.io/v1) in mode Off, with a policy that
// allows only the advice. A recommender then recommends it. kubectl can apply the object, but drops its status. id is
// kind/namespace/name. The result is empty for kinds without a pod template.
func VPA(kind, id string, list []Container) string {
	target := templateKind(kind)
	words := strings.Split(id, "/")
	if target == "" || len(words) != 3 {
		return ""
	}
	found := []object{}
	for _, c := range list {
		if advised := c.quantities(); len(advised) > 0 {
			found = append(found, object{"containerName": c.Name, "minAllowed": advised, "maxAllowed": advised})
		}
	}
	return encodeStrings(object{
		"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
		"metadata": object{"name": words[2], "namespace": words[1]},
		"spec": object{"targetRef": object{"apiVersion": "apps/v1", "kind": target, "name": words[2]},
			"updatePolicy": object{"updateMode": "Off"}, "resourcePolicy": object{"containerPolicies": found}},
	})
}

// quantities returns the requests as Kubernetes quantities: thousandths of a core, and MiB.
func (c *Container) quantities() object {
	out := object{}
	if c.Cores != nil {
		out["cpu"] = fmt.Sprintf("%.0fm", math.Ceil(*c.Cores*1000-1e-6))
	}
	if c.Memory != nil {
		out["memory"] = fmt.Sprintf("%.0fMi", math.Ceil(*c.Memory/(1<<20)))
	}
	return out
}

// encodeStrings encodes a map of strings, which cannot fail.
func encodeStrings(v object) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
