package query

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure/wire"
	"reckon/internal/series"
)

// Metrics that the samples of a pod are made of.
const (
	containerInfoMetric = "reckon_container_info"
	cpuMetric           = "reckon_workload_cpu_seconds_total"
	ioMetric            = "reckon_workload_io_bytes_total"
	faultsMetric        = "reckon_workload_major_faults_total"
	switchesMetric      = "reckon_workload_context_switches_total"
	waitMetric          = "reckon_workload_cpu_wait_seconds_total"
	memoryMetric        = "reckon_workload_memory_bytes"
)

// lateExport is the time after the end of a pod within which its agent may still export its last use.
const lateExport = 2 * time.Minute

// counterLookback is the time over which the counters of a restarted container are read.
const counterLookback = 5 * time.Minute

// figureSelector selects one figure of a sample; nil for a series that contributes to none.
type figureSelector func(*wire.ProbeUse) **float64

// selectFigure returns the figure that a series adds to, and whether the series is a counter.
func selectFigure(n *series.Labels) (figureSelector, bool) {
	switch n.Metric + " " + n.Rest["mode"] + n.Rest["direction"] + n.Rest["type"] {
	case cpuMetric + " user":
		return func(u *wire.ProbeUse) **float64 { return &u.UserSeconds }, true
	case cpuMetric + " system":
		return func(u *wire.ProbeUse) **float64 { return &u.SystemSeconds }, true
	case ioMetric + " read":
		return func(u *wire.ProbeUse) **float64 { return &u.ReadBytes }, true
	case ioMetric + " write":
		return func(u *wire.ProbeUse) **float64 { return &u.WriteBytes }, true
	case faultsMetric + " ":
		return func(u *wire.ProbeUse) **float64 { return &u.MajorFaults }, true
	case switchesMetric + " voluntary":
		return func(u *wire.ProbeUse) **float64 { return &u.Voluntary }, true
	case switchesMetric + " involuntary":
		return func(u *wire.ProbeUse) **float64 { return &u.Involuntary }, true
	case waitMetric + " ":
		return func(u *wire.ProbeUse) **float64 { return &u.WaitSeconds }, true
	case threadsMetric + " ":
		return func(u *wire.ProbeUse) **float64 { return &u.Threads }, false
	}
	if n.Metric == memoryMetric && n.Rest["type"] == "anon" {
		return func(u *wire.ProbeUse) **float64 { return &u.ResidentBytes }, false
	}
	return nil, false
}

// podSeries is one series of a container of a pod; the points of a counter are totals since its start.
type podSeries struct {
	of      figureSelector
	counter bool
	at      []int64
	value   []float64
}

// valueAt returns the value of the series at time t. A counter keeps its last value after the container has ended,
// because it is no longer exported then. Before the start of the container it is 0.
func (s *podSeries) valueAt(t int64) (float64, bool) {
	i, exact := slices.BinarySearch(s.at, t)
	switch {
	case exact:
		return s.value[i], true
	case !s.counter:
		return 0, false
	case i == 0:
		return 0, true
	}
	return s.value[i-1], true
}

// PodSamples returns the use of a pod's containers from its start to its end, one sample per export of the agent. The
// first sample covers the time since the container started. The last one includes the use up to the end. The result is
// empty if the pod was not measured.
func (v *Views) PodSamples(ctx context.Context, namespace, uid string, from, to time.Time) ([]wire.ProbeSample, error) {
	parts, id, err := v.podParts(ctx, namespace, uid, from, to.Add(lateExport))
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	var all []podSeries
	var times []int64
	var n series.Labels
	err = series.ForEach(ctx, v.q, from.Add(-counterLookback), to.Add(lateExport), func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "mode", "direction", "type")
		of, counter := selectFigure(&n)
		if of == nil || !slices.Contains(parts, n.Part) {
			return nil
		}
		s := podSeries{of: of, counter: counter}
		lost, last := 0.0, 0.0
		eachValue(it, func(t int64, x float64) {
			if counter && x < last { // the container was restarted
				lost += last
			}
			last = x
			s.at, s.value = append(s.at, t), append(s.value, lost+x)
			if n.Metric == cpuMetric {
				times = append(times, t)
			}
		})
		all = append(all, s)
		return it.Err()
	}, series.OneOf("__name__", []string{cpuMetric, ioMetric, faultsMetric, switchesMetric, waitMetric, memoryMetric, threadsMetric}),
		series.Equal("workload", id), series.Equal("owner", namespace))
	if err != nil {
		return nil, fmt.Errorf("samples of pod %s: %w", uid, err)
	}
	slices.Sort(times)
	return diffSamples(all, slices.Compact(times), from, to), nil
}

// diffSamples returns the differences between consecutive times. Counters exported after the end count at the end.
func diffSamples(all []podSeries, times []int64, from, to time.Time) (out []wire.ProbeSample) {
	begin := from.UnixMilli()
	for _, t := range times {
		if t <= begin {
			continue
		}
		s := wire.ProbeSample{Seq: int64(len(out) + 1), From: time.UnixMilli(begin).UTC(),
			To: time.UnixMilli(min(t, max(to.UnixMilli(), begin+1))).UTC()}
		known := map[**float64]bool{}
		for i := range all {
			at := all[i].of(&s.Total)
			now, ok := all[i].valueAt(t)
			if ok && all[i].counter {
				was, _ := all[i].valueAt(begin)
				now -= was
			}
			if !ok {
				continue
			}
			if !known[at] {
				known[at], *at = true, new(0.0)
			}
			**at += now
		}
		if s.Total.UserSeconds != nil && s.Total.SystemSeconds != nil {
			s.Total.CPUSeconds = new(*s.Total.UserSeconds + *s.Total.SystemSeconds)
		}
		if t > to.UnixMilli() && len(out) > 0 && s.To.Sub(s.From) <= time.Millisecond { // a later export after the end
			last := &out[len(out)-1]
			gauges := last.Total
			last.Total = last.Total.Plus(s.Total)
			last.Total.ResidentBytes, last.Total.Threads = gauges.ResidentBytes, gauges.Threads
		} else {
			out = append(out, s)
		}
		begin = t
	}
	return out
}

// podParts returns the parts of a workload that are containers of a pod.
func (v *Views) podParts(ctx context.Context, namespace, uid string, from, to time.Time) (parts []string, id string, err error) {
	var n series.Labels
	err = series.ForEach(ctx, v.q, from, to, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "type", "container")
		if n.Rest["type"] == "sandbox" || n.Rest["container"] == "" || it.Next() == chunkenc.ValNone {
			return it.Err()
		}
		if !slices.Contains(parts, n.Part) {
			parts = append(parts, n.Part)
		}
		id = n.Workload
		return it.Err()
	}, series.Equal("__name__", containerInfoMetric), series.Equal("namespace", namespace), series.Equal("uid", uid))
	return parts, id, err
}
