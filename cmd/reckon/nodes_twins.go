package main

import (
	"fmt"
	"slices"

	"reckon/web/client"
)

// sharedJobs is the number of shared jobs at which two nodes count as one.
const sharedJobs = 3

// findAliases returns lines about nodes without an agent that may be a second name of another node. Such a node must have at
// least three jobs. Each of these must name one node more than it was allocated, and a node with an agent.
func findAliases(nodes []client.Node, jobs []client.Workload) (lines []string) {
	for i := range nodes {
		n, with, shared := &nodes[i], "", 0
		if n.Agent {
			continue
		}
		for j := range jobs {
			w := &jobs[j]
			if w.Site != n.Site || !slices.Contains(w.Nodes, n.Node) {
				continue
			}
			other := ""
			if w.AllocatedNodes != nil && int(*w.AllocatedNodes) == 1 && len(w.Nodes) == 2 {
				other = w.Nodes[1-slices.Index(w.Nodes, n.Node)]
			}
			if other == "" || with != "" && other != with || !slices.ContainsFunc(nodes, func(m client.Node) bool {
				return m.Agent && m.Node == other && m.Site == n.Site
			}) {
				shared = 0
				break
			}
			with, shared = other, shared+1
		}
		if shared >= sharedJobs {
			lines = append(lines, fmt.Sprintf("One machine under two names? %s has jobs and no agent, and the agent of %s has these jobs: "+
				"give the agent --node %s.", n.Node, with, n.Node))
		}
	}
	return lines
}
