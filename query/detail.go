package query

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/client"
	"reckon/metric"
	"reckon/store"
)

// Workload makes the row of one workload as it stood at the end of the selection, or
// nil when it has no samples there. Of an id used again the latest life is meant.
func (v *Views) Workload(ctx context.Context, s Selection) (*store.Workload, error) {
	a, err := v.account(ctx, s)
	if err != nil || a == nil {
		return nil, err
	}
	w := a.row(s.To, v.gone)
	return &w, nil
}

// Parts returns what each piece of the workload used on its node, up to the end of the
// selection.
func (v *Views) Parts(ctx context.Context, s Selection) ([]client.Part, error) {
	a, err := v.account(ctx, s)
	if err != nil || a == nil {
		return nil, err
	}
	by := map[place]*client.Part{}
	used, named := map[place]bool{}, map[string]bool{} // parts with CPU time, nodes with parts
	for _, k := range a.ordered() {
		used[place{k.Node, k.Part}] = used[place{k.Node, k.Part}] || k.Slot == cpuUser
		named[k.Node] = named[k.Node] || k.Part != ""
	}
	for _, k := range a.ordered() {
		whole := k.Slot == memoryPeak && k.Part == "" && named[k.Node] && !used[place{k.Node, ""}]
		if k.Node == "" || k.Slot == cores || k.Slot.fact() || whole {
			continue // of the whole, or of the whole on a node
		}
		p := by[place{k.Node, k.Part}]
		if p == nil {
			p = &client.Part{Node: k.Node, Part: k.Part}
			by[place{k.Node, k.Part}] = p
		}
		switch k.Slot {
		case cpuUser, cpuSystem, cpuOther:
			if p.CPUSeconds == nil {
				p.CPUSeconds = new(float64)
			}
			*p.CPUSeconds += k.total()
		case memoryPeak:
			if p.MemoryPeakBytes == nil || *p.MemoryPeakBytes < k.Max {
				p.MemoryPeakBytes = ptr(k.Max)
			}
		case gpuSeconds:
			if p.GPUSeconds == nil {
				p.GPUSeconds = new(float64)
			}
			*p.GPUSeconds += k.total()
		}
	}
	out := make([]client.Part, 0, len(by))
	for _, p := range by {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(x, y client.Part) int {
		return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Part, y.Part))
	})
	return out, nil
}

// CoresHistogram returns for how long the workload used how many cores, one
// observation a second, all nodes and parts together. The first bucket is idle time.
func (v *Views) CoresHistogram(ctx context.Context, s Selection) ([]client.Bucket, error) {
	a, err := v.account(ctx, s)
	if err != nil || a == nil {
		return nil, err
	}
	var h metric.Histogram
	for _, k := range a.ordered() {
		if k.Slot == cores {
			h.Merge(k.distribution())
		}
	}
	if h.Count == 0 {
		return nil, nil
	}
	var out []client.Bucket
	if h.ZeroCount > 0 {
		out = append(out, client.Bucket{High: h.ZeroThreshold(), Seconds: float64(h.ZeroCount)})
	}
	for i, n := range h.Buckets {
		if n > 0 {
			at := h.Offset + int32(i)
			out = append(out, client.Bucket{Low: metric.Bound(at - 1), High: metric.Bound(at), Seconds: float64(n)})
		}
	}
	return out, nil
}

const (
	commandCPU     = "reckon_command_cpu_seconds_total"
	commandStarted = "reckon_command_processes_started_total"
)

// Commands returns what each program used within the workload, most first, up to the
// end of the selection; "other" holds those too small to be named. Counters that began
// before the selection count in full.
func (v *Views) Commands(ctx context.Context, s Selection) ([]client.Command, error) {
	by := map[string]*client.Command{}
	var n names
	err := each(ctx, v.q, s.From, s.To, func(l labels.Labels, it chunkenc.Iterator) error {
		n.read(l, "command")
		k := track{Slot: started} // a counter
		read(it, func(int64) *track { return &k }, nil)
		if k.T == 0 {
			return nil
		}
		c := by[n.rest["command"]]
		if c == nil {
			c = &client.Command{Command: n.rest["command"]}
			by[c.Command] = c
		}
		if n.metric == commandCPU {
			c.CPUSeconds += k.total()
			return nil
		}
		if c.Processes == nil {
			c.Processes = new(float64)
		}
		*c.Processes += k.total()
		return nil
	}, append(s.matchers(), oneOf("__name__", []string{commandCPU, commandStarted}))...)
	if err != nil {
		return nil, err
	}
	out := make([]client.Command, 0, len(by))
	for _, c := range by {
		c.CPUSeconds = math.Max(c.CPUSeconds, 0)
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b client.Command) int {
		return cmp.Or(cmp.Compare(b.CPUSeconds, a.CPUSeconds), cmp.Compare(a.Command, b.Command))
	})
	return out, nil
}
