package agent

import (
	"time"

	"golang.org/x/sys/unix"

	"reckon/figure"
	"reckon/metric"
)

// minClockStep is the difference between wall clock and time since boot above which the clock counts as set.
const minClockStep = 10 * time.Second

// SinceBoot returns the time since boot, including sleep (CLOCK_BOOTTIME, clock_gettime(2)).
func SinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // every kernel since 2.6.39 has it
	return time.Duration(ts.Nano())
}

// steadyTime returns the current time by the clock as it was when the agent first ran in this boot. If the clock is
// stepped later, times continue evenly, so that one offset corrects the whole boot and intervals stay positive. It
// follows steps below ten seconds.
func (a *Agent) steadyTime() time.Time {
	now, since := time.Now(), SinceBoot()
	booted := time.Unix(a.btime, 0)
	if d := now.Round(0).Sub(booted) - since; d.Abs() < minClockStep {
		return now
	}
	return booted.Add(since)
}

// steadyBoot replaces the boot time in samples by the one that was first seen in this boot. The kernel derives it from
// the wall clock. To a server, a changed boot time would look like a reboot with new counters.
func (a *Agent) steadyBoot(samples []metric.Sample) {
	if !a.config.Steady {
		return
	}
	for i := range samples {
		if s := &samples[i]; s.Series.Desc.Name == figure.NodeBoot {
			s.Value = float64(a.btime)
		}
	}
}
