package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure/wire"
	"reckon/internal/series"
)

const (
	gpuInfo       = "reckon_gpu_info"
	nodeState     = "reckon_slurm_node_state"
	nodePartition = "reckon_slurm_partition_node"
	coresHeld     = "reckon_slurm_node_allocated_cores"
	memoryHeld    = "reckon_slurm_node_allocated_memory_bytes"
	gpusHeld      = "reckon_slurm_node_allocated_gpus"
)

// batchSilence is the time that a batch system may be silent about its nodes.
const batchSilence = 15 * time.Minute

// batchFigures maps the series that a batch system reports for a node to their figures.
var batchFigures = map[string]func(*wire.NodeBatch) **float64{
	"reckon_slurm_node_cores":        func(b *wire.NodeBatch) **float64 { return &b.Cores },
	coresHeld:                        func(b *wire.NodeBatch) **float64 { return &b.CoresHeld },
	"reckon_slurm_node_memory_bytes": func(b *wire.NodeBatch) **float64 { return &b.MemoryBytes },
	memoryHeld:                       func(b *wire.NodeBatch) **float64 { return &b.MemoryHeld },
	"reckon_slurm_node_gpus":         func(b *wire.NodeBatch) **float64 { return &b.GPUs },
	gpusHeld:                         func(b *wire.NodeBatch) **float64 { return &b.GPUsHeld },
}

func batchMetrics() []string {
	out := slices.AppendSeq([]string{nodeState, nodePartition}, maps.Keys(batchFigures))
	slices.Sort(out)
	return out
}

// batchNode is a node as a batch system reported it.
type batchNode struct {
	wire.NodeBatch
	reportedAt int64 // last report of the state, Unix ms
	seen       int64 // time of the last report of any kind, Unix ms

	found bool // an agent reports the node as well
}

// matchBatchNodes maps each node to its name in the batch system. One of the two names may lack the domain.
func matchBatchNodes(nodes map[nodeKey]*machine, batch map[nodeKey]*batchNode) map[nodeKey]nodeKey {
	short := map[nodeKey]nodeKey{}
	for k := range batch {
		if host, _, full := strings.Cut(k.node, "."); full {
			short[nodeKey{k.site, host}] = k
		}
	}
	out := make(map[nodeKey]nodeKey, len(nodes))
	for k := range nodes {
		host, _, full := strings.Cut(k.node, ".")
		at := nodeKey{k.site, host}
		switch named, ok := short[k]; {
		case batch[k] != nil:
			out[k] = k
		case ok:
			out[k] = named
		case full && batch[at] != nil && nodes[at] == nil:
			out[k] = at
		}
	}
	return out
}

// toNode returns a node that only the batch system reports.
func (b *batchNode) toNode(k nodeKey) wire.Node {
	return wire.Node{Node: k.node, Site: k.site, Sensors: []wire.Sensor{}, Seen: time.UnixMilli(b.seen).UTC(), Up: b.isUp(),
		Cores: b.Cores, MemoryBytes: b.MemoryBytes, GPUs: b.GPUs, Batch: &b.NodeBatch}
}

// isUp reports whether the batch system reports the node as up. A drained node is up.
func (b *batchNode) isUp() bool {
	for _, s := range append([]string{b.State}, b.Flags...) {
		switch s {
		case "", "down", "unknown", "future", "not_responding", "powered_down", "powering_down", "powering_up", "power_down", "power_up",
			"rebooting", "reboot_issued":
			return false
		}
	}
	return true
}

