package query

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure/wire"
	"reckon/internal/series"
)

// GPUSpace is a GPU, or a partition of one, with the workloads that have it open.
type GPUSpace struct {
	Site, Node, Device string
	Index, Model       string
	Parent             string   // the device that it is a partition of
	Partitions         int      // number of partitions it is divided into
	MemoryBytes        *float64 // memory size
	MemoryUsed         *float64 // memory in use, by whomever
	Tenants            []wire.GPUTenant

	last int64 // time of its last sample, Unix ms
}

const (
	gpuInfoMetric       = "reckon_gpu_info"
	gpuSizeMetric       = "reckon_gpu_memory_size_bytes"
	gpuUsedMetric       = "reckon_gpu_memory_bytes"
	gpuBusy             = "reckon_gpu_busy_seconds_total"
	gpuPower            = "reckon_gpu_power_watts"
	gpuPartsMetric      = "reckon_gpu_partitions"
	workloadGPUSeconds  = "reckon_workload_gpu_seconds_total"
	workloadGPUMemory   = "reckon_workload_gpu_memory_bytes"
	measuredOfProcesses = "measured"
)

// tenancy is the use of one device by one workload.
type tenancy struct {
	wire.GPUTenant
	last   int64             // time of the last sample, Unix ms
	held   int64             // time of the last sample of its memory, 0 if none is known
	busy   map[int64]float64 // busy seconds by minute
	memory map[int64]float64 // bytes by time, the workload's parts added up
	first  int64
}

type gpuKey struct{ site, node, device string }

// GPUSpaces returns the GPUs that reported shortly before at. Each has the workloads that have the GPU open at that
// time, with their peaks since from.
func (v *Views) GPUSpaces(ctx context.Context, from, at time.Time) ([]GPUSpace, error) {
	spaces := map[gpuKey]*GPUSpace{}
	tenants := map[gpuKey]map[string]*tenancy{}
	live := at.Add(-maxSampleAge).UnixMilli()
	var n series.Labels
	err := series.ForEach(ctx, v.q, from, at, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "device", "index", "model", "parent", "method")
		key := gpuKey{n.Site, n.Node, n.Rest["device"]}
		if n.Workload != "" {
			addTenant(tenants, key, &n, it)
			return nil
		}
		var last int64
		value := 0.0
		eachValue(it, func(t int64, x float64) { last, value = t, x })
		if last < live {
			return nil
		}
		s := spaces[key]
		if s == nil {
			s = &GPUSpace{Site: n.Site, Node: n.Node, Device: n.Rest["device"]}
			spaces[key] = s
		}
		s.last = max(s.last, last)
		switch n.Metric {
		case gpuUsedMetric:
			s.MemoryUsed = new(value)
		case gpuInfoMetric:
			s.Index, s.Model, s.Parent = strings.Clone(n.Rest["index"]), strings.Clone(n.Rest["model"]), strings.Clone(n.Rest["parent"])
		case gpuSizeMetric:
			s.MemoryBytes = new(value)
		case gpuPartsMetric:
			s.Partitions = int(value)
		}
		return nil
	}, series.OneOf("__name__", []string{gpuInfoMetric, gpuSizeMetric, gpuUsedMetric, gpuPartsMetric, workloadGPUSeconds,
		workloadGPUMemory}))
	if err != nil {
		return nil, err
	}
	var out []GPUSpace
	for key, s := range spaces {
		for _, t := range tenants[key] {
			if t.isHolding(s.last) {
				s.Tenants = append(s.Tenants, t.summarize())
			}
		}
		slices.SortFunc(s.Tenants, func(a, b wire.GPUTenant) int { return strings.Compare(a.Workload, b.Workload) })
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b GPUSpace) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Node, b.Node), strings.Compare(a.Index, b.Index),
			strings.Compare(a.Device, b.Device))
	})
	return out, nil
}

// isHolding reports whether the workload had the device open at time last, the device's last export. The memory that a workload holds is
// exported only while the device is open. If memory per process is unknown, the last export of the workload decides.
func (t *tenancy) isHolding(last int64) bool {
	const sameExport = 2000 // milliseconds
	if t.held > 0 {
		return t.held >= last-sameExport
	}
	return t.last >= last-sameExport
}

// addTenant adds one series of a workload on a device.
func addTenant(all map[gpuKey]map[string]*tenancy, key gpuKey, n *series.Labels, it chunkenc.Iterator) {
	by := all[key]
	if by == nil {
		by = map[string]*tenancy{}
		all[key] = by
	}
	t := by[n.Workload]
	if t == nil {
		t = &tenancy{GPUTenant: wire.GPUTenant{Workload: strings.Clone(n.Workload), Owner: strings.Clone(n.Owner)},
			busy: map[int64]float64{}, memory: map[int64]float64{}}
		by[t.Workload] = t
	}
	if n.Metric == workloadGPUMemory {
		eachValue(it, func(at int64, x float64) {
			t.last = max(t.last, at)
			t.held = max(t.held, at)
			t.memory[at] += x
		})
		return
	}
	t.Estimated = t.Estimated || n.Rest["method"] != measuredOfProcesses
	prev, was := int64(0), 0.0
	eachValue(it, func(at int64, x float64) {
		if t.last = max(t.last, at); t.first == 0 || at < t.first {
			t.first = at
		}
		if prev != 0 && x >= was && at > prev {
			// The increase of a sample is spread over the minutes since the previous one.
			for m := prev / 60000; m <= at/60000; m++ {
				share := float64(min(at, (m+1)*60000)-max(prev, m*60000)) / float64(at-prev)
				t.busy[m] += share * (x - was)
			}
		}
		prev, was = at, x
	})
}

// summarize returns the peaks and the mean of a tenancy. The first and the last minute are incomplete, so they do not
// count for the peak of the busy share.
func (t *tenancy) summarize() wire.GPUTenant {
	for _, b := range t.memory {
		raiseTo(&t.MemoryPeak, b)
	}
	sum := 0.0
	for m, b := range t.busy {
		sum += b
		if m > t.first/60000 && m < t.last/60000 {
			raiseTo(&t.BusyPeak, min(b/60, 1))
		}
	}
	if span := float64(t.last-t.first) / 1000; t.first != 0 && span >= 10 {
		t.BusyMean = new(min(sum/span, 1))
		if t.BusyPeak == nil {
			t.BusyPeak = t.BusyMean
		}
	}
	return t.GPUTenant
}
