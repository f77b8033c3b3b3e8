package tally

import (
	"reckon/figure"
	"reckon/sensor"
)

// counting records since when a source counts, and whether it lost counts.
type counting struct {
	since  uint64        // boot time at which counting began, 0 while the source does not count
	began  int64         // the same in milliseconds since the Unix epoch, preserved over a restart
	have   uint64        // series of the first set that are counted
	fresh  bool          // no export since counting began
	at     uint64        // boot time of the last reading
	span   float64       // seconds between the last two, the length of the tick at the first
	lacks  []sensor.Lack // on this machine
	full   bool          // since the last export, something could not be counted or charged to its process
	shared bool          // since the last export, events shared a hardware counter: counts are scaled
}

// beginReading begins a reading.
func (c *counting) beginReading(now Moment) {
	if c.span = now.Span; c.at != 0 {
		c.span = max(float64(now.Boot)-float64(c.at), 0) / 1e9
	}
	c.at = now.Boot
	if c.since != 0 {
		return
	}
	c.since, c.fresh = now.Boot, true
	if c.began == 0 {
		c.began = (now.Epoch+int64(now.Boot))/1e6 - int64(now.Span*1e3) // the first reading has the counts since the previous tick
	}
}

// beginInterval begins the next export interval.
func (c *counting) beginInterval() { c.fresh, c.full, c.shared = false, false, false }

// Sources of exactness that concern a whole source; see sensor.TallyFigure.Source.
const (
	FromStart     = "agent_start" // processes that ended before the agent began are unknown
	FromFullTable = "full_table"  // no room to charge some process with its activity
	FromTurns     = "multiplexed" // events that shared a hardware counter
)

// certainty returns the exactness of a figure of an account that began at start, and its origin.
func (c *counting) certainty(f *sensor.TallyFigure, start uint64) (figure.Exactness, string) {
	degree, source := f.Exactness(), f.Source
	worse := func(l sensor.Lack, from string) {
		d := l.Exactness()
		if d > degree {
			source = from
		}
		degree = degree.Worse(d)
	}
	for _, l := range c.lacks {
		degree = degree.Worse(l.Exactness())
	}
	switch {
	case c.fresh && start < c.since:
		worse(sensor.LackHistory, FromStart)
	case c.full:
		worse(sensor.LackRoom, FromFullTable)
	}
	if c.shared {
		worse(sensor.LackTurns, FromTurns)
	}
	return degree, source
}
