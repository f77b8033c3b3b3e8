package catalogue

import (
	"math"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// stretch is a figure that held from one sample to the next.
type stretch struct {
	from, to int64
	v        float64
}

// stretches are those of a series, without gaps.
func (p *pass) stretches(it chunkenc.Iterator) (out []stretch) {
	var t0 int64
	var v0 float64
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		t, v := it.At()
		if value.IsStaleNaN(v) || math.IsNaN(v) {
			t0 = 0
			continue
		}
		if t0 != 0 && t-t0 <= lookAround.Milliseconds() {
			out = append(out, stretch{t0, t, v0})
		}
		t0, v0 = t, v
	}
	return out
}

// hold takes over what was spread as the request of a workload on a node.
func (p *pass) hold(k key, node string, cores float64) {
	if p.held[k] == nil {
		p.held[k] = map[string]*holding{}
	}
	h := p.held[k][node]
	if h == nil {
		h = &holding{hours: make([]float64, len(p.sum))}
		p.held[k][node] = h
	}
	h.cores = max(h.cores, cores)
	for i, v := range p.sum { // parts of a node share its request
		h.hours[i] = max(h.hours[i], v)
	}
}

// holdReported books the request that the scheduler reports, for as long as it reports the
// workload as running: what waits holds nothing.
func (p *pass) holdReported() {
	for k, list := range p.asked {
		p.clear()
		most := 0.0
		for _, s := range list {
			for _, r := range p.ran[k] {
				from, to := max(s.from, r.start), min(s.to, r.last)
				if from < to {
					p.spread(from, to, s.v*float64(to-from)/1000)
					most = max(most, s.v)
				}
			}
		}
		p.hold(k, "", most)
	}
}
