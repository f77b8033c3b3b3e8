package agent

import (
	"log/slog"
	"time"

	"golang.org/x/sys/unix"
)

// maxBackwardStep is the longest backward step of the machine's clock that export times do not follow. It is less than ten
// minutes, the clock lead that receivers accept.
const maxBackwardStep = 5 * time.Minute

// clock is the time of day for exports. It follows the machine's clock. If that clock is set back by up to
// maxBackwardStep, the time continues evenly, ahead by the step. Otherwise newer counter samples would have earlier
// times than older ones, look like a reset, and be counted twice. The time follows the machine's clock again once
// that is set forward. A longer step is followed with a warning. A clock is not safe for concurrent use.
type clock struct {
	wall  func() time.Time
	boot  func() time.Duration // since boot, suspended or not
	log   *slog.Logger
	last  time.Time     // last result of now
	at    time.Duration // boot then
	ahead time.Duration // of wall
}

func newClock(log *slog.Logger) *clock {
	return &clock{wall: time.Now, boot: func() time.Duration { return readClock(unix.CLOCK_BOOTTIME) }, log: log}
}

// readClock reads a clock that all kernels have.
func readClock(id int32) time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(id, &ts)
	return time.Duration(ts.Nano())
}

func (c *clock) now() time.Time {
	wall, boot := c.wall().Round(0), c.boot() // without the monotonic reading, which no step shows in
	t := wall.Add(c.ahead)
	if !c.last.IsZero() {
		even := c.last.Add(boot - c.at) // the time if no clock had been set
		switch {
		case t.Before(c.last):
			t = c.followStepBack(wall, even)
		case c.ahead > 0 && t.After(even.Add(time.Second)):
			c.ahead = max(0, even.Sub(wall))
			t = wall.Add(c.ahead)
		}
	}
	c.last, c.at = t, boot
	return t
}

// followStepBack returns the time to use after a backward step of the machine's clock.
func (c *clock) followStepBack(wall, even time.Time) time.Time {
	back := even.Sub(wall)
	if back <= maxBackwardStep {
		c.ahead = back
		c.log.Warn("the clock of this machine was set back; samples go on evenly, ahead of it by as much", "seconds", back.Seconds())
		return even
	}
	c.ahead = 0
	c.log.Warn(
		"the clock of this machine was set back by much; until it has passed the time that it was, samples lie among those of before, "+
			"and rates and sums over that time are wrong",
		"seconds", back.Seconds(), "until", even.UTC().Format(time.RFC3339))
	return wall
}
