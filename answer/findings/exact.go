package findings

import (
	"time"

	"reckon/analysis/misuse"
)

// exactnessMetric is the metric of the exactness of figures, by kind of workload and node.
const exactnessMetric = "reckon_figure_exactness"

// Figures that rules depend on, as named in the series.
const (
	exactCPU     = "cpu_seconds"
	exactGPU     = "gpu_seconds"
	exactNeeded  = "memory_needed_peak_bytes"
	exactPeak    = "memory_peak_bytes"
	exactRead    = "io_read_bytes"
	exactWritten = "io_write_bytes"
	exactMemory  = "memory_bytes"
)

// inexactKey identifies a figure of a kind of workload on a node, or of one workload.
type inexactKey struct {
	nodeKey
	kind, workload, figure string
}

// inexactSpans are time ranges of an inexact figure, in Unix ms.
type inexactSpans [][2]int64

// addTime extends the ranges by the time of a sample. Add one series after the other.
func (s *inexactSpans) addTime(t int64) {
	if n := len(*s); n > 0 {
		if last := &(*s)[n-1]; t >= last[0]-gap.Milliseconds() && t <= last[1]+gap.Milliseconds() {
			last[0], last[1] = min(last[0], t), max(last[1], t)
			return
		}
	}
	*s = append(*s, [2]int64{t, t})
}

// overlaps reports whether a figure was not exact at some time between two.
func (s inexactSpans) overlaps(from, to int64) bool {
	for _, x := range s {
		if x[0] <= to && x[1] >= from {
			return true
		}
	}
	return false
}

// inexactUse returns, for each step, whether the figure was inexact for one of the owner's workloads on the machine. It
// returns nil if it was exact throughout.
func (m *machine) inexactUse(o *ownerUse, figure string, r *rangeReading) (out []bool) {
	for k, list := range m.inexact {
		if k.figure != figure || k.workload == "" && !o.kinds[k.kind] || k.workload != "" && !o.ids[k.workload] {
			continue
		}
		for i := range r.stepCount() {
			from := r.from.Add(time.Duration(i) * r.step)
			if list.overlaps(from.UnixMilli(), from.Add(r.step).UnixMilli()) {
				if out == nil {
					out = make([]bool, r.stepCount())
				}
				out[i] = true
			}
		}
	}
	return out
}

// markInexact marks the figures of a workload that are bounds, estimates or modelled.
func (a *machines) markInexact(w *misuse.Workload) {
	from, to := w.Start.UnixMilli(), w.Last.UnixMilli()
	is := func(figure string) bool {
		for _, n := range w.Nodes {
			for _, of := range [...]string{"", w.ID} {
				if a.inexact[inexactKey{nodeKey{w.Site, n}, w.Kind, of, figure}].overlaps(from, to) {
					return true
				}
			}
		}
		return false
	}
	w.CPUInexact, w.GPUInexact = is(exactCPU), is(exactGPU)
	w.MemoryInexact = is(exactPeak)
	if w.MemoryNeededPeakBytes != nil {
		w.MemoryInexact = is(exactNeeded)
	}
}
