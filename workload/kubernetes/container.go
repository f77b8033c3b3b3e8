package kubernetes

import (
	"cmp"
	"strings"

	"reckon/internal/cgpath"
	"reckon/internal/kubelet"
	"reckon/workload"
)

// Container returns the facts that the kubelet reports about a container, or nil if they are unknown. It requests a new list of pods if
// the container has ended but the list does not show that. It also does so if a container of the pod has no id yet.
func (r *Resolver) Container(place string, ended bool) *workload.ContainerFacts {
	uid, id, _ := strings.Cut(place, "/")
	if r.Pods == nil {
		return nil
	}
	pod := r.Pods.Pod(uid)
	if pod == nil || pod.Unlisted {
		return nil
	}
	c := pod.Container(id)
	f := reportedFacts(pod, c)
	f.ID = id
	switch {
	case c != nil && ended && (c.Ended == nil || c.Ended.ID != id):
		r.Pods.Refresh(place + " ended")
	case c == nil && (pod.Started() || id == ""):
		f.Type = string(kubelet.Sandbox)
	case c == nil: // it may already have its name, as the only container of its pod
		r.Pods.Refresh(place)
	}
	return f
}

// reportedFacts returns the kubelet's report about a pod, and about its container c if c is not nil.
func reportedFacts(pod *kubelet.Pod, c *kubelet.Container) *workload.ContainerFacts {
	f := &workload.ContainerFacts{
		Namespace: pod.Namespace, Pod: pod.Name, UID: pod.ReportedUID, QoS: pod.QoS, Completes: pod.Completes,
		PodRequest: workload.Amounts(pod.Request()), PodLimit: workload.Amounts(pod.Limit()),
		PodFacts: workload.PodFacts{OwnerKind: pod.OwnerKind, OwnerName: pod.OwnerName, Phase: pod.Phase, IP: pod.IP, HostIP: pod.HostIP,
			Priority: pod.Priority, PodReady: pod.Ready, HostNetwork: pod.HostNetwork},
	}
	if pod.Static && f.OwnerKind == "" {
		f.OwnerKind = "Node" // according to its mirror
	}
	if !pod.Created.IsZero() {
		f.Created = pod.Created.Unix()
	}
	if c == nil {
		return f
	}
	f.Name, f.Image, f.ID, f.Type, f.Restarts, f.Running, f.Ready, f.Waiting = c.Name, c.Image, c.ID, string(c.Type), c.Restarts,
		c.Running, c.Ready, c.Waiting
	f.Request, f.Limit = workload.Amounts(c.Request), workload.Amounts(c.Limit)
	for _, d := range c.Devices {
		f.Devices = append(f.Devices, workload.Device(d))
	}
	if c.Ended != nil {
		f.Ended, f.EndedID, f.ExitCode, f.Reason = true, c.Ended.ID, c.Ended.ExitCode, cmp.Or(c.Ended.Reason, "Unknown")
	}
	if c.Before != nil {
		f.BeforeExitCode, f.BeforeReason = c.Before.ExitCode, cmp.Or(c.Before.Reason, "Unknown")
	}
	return f
}

// Listed calls f for each pod of a list, with the facts of its sandbox, and for each of its containers.
func (r *Resolver) Listed(pods []*kubelet.Pod, f func(*workload.Identity, *workload.ContainerFacts)) {
	for _, pod := range pods {
		if pod.Namespace == "" || pod.Name == "" {
			continue
		}
		var id workload.Identity
		r.fillPod(&id, pod)
		whole, facts := id.Part, reportedFacts(pod, nil)
		facts.Type = string(kubelet.Sandbox)
		f(&id, facts)
		for i := range pod.Containers {
			c := &pod.Containers[i]
			id.Part = containerPart(whole, cgpath.Clean(c.Name))
			f(&id, reportedFacts(pod, c))
		}
	}
}
