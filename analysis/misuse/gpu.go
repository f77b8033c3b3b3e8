package misuse

import (
	"reckon/internal/phrase"
)

func (m *GPUUnusedRule) needs() (Needs, bool) { return Needs{Ran: min(m.Minimum, m.GPUMinimum)}, m.On }

// judge finds work on a GPU node that does not use GPUs, or keeps its GPUs hardly busy.
func (m *GPUUnusedRule) judge(w *Workload, _ *Policy) (out []Finding) {
	wall := w.Wall()
	if wall < m.Minimum.Seconds() || w.GPUNodes == 0 {
		return nil
	}
	lasted := func(least Duration) Evidence {
		return Evidence{Text: "for", Value: wall, Unit: "seconds", Limit: limit(least.Seconds())}
	}
	asks := isKnown(w.GPUs) && *w.GPUs > 0
	switch {
	case !asks:
		noGPU := w.GPUSeconds == nil || *w.GPUSeconds < 1
		if w.GPUNodes != len(w.Nodes) || !noGPU || !isKnown(w.CoresMean) || !isKnown(w.NodeCores) ||
			*w.CoresMean < m.CPUShare**w.NodeCores {
			return nil
		}
		share := *w.CoresMean / *w.NodeCores
		out = append(out, w.newFinding(GPUUnused, Medium, "cpu", "gpu-unused.cpu", phrase.Words{"share": phrase.Percent(share)},
			Evidence{Text: "share of the node's CPUs", Value: share, Unit: "ratio", Limit: limit(m.CPUShare)},
			Evidence{Text: "GPU time", Value: 0, Unit: "seconds"}, lasted(m.Minimum)))
	case isKnown(w.GPUSeconds) && !w.GPUInexact && wall >= m.GPUMinimum.Seconds():
		held := wall * *w.GPUs
		busy := *w.GPUSeconds / held
		if busy >= m.GPUBusy {
			return nil
		}
		key := "gpu-unused.hardly"
		if *w.GPUSeconds == 0 {
			key = "gpu-unused.never"
		}
		out = append(out, w.newFinding(GPUUnused, highIf(Medium, held >= m.GPUHighHours*3600), "gpu", key,
			phrase.Words{"gpus": its(*w.GPUs, "GPU"), "busy": phrase.Percent(busy)},
			Evidence{Text: "GPUs busy", Value: busy, Unit: "ratio", Limit: limit(m.GPUBusy)},
			Evidence{Text: "GPU time allocated", Value: held, Unit: "gpu-seconds"},
			Evidence{Text: "GPU time allocated and not used", Value: held - *w.GPUSeconds, Unit: "gpu-seconds", Wasted: true},
			lasted(m.GPUMinimum)))
	}
	return out
}
