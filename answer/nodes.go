package answer

import (
	"context"
	"time"

	"reckon/client"
)

// Nodes answers what nodes are and do.
type Nodes struct {
	Views  NodeViews
	Past   *NodeHistory // nil where no history of nodes is kept
	Rates  *Rates       // nil where nobody configured what energy emits and costs
	Outage *Outage      // nil where the series are in this process
	Bounds *Bounds      // nil holds nothing back
	Clock  func() time.Time
	// Sender is who sends for a node; nil, or an answer of nil, where that is not known.
	Sender func(site, node string) *client.NodeSender
}

// NodeViews is what is read of the series of nodes; query.Views has it.
type NodeViews interface {
	Nodes(ctx context.Context, now time.Time) ([]client.Node, error)
}

// Nodes returns every node of the site, sorted by name.
func (n *Nodes) Nodes(ctx context.Context) (client.NodeList, error) {
	var missing []string
	nodes, err := n.Views.Nodes(ctx, n.Clock())
	if err := n.Outage.degrade(&missing, "all nodes", err); err != nil {
		return client.NodeList{}, err
	}
	if nodes == nil {
		nodes = []client.Node{}
	}
	if err := n.Outage.degrade(&missing, "what nodes did before", n.Past.fill(ctx, nodes)); err != nil {
		return client.NodeList{}, err
	}
	if len(missing) == 0 {
		missing = n.Outage.Missing(ctx, time.Time{}, time.Time{})
	}
	for i := range nodes {
		n.Rates.node(&nodes[i], n.Clock())
		if n.Sender != nil {
			nodes[i].Sender = n.Sender(nodes[i].Site, nodes[i].Node)
		}
		n.Bounds.node(&nodes[i])
	}
	return client.NodeList{Nodes: nodes, Missing: missing}, nil
}
