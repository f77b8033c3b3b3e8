package query

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/metric"
	"reckon/workload"
)

// Daily is the daily use of the replicas of one container of a service; the last day ends at the end of the selection.
type Daily struct {
	Container string // empty for services without named containers
	Days      []DailyUse
	// RequestCores and RequestMemory are the current requests of one replica; nil when unknown.
	RequestCores, RequestMemory *float64

	requestedAt int64
}

// DailyUse is the use on one day; nil if it was not measured.
type DailyUse struct {
	Cores      *metric.Histogram // of all replicas: an observation for each second, for pods for each minute
	MemoryPeak *float64          // highest needed memory of any replica
	GPUSeconds *float64
	OOMKills   float64
}

const (
	neededMetric        = "reckon_workload_memory_needed_bytes"
	requestCoresMetric  = "reckon_container_request_cores"
	requestMemoryMetric = "reckon_container_request_memory_bytes"

	day = 24 * time.Hour
	// begun is the minimum time from the start of the selection to the first sample of a series that started within it.
	begun = 5 * time.Minute
	// apart is the longest time between two samples of a counter over which its use counts as even.
	apart = 5 * time.Minute
)

// minutes are the mean cores in use of a replica, by minute of a selection; minutes without a measurement are absent.
type minutes map[int32]float64

// Daily returns the use of a service per day and container for the given number of last days. It computes the cores of
// a container from CPU counters, because the agent records cores per second only for all pods of a node together.
func (v *Views) Daily(ctx context.Context, s Selection, kind string, days int) ([]Daily, error) {
	from := s.To.Add(-time.Duration(days) * day)
	by := map[string]*Daily{}
	var n series.Labels
	replicas := map[string]minutes{}
	cores := figure.Cores
	if workload.Kind(kind).Pod() {
		cores = figure.CPU
	}
	names := []string{cores, neededMetric, figure.MemoryNeededPeak, figure.GPU, figure.OOMKills, requestCoresMetric, requestMemoryMetric}
	err := v.eachSeries(ctx, s, from, s.To, names, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l)
		name, ok := parseContainer(kind, n.Part)
		if !ok {
			return nil
		}
		d := by[name]
		if d == nil {
			d = &Daily{Container: name, Days: make([]DailyUse, days)}
			by[name] = d
		}
		if n.Metric == figure.CPU {
			if replicas[n.Part] == nil {
				replicas[n.Part] = minutes{}
			}
			replicas[n.Part].addUse(it, from)
			return nil
		}
		d.addSeries(n.Metric, it, from)
		return nil
	})
	for _, part := range slices.Sorted(maps.Keys(replicas)) {
		name, _ := parseContainer(kind, part)
		for _, i := range slices.Sorted(maps.Keys(replicas[part])) { // in order, so that sums are the same each time
			u := &by[name].Days[min(int(i)/(24*60), days-1)]
			if u.Cores == nil {
				u.Cores = &metric.Histogram{}
			}
			u.Cores.Observe(replicas[part][i])
		}
	}
	out := make([]Daily, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[name])
	}
	return out, err
}

// parseContainer returns the container that a part of a workload belongs to; false for other parts of pods, such as the sandbox.
func parseContainer(kind, part string) (string, bool) {
	k := workload.Kind(kind)
	if !k.Pod() && k.Service() {
		return "", true
	}
	_, name := workload.InPod(workload.MakeID(k, ""), part)
	return name, name != ""
}

// dayAt returns the 24-hour day that contains the time t in Unix milliseconds. A day includes its end but not its
// beginning.
func (d *Daily) dayAt(t int64, from time.Time) *DailyUse {
	i := (t - 1 - from.UnixMilli()) / day.Milliseconds()
	return &d.Days[min(max(int(i), 0), len(d.Days)-1)]
}

