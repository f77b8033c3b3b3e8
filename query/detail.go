package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/internal/series"
	"reckon/metric"
)

// partMetrics are the metrics that show that a part ran. They exclude requests, and figures of the whole workload on a
// node.
var partMetrics = func() []string {
	var out []string
	for _, f := range figure.InScope(figure.Runs) {
		for _, s := range f.From {
			if !f.How.Whole && f.How.Value != figure.Newest && f.How.Value != figure.Quantile && !slices.Contains(out, s.Metric) {
				out = append(out, s.Metric)
			}
		}
	}
	return out
}()

// partKey identifies a part of a workload on a node.
type partKey struct{ node, part string }

// measuredPart is a part of a workload while its series are being read.
type measuredPart struct {
	wire.Part
	used  bool // it has its own CPU time
	other bool // it has series other than a memory peak
}

// Parts returns the use of each part of the workload on each node. The selection should start no later than the run,
// because counters are summed from its start.
func (v *Views) Parts(ctx context.Context, s Selection) ([]wire.Part, error) {
	by, named := map[partKey]*measuredPart{}, map[string]bool{}
	var n series.Labels
	err := v.eachSeries(ctx, s, s.From, s.To, partMetrics, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l)
		value, ok := partValue(n.Metric, it)
		if !ok || n.Node == "" { // a series of the whole workload
			return nil
		}
		p := by[partKey{n.Node, n.Part}]
		if p == nil {
			p = &measuredPart{Part: wire.Part{Node: n.Node, Part: n.Part}}
			by[partKey{n.Node, n.Part}] = p
		}
		named[n.Node] = named[n.Node] || n.Part != ""
		p.addFigure(n.Metric, value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]wire.Part, 0, len(by))
	for at, p := range by {
		if at.part == "" && named[at.node] && !p.used { // the peak covers all parts of the node
			p.MemoryPeakBytes, p.MemoryNeededPeakBytes = nil, nil
			if !p.other {
				continue
			}
		}
		out = append(out, p.Part)
	}
	slices.SortFunc(out, func(x, y wire.Part) int {
		return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Part, y.Part))
	})
	return out, nil
}

func (p *measuredPart) addFigure(name string, v float64) {
	switch name {
	case figure.CPU:
		p.used = true
		figure.Plus(&p.CPUSeconds, &v)
	case figure.GPU:
		figure.Plus(&p.GPUSeconds, &v)
	case figure.MemoryPeak:
		raiseTo(&p.MemoryPeakBytes, v)
		return
	case figure.MemoryNeededPeak:
		raiseTo(&p.MemoryNeededPeakBytes, v)
		return
	}
	p.other = true
}

// partValue returns the total of a counter or the highest value of a gauge.
func partValue(name string, it chunkenc.Iterator) (float64, bool) {
	if strings.HasSuffix(name, "_total") {
		return series.Total(it)
	}
	return series.Max(it)
}

// CoresHistogram returns how many seconds a workload spent at each number of cores. It is based on one observation per
// second and node. The first bucket is idle time. nodes is the number of nodes. If there are several, the histogram
// describes the use of single nodes; see [Distribution].
func (v *Views) CoresHistogram(ctx context.Context, s Selection) (buckets []wire.Bucket, nodes int, err error) {
	var h metric.Histogram
	on := map[string]bool{}
	err = v.eachSeries(ctx, s, s.From, s.To, []string{figure.Cores}, func(l labels.Labels, it chunkenc.Iterator) error {
		if one := series.Distribution(it); one != nil {
			h.Merge(one)
			on[l.Get("node")] = true
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return toBuckets(&h, 1), len(on), nil
}

// Distribution returns how long the sum of all lines of a metric was at each level. The mean of each step is one
// observation. It omits steps without a value.
func Distribution(lines []wire.Profile, metricKey string, step time.Duration) []wire.Bucket {
	var h metric.Histogram
	for _, p := range Combine(lines, "total") {
		if p.Metric != metricKey {
			continue
		}
		for _, at := range p.Points {
			if at.Value != nil {
				h.Observe(*at.Value)
			}
		}
	}
	return toBuckets(&h, step.Seconds())
}

// toBuckets returns the non-empty buckets of h; each observation lasts the given number of seconds.
func toBuckets(h *metric.Histogram, seconds float64) (out []wire.Bucket) {
	if h.ZeroCount > 0 {
		out = append(out, wire.Bucket{High: h.ZeroThreshold(), Seconds: float64(h.ZeroCount) * seconds})
	}
	for i, n := range h.Buckets {
		if n > 0 {
			at := h.Offset + int32(i)
			out = append(out, wire.Bucket{Low: metric.BucketBound(at - 1), High: metric.BucketBound(at), Seconds: float64(n) * seconds})
		}
	}
	return out
}

// DiskWaits returns the time that the workload waited for each disk, most first, up to the end of the selection.
func (v *Views) DiskWaits(ctx context.Context, s Selection) (out []wire.DiskWait, err error) {
	by := map[string]float64{}
	err = v.eachSeries(ctx, s, s.From, s.To, []string{diskWait}, func(l labels.Labels, it chunkenc.Iterator) error {
		if total, ok := series.Total(it); ok {
			by[l.Get("device")] += total
		}
		return nil
	})
	for device, seconds := range by {
		out = append(out, wire.DiskWait{Device: device, Seconds: seconds})
	}
	slices.SortFunc(out, func(a, b wire.DiskWait) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Device, b.Device))
	})
	return out, err
}

// Commands returns the use of each program within the workload until the end of the selection, largest first. The entry
// "other" sums programs that are too small to be listed. A counter that began before the selection counts in full.
func (v *Views) Commands(ctx context.Context, s Selection) ([]wire.Command, error) {
	by := map[string]*wire.Command{}
	var n series.Labels
	err := v.eachSeries(ctx, s, s.From, s.To, []string{figure.CommandCPU, figure.CommandStarted},
		func(l labels.Labels, it chunkenc.Iterator) error {
			n.Read(l, "command")
			total, ok := series.Total(it)
			if !ok {
				return nil
			}
			c := by[n.Rest["command"]]
			if c == nil {
				c = &wire.Command{Command: n.Rest["command"]}
				by[c.Command] = c
			}
			if n.Metric == figure.CommandCPU {
				c.CPUSeconds += total
				return nil
			}
			figure.Plus(&c.Processes, &total)
			return nil
		})
	if err != nil {
		return nil, err
	}
	out := make([]wire.Command, 0, len(by))
	for _, c := range by {
		c.CPUSeconds = math.Max(c.CPUSeconds, 0)
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b wire.Command) int {
		return cmp.Or(cmp.Compare(b.CPUSeconds, a.CPUSeconds), cmp.Compare(a.Command, b.Command))
	})
	return out, nil
}
