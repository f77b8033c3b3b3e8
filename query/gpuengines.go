package query

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series"
)

// GPUEngines is the activity of GPU engines for one workload.
type GPUEngines struct {
	BusySeconds float64            // busy time of the GPUs, added up
	Shares      map[string]float64 // share of that time by engine: sm, tensor, fp64, fp32, fp16, dram, ...
}

const (
	gpuBusyMetric   = "reckon_gpu_busy_seconds_total"
	gpuEngineMetric = "reckon_gpu_engine_busy_seconds_total"
	// alone is the share of a device's busy time above which a workload counts as the only user of the device. It is
	// below 1, because samples of the device and of the workload may be seconds apart.
	alone = 0.9
)

// GPUEngines returns the activity of the GPU engines during the run of a workload. GPUs count engines per device, not
// per process. The result is therefore nil if another workload used one of the devices, and also if no device counts
// engines. It omits an engine that some devices do not count.
func (v *Views) GPUEngines(ctx context.Context, s Selection, nodes []string) (*GPUEngines, error) {
	own := map[gpuKey]float64{} // busy seconds of each device for this workload
	var n series.Labels
	err := v.eachSeries(ctx, s, s.From, s.To, []string{workloadGPUSeconds}, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "device")
		if total, _ := series.Total(it); total > 0 { // otherwise the workload held the device but never used it
			own[gpuKey{n.Site, n.Node, strings.Clone(n.Rest["device"])}] += total
		}
		return nil
	})
	if err != nil || len(own) == 0 {
		return nil, err
	}
	var names []string
	for k := range own {
		names = append(names, k.device)
	}
	slices.Sort(names)
	counted := map[gpuKey]map[string]float64{}
	ms := []*labels.Matcher{series.OneOf("__name__", []string{gpuBusyMetric, gpuEngineMetric}),
		series.OneOf("device", slices.Compact(names)), series.OneOf("node", nodes)}
	if s.Site != "" {
		ms = append(ms, series.Equal("site", s.Site))
	}
	err = series.ForEach(ctx, v.q, s.From, s.To, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "device", "engine")
		key := gpuKey{n.Site, n.Node, n.Rest["device"]}
		if _, used := own[key]; !used {
			return nil
		}
		if counted[key] == nil {
			counted[gpuKey{n.Site, n.Node, strings.Clone(key.device)}] = map[string]float64{}
		}
		engine := ""
		if n.Metric == gpuEngineMetric {
			engine = n.Rest["engine"]
		}
		counted[key][strings.Clone(engine)] += counterIncrease(it)
		return nil
	}, ms...)
	if err != nil {
		return nil, err
	}
	return sumEngines(own, counted), nil
}

// sumEngines sums up the busy time of the engines of all devices. own is the busy time of the workload by device, and
// counted the busy time of each engine. Engine "" is the device itself. It returns nil if another workload used one of
// the devices.
func sumEngines(own map[gpuKey]float64, counted map[gpuKey]map[string]float64) *GPUEngines {
	out := GPUEngines{Shares: map[string]float64{}}
	devices := map[string]int{}
	for key, seconds := range own {
		by := counted[key]
		if by[""] <= 0 || seconds < alone*by[""] {
			return nil
		}
		out.BusySeconds += by[""]
		for engine, busy := range by {
			if engine != "" {
				devices[engine]++
				out.Shares[engine] += busy
			}
		}
	}
	for engine, busy := range out.Shares {
		if out.Shares[engine] = min(busy/out.BusySeconds, 1); devices[engine] < len(own) {
			delete(out.Shares, engine)
		}
	}
	if len(out.Shares) == 0 {
		return nil
	}
	return &out
}

// counterIncrease returns the increase of a counter from its first to its last sample. A lower value is a reset to zero.
func counterIncrease(it chunkenc.Iterator) (sum float64) {
	first, was := true, 0.0
	eachValue(it, func(_ int64, x float64) {
		switch {
		case first:
		case x < was:
			sum += x
		default:
			sum += x - was
		}
		first, was = false, x
	})
	return sum
}