func (d *Daily) addSeries(name string, it chunkenc.Iterator, from time.Time) {
	switch name {
	case figure.Cores:
		d.addHistograms(it, from)
	case neededMetric:
		eachValue(it, func(t int64, x float64) { raiseTo(&d.dayAt(t, from).MemoryPeak, x) })
	case figure.MemoryNeededPeak:
		// The series is the peak of the whole run: a rise belongs to the day on which it happened.
		eachIncrease(it, from, func(t int64, x, rise float64) {
			if rise > 0 {
				raiseTo(&d.dayAt(t, from).MemoryPeak, x)
			}
		})
	case figure.GPU:
		eachIncrease(it, from, func(t int64, _, rise float64) { figure.Plus(&d.dayAt(t, from).GPUSeconds, &rise) })
	case figure.OOMKills:
		eachIncrease(it, from, func(t int64, _, rise float64) { d.dayAt(t, from).OOMKills += rise })
	case requestCoresMetric:
		d.setRequest(&d.RequestCores, it)
	case requestMemoryMetric:
		d.setRequest(&d.RequestMemory, it)
	}
}

// setRequest keeps the last reported request, because a changed request creates new pods.
func (d *Daily) setRequest(to **float64, it chunkenc.Iterator) {
	if t, x, _, ok := series.Last(it); ok && (*to == nil || t >= d.requestedAt) {
		*to, d.requestedAt = &x, max(t, d.requestedAt)
	}
}

// eachIncrease calls f with each sample and its rise over the previous one; after a counter reset the rise is the value itself.
func eachIncrease(it chunkenc.Iterator, from time.Time, f func(t int64, x, rise float64)) {
	last, known := 0.0, false
	eachValue(it, func(t int64, x float64) {
		switch {
		case !known && t < from.Add(begun).UnixMilli():
			f(t, x, 0) // the value before the first sample belongs to earlier days
		case x < last:
			f(t, x, x)
		default:
			f(t, x, x-last)
		}
		last, known = x, true
	})
}

// addUse adds the increases of a counter of CPU seconds for one of the modes of a replica.
func (m minutes) addUse(it chunkenc.Iterator, from time.Time) {
	lastT, last := int64(math.MinInt64/2), 0.0
	eachValue(it, func(t int64, x float64) {
		if rise := x - last; rise >= 0 && t > lastT && t-lastT <= apart.Milliseconds() {
			cores := rise / (float64(t-lastT) / 1000)
			begin, end := float64(lastT-from.UnixMilli())/60e3, float64(t-from.UnixMilli())/60e3
			for i := math.Floor(max(begin, 0)); i < end; i++ {
				m[int32(i)] += cores * (min(i+1, end) - max(begin, i))
			}
		}
		lastT, last = t, x
	})
}

// addHistograms adds the observations of each day to its histogram.
func (d *Daily) addHistograms(it chunkenc.Iterator, from time.Time) {
	var base, last *histogram.FloatHistogram
	var at *DailyUse
	flush := func() {
		if last == nil || at == nil {
			return
		}
		h := series.FromNative(last)
		if base != nil {
			h = histogramSince(h, series.FromNative(base))
		}
		if at.Cores == nil {
			at.Cores = &metric.Histogram{}
		}
		at.Cores.Merge(h)
	}
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt == chunkenc.ValFloat {
			continue
		}
		t, h := it.AtFloatHistogram(nil)
		if value.IsStaleNaN(h.Sum) {
			continue
		}
		now := d.dayAt(t, from)
		switch {
		case last == nil && t < from.Add(begun).UnixMilli():
			base = h
		case last != nil && h.Count < last.Count: // counter reset
			flush()
			base = nil
		case now != at && last != nil:
			flush()
			base = last
		}
		last, at = h, now
	}
	flush()
}

// histogramSince returns the observations of h since the earlier state before.
func histogramSince(h, before *metric.Histogram) *metric.Histogram {
	out := &metric.Histogram{Sum: math.Max(h.Sum-before.Sum, 0), Offset: h.Offset, Buckets: slices.Clone(h.Buckets)}
	out.ZeroCount = h.ZeroCount - min(before.ZeroCount, h.ZeroCount)
	out.Count = out.ZeroCount
	for i := range out.Buckets {
		if k := int(h.Offset-before.Offset) + i; k >= 0 && k < len(before.Buckets) {
			out.Buckets[i] -= min(before.Buckets[k], out.Buckets[i])
		}
		out.Count += out.Buckets[i]
	}
	return out
}
