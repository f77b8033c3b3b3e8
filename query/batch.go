package query

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/client"
)

const (
	gpuInfo       = "reckon_gpu_info"
	nodeState     = "reckon_slurm_node_state"
	nodePartition = "reckon_slurm_partition_node"
	coresHeld     = "reckon_slurm_node_allocated_cores"
	memoryHeld    = "reckon_slurm_node_allocated_memory_bytes"
	gpusHeld      = "reckon_slurm_node_allocated_gpus"
)

// batchGone is for how long a batch system may say nothing of its nodes.
const batchGone = 15 * time.Minute

// batchFigures are what a batch system says of a node in figures.
var batchFigures = map[string]func(*client.NodeBatch) **float64{
	"reckon_slurm_node_cores":        func(b *client.NodeBatch) **float64 { return &b.Cores },
	coresHeld:                        func(b *client.NodeBatch) **float64 { return &b.CoresHeld },
	"reckon_slurm_node_memory_bytes": func(b *client.NodeBatch) **float64 { return &b.MemoryBytes },
	memoryHeld:                       func(b *client.NodeBatch) **float64 { return &b.MemoryHeld },
	"reckon_slurm_node_gpus":         func(b *client.NodeBatch) **float64 { return &b.GPUs },
	gpusHeld:                         func(b *client.NodeBatch) **float64 { return &b.GPUsHeld },
}

func batchMetrics() []string {
	out := []string{nodeState, nodePartition}
	for name := range batchFigures {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// batchNodes is what batch systems last said of their nodes.
func (v *Views) batchNodes(ctx context.Context, now time.Time) (map[nodeKey]*client.NodeBatch, error) {
	found, told := map[nodeKey]*client.NodeBatch{}, map[nodeKey]int64{}
	var n names
	err := each(ctx, v.q, now.Add(-max(v.gone, batchGone)), now, func(l labels.Labels, it chunkenc.Iterator) error {
		n.read(l, "state", "flags", "reason", "partition")
		t, x, ended, ok := last(it)
		if n.node == "" || !ok || ended {
			return nil
		}
		k := nodeKey{n.site, n.node}
		b := found[k]
		if b == nil {
			b = &client.NodeBatch{Partitions: []string{}}
			found[k] = b
		}
		switch n.metric {
		case nodeState:
			if t < told[k] {
				return nil
			}
			told[k] = t
			b.State, b.Reason, b.Open, b.Flags = n.rest["state"], n.rest["reason"], x > 0, nil
			if flags := n.rest["flags"]; flags != "" {
				b.Flags = strings.Split(flags, ",")
			}
		case nodePartition:
			if p := n.rest["partition"]; !slices.Contains(b.Partitions, p) {
				b.Partitions = append(b.Partitions, p)
				slices.Sort(b.Partitions)
			}
		default:
			*batchFigures[n.metric](b) = ptr(x)
		}
		return nil
	}, oneOf("__name__", batchMetrics()))
	return found, err
}

// Held is what of a node was given to jobs at most in a stretch of time.
type Held struct {
	Cores, MemoryBytes, GPUs *float64 // nil when not known
	Open                     bool     // it took jobs all the time
}

// NodeHeld is one node over time.
type NodeHeld struct {
	Site, Node string
	Steps      []Held
}

// HeldByBatch returns what jobs held of each node of a batch system at most in each step
// from a time on. A step of which nothing was said is not open.
func (v *Views) HeldByBatch(ctx context.Context, from time.Time, step time.Duration, steps int) ([]NodeHeld, error) {
	found := map[nodeKey]*NodeHeld{}
	begin, length := from.UnixMilli(), step.Milliseconds()
	closed := map[nodeKey][]bool{}
	var n names
	err := each(ctx, v.q, from, from.Add(time.Duration(steps)*step-time.Millisecond), func(l labels.Labels, it chunkenc.Iterator) error {
		n.read(l)
		if n.node == "" {
			return nil
		}
		k := nodeKey{n.site, n.node}
		h := found[k]
		if h == nil {
			h = &NodeHeld{Site: n.site, Node: n.node, Steps: make([]Held, steps)}
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
			if n.metric == nodeState {
				s.Open = true
				closed[k][i] = closed[k][i] || x <= 0
				continue
			}
			to := &s.GPUs
			switch n.metric {
			case coresHeld:
				to = &s.Cores
			case memoryHeld:
				to = &s.MemoryBytes
			}
			if *to == nil || **to < x {
				*to = ptr(x)
			}
		}
		return nil
	}, oneOf("__name__", []string{nodeState, coresHeld, memoryHeld, gpusHeld}))
	if err != nil {
		return nil, err
	}
	out := make([]NodeHeld, 0, len(found))
	for k, h := range found {
		for i := range h.Steps {
			h.Steps[i].Open = h.Steps[i].Open && !closed[k][i]
		}
		out = append(out, *h)
	}
	return out, nil
}
