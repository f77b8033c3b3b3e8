package misuse

import "reckon/internal/phrase"

func (d *IdleAllocationRule) needs() (Needs, bool) {
	return Needs{Ran: min(d.GPUIdle, d.Empty), Running: true}, d.On
}

// judge finds allocations without any computation.
func (d *IdleAllocationRule) judge(w *Workload, _ *Policy) (out []Finding) {
	if isKnown(w.IdleGPU) && *w.IdleGPU >= d.GPUIdle.Seconds() {
		e := []Evidence{{Text: "GPU memory held without use", Value: *w.IdleGPU, Unit: "seconds", Limit: limit(d.GPUIdle.Seconds())}}
		if isKnown(w.GPUs) && isKnown(w.GPUSeconds) && !w.GPUInexact {
			e = append(e, Evidence{Text: "GPU time allocated and not used", Value: max(w.Wall()**w.GPUs-*w.GPUSeconds, 0),
				Unit: "gpu-seconds", Wasted: true})
		}
		out = append(out, w.newFinding(IdleAllocation, High, "gpu", "idle-allocation.gpu", phrase.Words{"span": Span(*w.IdleGPU)}, e...))
	}
	if w.State == "running" && w.Reports && (w.CPUSeconds == nil || w.Empty != nil) {
		key, span := "idle-allocation.never", w.Wall()
		if w.CPUSeconds != nil {
			key, span = "idle-allocation.ended", *w.Empty
		}
		if span < d.Empty.Seconds() {
			return out
		}
		e := []Evidence{{Text: "allocation without a process, at least", Value: span, Unit: "seconds", Limit: limit(d.Empty.Seconds())}}
		if isKnown(w.Cores) {
			e = append(e, Evidence{Text: "allocated and not used", Value: span * *w.Cores, Unit: "core-seconds", Wasted: true})
		}
		out = append(out, w.newFinding(IdleAllocation, High, "allocation", key, phrase.Words{"span": Span(span)}, e...))
	}
	return out
}
