package stress

import (
	"sort"
	"time"
)

// curve is the target of a program for one resource, as the integral since the start.
type curve struct {
	begin []time.Duration // of each step, and the end of the last
	sum   []float64       // unit times nanoseconds up to there
	level []float64
}

func newCurve(p Program, r Resource) *curve {
	c := &curve{begin: []time.Duration{0}, sum: []float64{0}}
	for i, s := range p.Steps {
		c.level = append(c.level, s.Level[r])
		c.begin = append(c.begin, c.begin[i]+s.Duration)
		c.sum = append(c.sum, c.sum[i]+s.Level[r]*float64(s.Duration))
	}
	return c
}

// step returns the index of the step at a time; the last one after the end.
func (c *curve) step(at time.Duration) int {
	i := sort.Search(len(c.level), func(i int) bool { return c.begin[i+1] > at })
	return min(i, len(c.level)-1)
}

// valueAt returns the level at a time.
func (c *curve) valueAt(at time.Duration) float64 { return c.level[c.step(at)] }

// integral returns the integral of the curve up to a time, in units times nanoseconds. After the end it is constant.
func (c *curve) integral(at time.Duration) float64 {
	if at <= 0 {
		return 0
	}
	i := c.step(at)
	return c.sum[i] + c.level[i]*float64(min(at, c.begin[i+1])-c.begin[i])
}

// end returns the length of the program.
func (c *curve) end() time.Duration { return c.begin[len(c.begin)-1] }

// catchUp is the longest delay that a load catches up with. A larger deficit is dropped, because a delayed load would
// otherwise run at twice its level for minutes.
const catchUp = 500 * time.Millisecond

// pace computes the amount that is due.
type pace struct {
	*curve
	given float64       // given up: the deficit that is dropped; in the unit of due
	now   int           // the step of the last call
	last  time.Duration // time of the last call
}

// amountDue returns the amount that is due at time at. done is the amount already done. A negative result means that
// the load is ahead. Deficits and leads beyond catchUp are dropped. At the start of a step the whole deficit is
// dropped, because results are reported by step.
func (p *pace) amountDue(at time.Duration, done float64) float64 {
	if i := p.step(at); i != p.now {
		from := p.last // the amount due since the last call is not a deficit
		if at-from > catchUp {
			from = p.begin[i]
		}
		p.now, p.given = i, p.integral(from)-done
	}
	p.last = at
	owed := p.integral(at) - p.given - done
	bound := max(p.valueAt(at), p.valueAt(max(0, at-catchUp))) * float64(catchUp)
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
