package stress

import (
	"sort"
	"time"
)

// targetCurve is the target of a program for one resource, as the integral since the start.
type targetCurve struct {
	begin []time.Duration // of each step, and the end of the last
	sum   []float64       // unit times nanoseconds up to there
	level []float64
}

func newCurve(p Program, r Resource) *targetCurve {
	c := &targetCurve{begin: []time.Duration{0}, sum: []float64{0}}
	for i, s := range p.Steps {
		c.level = append(c.level, s.Level[r])
		c.begin = append(c.begin, c.begin[i]+s.Duration)
		c.sum = append(c.sum, c.sum[i]+s.Level[r]*float64(s.Duration))
	}
	return c
}

// stepAt returns the index of the step at a time, or the last index after the end.
func (c *targetCurve) stepAt(at time.Duration) int {
	i := sort.Search(len(c.level), func(i int) bool { return c.begin[i+1] > at })
	return min(i, len(c.level)-1)
}

// valueAt returns the level at a time.
func (c *targetCurve) valueAt(at time.Duration) float64 { return c.level[c.stepAt(at)] }

// integralTo returns the integral of the curve up to a time, in units times nanoseconds. After the end it is constant.
func (c *targetCurve) integralTo(at time.Duration) float64 {
	if at <= 0 {
		return 0
	}
	i := c.stepAt(at)
	return c.sum[i] + c.level[i]*float64(min(at, c.begin[i+1])-c.begin[i])
}

// end returns the length of the program.
func (c *targetCurve) end() time.Duration { return c.begin[len(c.begin)-1] }

// maxCatchUp is the longest delay that a load catches up with. A larger deficit is dropped, because a delayed load would
// otherwise run at twice its level for minutes.
const maxCatchUp = 500 * time.Millisecond

// pacer computes the amount that is due.
type pacer struct {
	*targetCurve
	given float64       // given up: the deficit that is dropped; in the unit of due
	now   int           // the step of the last call
	last  time.Duration // time of the last call
}

// amountDue returns the amount that is due at time at. done is the amount already done. A negative result means that
// the load is ahead. Deficits and leads beyond maxCatchUp are dropped. At the start of a step the whole deficit is
// dropped, because results are reported by step.
func (p *pacer) amountDue(at time.Duration, done float64) float64 {
	if i := p.stepAt(at); i != p.now {
		from := p.last // the amount due since the last call is not a deficit
		if at-from > maxCatchUp {
			from = p.begin[i]
		}
		p.now, p.given = i, p.integralTo(from)-done
	}
	p.last = at
	owed := p.integralTo(at) - p.given - done
	bound := max(p.valueAt(at), p.valueAt(max(0, at-maxCatchUp))) * float64(maxCatchUp)
	if excess := owed - bound; excess > 0 {
		p.given += excess
		return bound
	}
	if excess := owed + bound; excess < 0 {
		p.given += excess
		return -bound
	}
	return owed
}
