package kubernetes

import (
	"encoding/json"
	"fmt"
	"strings"

	"reckon/graph/object"
)

type containerState struct {
	StartedAt  string `json:"startedAt"`
	FinishedAt string `json:"finishedAt"`
}

type containerStatus struct {
	Name  string `json:"name"`
	ID    string `json:"containerID"`
	State struct {
		Waiting    *containerState `json:"waiting"`
		Running    *containerState `json:"running"`
		Terminated *containerState `json:"terminated"`
	} `json:"state"`
}

// Pod reads a Pod.
func Pod(raw []byte) (object.Pod, error) {
	var in struct {
		Metadata meta    `json:"metadata"`
		Spec     podSpec `json:"spec"`
		Status   struct {
			Phase          string            `json:"phase"`
			StartTime      string            `json:"startTime"`
			Containers     []containerStatus `json:"containerStatuses"`
			InitContainers []containerStatus `json:"initContainerStatuses"`
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return object.Pod{}, fmt.Errorf("read a pod: %w", err)
	}
	m := &in.Metadata
	p := object.Pod{
		Namespace: m.Namespace, Name: m.Name, UID: rawText(m.UID), Owners: m.ownerRefs(), Scheduler: in.Spec.SchedulerName,
		Node:  in.Spec.NodeName,
		Phase: in.Status.Phase, Start: parseTime(in.Status.StartTime), Volumes: in.Spec.listData(m.Namespace, m.Annotations),
		Requirements: in.Spec.containerRequirements(),
	}
	ended := p.Phase == "Succeeded" || p.Phase == "Failed" || p.Phase == "Unknown"
	for _, c := range append(in.Status.Containers, in.Status.InitContainers...) {
		at := c.toContainer()
		if ended && at.State == "terminated" && at.End.After(p.End) {
			p.End = at.End
		}
		p.Containers = append(p.Containers, at)
	}
	return p, nil
}

func (c *containerStatus) toContainer() object.Container {
	out := object.Container{Name: c.Name, ID: c.ID}
	for _, s := range []struct {
		name string
		at   *containerState
	}{{"waiting", c.State.Waiting}, {"running", c.State.Running}, {"terminated", c.State.Terminated}} {
		if s.at != nil {
			out.State, out.Start, out.End = s.name, parseTime(s.at.StartedAt), parseTime(s.at.FinishedAt)
		}
	}
	return out
}

// splitList splits text at commas.
func splitList(s string) (out []string) {
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