// batchNodes returns the last report of each node by its batch system.
func (v *Views) batchNodes(ctx context.Context, now time.Time) (map[nodeKey]*batchNode, error) {
	found := map[nodeKey]*batchNode{}
	var n series.Labels
	err := series.ForEach(ctx, v.q, now.Add(-max(v.gone, batchSilence)), now, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "state", "flags", "reason", "partition")
		t, x, ended, ok := series.Last(it)
		if n.Node == "" || !ok || ended {
			return nil
		}
		k := nodeKey{n.Site, n.Node}
		b := found[k]
		if b == nil {
			b = &batchNode{NodeBatch: wire.NodeBatch{Partitions: []string{}}}
			found[k] = b
		}
		b.seen = max(b.seen, t)
		switch n.Metric {
		case nodeState:
			if t < b.reportedAt {
				return nil
			}
			b.reportedAt = t
			b.State, b.Reason, b.Open, b.Flags = n.Rest["state"], n.Rest["reason"], x > 0, nil
			if flags := n.Rest["flags"]; flags != "" {
				b.Flags = strings.Split(flags, ",")
			}
		case nodePartition:
			if p := n.Rest["partition"]; !slices.Contains(b.Partitions, p) {
				b.Partitions = append(b.Partitions, p)
				slices.Sort(b.Partitions)
			}
		default:
			*batchFigures[n.Metric](&b.NodeBatch) = new(x)
		}
		return nil
	}, series.OneOf("__name__", batchMetrics()))
	return found, err
}

// AllocationStep is the maximum allocated to jobs on a node during one step.
type AllocationStep struct {
	Cores, MemoryBytes, GPUs *float64 // nil when not known
	Open                     bool     // the node accepted jobs during the whole step
}

// NodeAllocation holds the steps of one node.
type NodeAllocation struct {
	Site, Node string
	Steps      []AllocationStep
}

// AllocationByNode returns the allocation of each node of a batch system in each step after from: the maximum that jobs held
// during the step. A node without a report in a step does not count as open in that step.
func (v *Views) AllocationByNode(ctx context.Context, from time.Time, step time.Duration, steps int) ([]NodeAllocation, error) {
	found := map[nodeKey]*NodeAllocation{}
	begin, length := from.UnixMilli(), step.Milliseconds()
	closed := map[nodeKey][]bool{}
	var n series.Labels
	err := series.ForEach(ctx, v.q, from, from.Add(time.Duration(steps)*step-time.Millisecond),
		func(l labels.Labels, it chunkenc.Iterator) error {
			n.Read(l)
			if n.Node == "" {
				return nil
			}
			k := nodeKey{n.Site, n.Node}
			h := found[k]
			if h == nil {
				h = &NodeAllocation{Site: n.Site, Node: n.Node, Steps: make([]AllocationStep, steps)}
				found[k], closed[k] = h, make([]bool, steps)
			}
			for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
				if vt != chunkenc.ValFloat {
					continue
				}
				t, x := it.At()
				if value.IsStaleNaN(x) || x != x {
					continue
				}
				i := int((t - begin) / length)
				if i < 0 || i >= steps {
					continue
				}
				s := &h.Steps[i]
				if n.Metric == nodeState {
					s.Open = true
					closed[k][i] = closed[k][i] || x <= 0
					continue
				}
				to := &s.GPUs
				switch n.Metric {
				case coresHeld:
					to = &s.Cores
				case memoryHeld:
					to = &s.MemoryBytes
				}
				if *to == nil || **to < x {
					*to = new(x)
				}
			}
			return nil
		}, series.OneOf("__name__", []string{nodeState, coresHeld, memoryHeld, gpusHeld}))
	if err != nil {
		return nil, err
	}
	out := make([]NodeAllocation, 0, len(found))
	for k, h := range found {
		for i := range h.Steps {
			h.Steps[i].Open = h.Steps[i].Open && !closed[k][i]
		}
		out = append(out, *h)
	}
	return out, nil
}

// Partition is the membership of a node in a partition of a batch system.
type Partition struct{ Site, Node, Name string }

// partitionLookback is the maximum age of partition reports. Batch systems report every minute, but reduced old data has
// one sample per hour.
const partitionLookback = 2 * time.Hour

// Partitions returns the members of all partitions at a time.
func (v *Views) Partitions(ctx context.Context, at time.Time) ([]Partition, error) {
	found := map[Partition]bool{}
	var n series.Labels
	err := series.ForEach(ctx, v.q, at.Add(-partitionLookback), at, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "partition")
		if _, _, ended, ok := series.Last(it); ok && !ended && n.Node != "" {
			found[Partition{n.Site, n.Node, n.Rest["partition"]}] = true
		}
		return nil
	}, series.OneOf("__name__", []string{nodePartition}))
	if err != nil {
		return nil, err
	}
	out := slices.Collect(maps.Keys(found))
	slices.SortFunc(out, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}
