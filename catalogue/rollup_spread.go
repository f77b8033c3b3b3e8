package catalogue

import "time"

// spreadSums is the count of one series by period.
type spreadSums struct {
	sum   []float64
	guess []float64 // part of the sum that a gap longer than [longGap] spreads over hours
	has   []bool
	live  bool // an agent watches the node: other sources may have few samples
}

// longGap is the longest time between two samples of a counter for which an even spread over the hours counts as measured.
const longGap = 15 * time.Minute

// spreadIncrease adds an increase evenly over the intervals between two samples, at t0 and t. If the earlier sample
// lies in intervals that were computed without this increase, they are marked for recomputation, or the amount is added
// to them.
func (p *pass) spreadIncrease(t0, t int64, amount float64) {
	p.newest = max(p.newest, t)
	if t < p.from || t0 >= p.to || t <= t0 {
		return
	}
	first := p.from
	if t0 < p.from && amount > 0 {
		switch again, added := p.mayHaveMissed(t); {
		case added && (t0 >= p.edges[0] || p.history != nil): // counts before the edges were counted before the import
			first = p.edges[0]
		case again || added:
			p.back = min(p.back, t0)
		}
	}
	guessed := p.live && t-t0 > longGap.Milliseconds() && t0/hourMS != (t-1)/hourMS
	for at := max(t0, first); at < min(t, p.to); {
		i := p.stretchIndex(at)
		end := min(p.edges[i+1], t)
		part := amount * float64(end-at) / float64(t-t0)
		p.sum[i] += part
		if guessed {
			p.guess[i] += part
		}
		p.has[i] = true
		at = end
	}
}

// mayHaveMissed reports whether a sample may not have been known when the time before from was made, and whether it surely was not.
func (p *pass) mayHaveMissed(t int64) (maybe, surely bool) {
	if p.known == 0 {
		return t > p.from+lookAround.Milliseconds() || p.fresh != 0 && t >= p.fresh, false
	}
	return p.fresh != 0 && t >= p.fresh, t > p.known
}
