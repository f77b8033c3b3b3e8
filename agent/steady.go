package agent

import (
	"time"

	"golang.org/x/sys/unix"

	"reckon/figure"
	"reckon/metric"
)

// stepped is by how much the clock of the day must differ from the time since boot to count as
// set anew.
const stepped = 10 * time.Second

// SinceBoot is the time since the machine was started, which runs on while it sleeps
// (CLOCK_BOOTTIME, clock_gettime(2)).
func SinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // every kernel since 2.6.39 has it
	return time.Duration(ts.Nano())
}

// steady is the time by the clock as it was when this boot was first seen. Where the clock is set
// while the machine runs, times go on as they began, so that all of a boot can be put right by one
// number and nothing seems to have begun before or after itself. Steps below ten seconds are
// followed.
func (a *Agent) steady() time.Time {
	now, since := time.Now(), SinceBoot()
	booted := time.Unix(a.btime, 0)
	if d := now.Round(0).Sub(booted) - since; d.Abs() < stepped {
		return now
	}
	return booted.Add(since)
}

// steadyBoot gives the time of boot as it was when this boot was first seen: the kernel counts it by the clock, and a clock that
// is set would make another boot of it, by which a server distinguishes machines and their counters.
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
