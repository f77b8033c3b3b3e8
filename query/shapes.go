package query

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series"
)

// NodeGPUs are the GPUs of a node.
type NodeGPUs struct {
	Site, Node, Vendor string // the vendor is empty if it is not reported
	Devices            float64
	MemoryBytes        *float64 // of one
	Measured           bool     // how busy they are was reported
}

// GPUNodes calls take with the nodes of GPU series in a time range: a device, a size, or the fact that use is measured.
func (v *Views) GPUNodes(ctx context.Context, from, to time.Time, take func(NodeGPUs)) error {
	seen := map[gpuKey]bool{}
	var n series.Labels
	return series.ForEach(ctx, v.q, from, to, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "device", "vendor", "parent")
		if n.Node == "" || n.Rest["parent"] != "" || it.Next() == chunkenc.ValNone {
			return nil
		}
		g := NodeGPUs{Site: strings.Clone(n.Site), Node: strings.Clone(n.Node), Vendor: strings.Clone(n.Rest["vendor"])}
		switch device := (gpuKey{n.Site, n.Node, n.Rest["device"]}); {
		case n.Metric == gpuSizeMetric:
			if _, x := it.At(); x > 0 {
				g.MemoryBytes = new(x)
			}
		case n.Metric != gpuInfoMetric:
			g.Measured = true
		case !seen[device]:
			seen[device], g.Devices = true, 1
		}
		take(g)
		return nil
	}, series.OneOf("__name__", []string{gpuInfoMetric, gpuSizeMetric, "reckon_node_gpu_seconds_total", "reckon_gpu_busy_ratio"}))
}

// PartitionLimits calls take with the time limit in seconds of jobs in each partition, as last reported before at. It
// skips partitions without a limit.
func (v *Views) PartitionLimits(ctx context.Context, at time.Time, take func(site, partition string, seconds float64)) error {
	var n series.Labels
	return series.ForEach(ctx, v.q, at.Add(-partitionLookback), at, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "partition")
		if _, x, ended, ok := series.Last(it); ok && !ended {
			take(strings.Clone(n.Site), strings.Clone(n.Rest["partition"]), x)
		}
		return nil
	}, series.OneOf("__name__", []string{"reckon_slurm_partition_limit_seconds"}))
}

// GPUBursts calls take for each time that a GPU of the workload was busy for at least the given share, with its start and its duration in
// seconds. Readings a few minutes apart belong to one burst. Gaps of more than two hours are unknown.
func (v *Views) GPUBursts(ctx context.Context, s Selection, share float64, take func(at time.Time, seconds float64)) error {
	const together, apart = 5 * 60 * 1000, 2 * 3600 * 1000 // milliseconds
	return v.eachSeries(ctx, s, s.From, s.To, []string{workloadGPUSeconds}, func(_ labels.Labels, it chunkenc.Iterator) error {
		var t0 int64
		var v0 float64
		eachValue(it, func(t int64, x float64) {
			span := t - t0
			if t0 != 0 && x >= v0 && span < together {
				return
			}
			if t0 != 0 && x >= v0 && span <= apart && x-v0 >= share*float64(span)/1000 {
				take(time.UnixMilli(t0).UTC(), float64(span)/1000)
			}
			t0, v0 = t, x
		})
		return nil
	})
}
