package main

import (
	"strings"
	"testing"

	"reckon/web/client"
)

func TestTwins(t *testing.T) {
	nodes := []client.Node{{Node: "vm", Agent: true}, {Node: "vm-two"}, {Node: "n3", Agent: true}, {Node: "n4"}}
	job := func(allocated float64, on ...string) client.Workload {
		w := client.Workload{Nodes: on}
		w.AllocatedNodes = &allocated
		return w
	}
	three := []client.Workload{job(1, "vm", "vm-two"), job(1, "vm-two", "vm"), job(1, "vm-two", "vm"), job(2, "n3", "n4"), job(2, "n3", "n4"), job(2, "n3", "n4")}
	if got := findAliases(nodes, three); len(got) != 1 || !strings.HasPrefix(got[0],
		"One machine under two names? vm-two has jobs and no agent, and the agent of vm has") {
		t.Error(got)
	}
	for what, jobs := range map[string][]client.Workload{
		"two jobs":                      three[1:],
		"one of its jobs is elsewhere":  append([]client.Workload{job(1, "vm-two", "n3")}, three...),
		"one of its jobs is on it only": append([]client.Workload{job(1, "vm-two")}, three...),
	} {
		if got := findAliases(nodes, jobs); len(got) != 0 {
			t.Errorf("%s: %v", what, got)
		}
	}
}
