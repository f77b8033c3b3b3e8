package stress

import (
	"sort"
	"time"
)

// curve is what a program wishes of one resource, as the integral since the start.
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

// step is the index of the step at a time; the last one after the end.
func (c *curve) step(at time.Duration) int {
	i := sort.Search(len(c.level), func(i int) bool { return c.begin[i+1] > at })
	return min(i, len(c.level)-1)
}

// at is the level at a time.
func (c *curve) at(at time.Duration) float64 { return c.level[c.step(at)] }

// due is the integral from the start to a time: unit times nanoseconds. It stays the
// same after the end.
func (c *curve) due(at time.Duration) float64 {
	if at <= 0 {
		return 0
	}
	i := c.step(at)
	return c.sum[i] + c.level[i]*float64(min(at, c.begin[i+1])-c.begin[i])
}

// end is the length of the program.
func (c *curve) end() time.Duration { return c.begin[len(c.begin)-1] }

// catchUp bounds what is caught up: what was missed for longer than this, at the
// level of the moment, is given up, so that a load that was held back does not strike
// twice as hard for minutes after.
const catchUp = 500 * time.Millisecond

// pace says how much is due now.
type pace struct {
	*curve
	given float64       // up: what is not caught up; in the unit of due
	now   int           // the step of the last call
	last  time.Duration // when that was
}

// owed is what is due by a time when done was achieved; below 0 is an advance. What
// exceeds the bound is given up, in both directions. So is everything at the border of a
// step: each step is a label for what runs in it, and what one was denied is no part of the
// next.
func (p *pace) owed(at time.Duration, done float64) float64 {
	if i := p.step(at); i != p.now {
		from := p.last // what is due since the last call is no debt
		if at-from > catchUp {
			from = p.begin[i]
		}
		p.now, p.given = i, p.due(from)-done
	}
	p.last = at
	owed := p.due(at) - p.given - done
	bound := max(p.at(at), p.at(max(0, at-catchUp))) * float64(catchUp)
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
