package misuse

import (
	"math"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

// imbalance: some of its nodes or GPUs are idle while others work.
func imbalance(w *Workload, p *Policy) (out []Finding) {
	b := p.Imbalance
	wall := w.Wall()
	if !b.On || wall < b.Minimum.Seconds() {
		return nil
	}
	for _, k := range []struct {
		part, what string
		by         map[string]float64
		floor      float64
		unit       string
		inexact    bool
		wasted     func(idle, all float64) Evidence
	}{
		{"nodes", "nodes", w.PerNode, b.Busy, "cores", w.CPUInexact, w.idleCores},
		{"gpus", "GPUs", w.PerGPU, b.GPUBusy, "ratio", w.GPUInexact, w.idleGPUs},
	} {
		if len(k.by) < 2 || k.inexact {
			continue
		}
		most := 0.0
		for _, v := range k.by {
			most = math.Max(most, v)
		}
		idle := 0
		for _, v := range k.by {
			if v < b.Idle*most {
				idle++
			}
		}
		// Something must work, or there is no imbalance but idleness.
		if idle == 0 || most/wall < k.floor {
			continue
		}
		e := []Evidence{{Text: k.what + " that are idle", Value: float64(idle), Unit: "count"}, {Text: "use of the busiest", Value: most / wall, Unit: k.unit, Limit: limit(k.floor)}}
		if x := k.wasted(float64(idle), float64(len(k.by))); x.Value > 0 {
			e = append(e, x)
		}
		out = append(out, w.finding(Imbalance, grave(Medium, idle*2 >= len(k.by)), k.part, "imbalance",
			phrase.Words{"idle": format.Count(float64(idle)), "all": format.Count(float64(len(k.by))), "what": k.what}, e...))
	}
	return out
}

// idleCores is what the cores of the idle part of a workload come to.
func (w *Workload) idleCores(idle, all float64) Evidence {
	e := Evidence{Text: "allocated and not used", Unit: "core-seconds", Wasted: true}
	if known(w.Cores) {
		e.Value = *w.Cores * idle / all * w.Wall()
	}
	return e
}

func (w *Workload) idleGPUs(idle, _ float64) Evidence {
	return Evidence{Text: "GPU time allocated and not used", Value: idle * w.Wall(), Unit: "gpu-seconds", Wasted: true}
}
