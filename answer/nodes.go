package answer

import (
	"context"
	"slices"
	"time"

	"reckon/access"
	"reckon/figure/wire"
)

// Nodes answers questions about nodes.
type Nodes struct {
	Views  NodeLists
	Past   *NodeHistory // nil if no history of nodes is kept
	Rates  *Rates       // nil if no rates of emissions and costs are configured
	Outage *Outage      // nil if the series are stored in this process
	Bounds *Bounds      // nil withholds nothing
	Clock  func() time.Time
	// Sender returns the client that sends for a node; the function or its result may be nil if unknown.
	Sender func(site, node string) *wire.NodeSender
	// Refused returns the owners with new series of a node that are refused; nil for none.
	Refused func(site, node string) []wire.NodeBound
}

// NodeViews reads the series of nodes; implemented by query.Views.
type NodeViews interface {
	Nodes(ctx context.Context, now time.Time) ([]wire.Node, error)
}

// NodeLists reads the series of nodes, and reports when it did; implemented by query.Views.
type NodeLists interface {
	NodesAsOf(ctx context.Context, now time.Time) ([]wire.Node, time.Time, error)
}

// Nodes returns every node of the site, sorted by name.
func (n *Nodes) Nodes(ctx context.Context) (wire.NodeList, error) {
	var missing []string
	now, viewer := n.Clock(), access.From(ctx)
	nodes, at, err := n.Views.NodesAsOf(ctx, now)
	if err := n.Outage.addMissing(&missing, "all nodes", err); err != nil {
		return wire.NodeList{}, err
	}
	if nodes == nil {
		nodes = []wire.Node{}
	}
	if err := n.Outage.addMissing(&missing, "history of the nodes", n.Past.addTo(ctx, nodes)); err != nil {
		return wire.NodeList{}, err
	}
	if len(missing) == 0 {
		missing = n.Outage.Missing(ctx, time.Time{}, time.Time{})
	}
	for i := range nodes {
		n.Rates.setNodeCost(&nodes[i], now)
		if n.Sender != nil {
			nodes[i].Sender = n.Sender(nodes[i].Site, nodes[i].Node)
		}
		n.Bounds.checkNode(&nodes[i])
		if n.Refused != nil {
			nodes[i].Bounds = slices.Concat(nodes[i].Bounds, n.Refused(nodes[i].Site, nodes[i].Node))
		}
		nodes[i].Bounds = slices.DeleteFunc(slices.Clone(nodes[i].Bounds),
			func(b wire.NodeBound) bool { return b.Owner != "" && !viewer.All() && !viewer.Sees(b.Owner) })
	}
	list := wire.NodeList{Nodes: nodes, Missing: missing}
	if at.Before(now) {
		list.AsOf = &at
	}
	return list, nil
}
