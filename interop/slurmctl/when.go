package slurmctl

import (
	"time"

	"reckon/interop/slurmtext"
)

// clockTime reads a time of the commands: seconds since the Unix epoch, as they are requested by
// write it by SLURM_TIME_FORMAT, or local time where a release does not listen. What can not
// be read is no time.
func clockTime(s string) time.Time {
	t, err := slurmtext.Time(s, time.Local)
	if err != nil || t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// span is a length of time in seconds; 0 where there is none or no limit.
func span(s string) float64 {
	v, err := slurmtext.Duration(s)
	if err != nil {
		return 0
	}
	return v
}

// amount is a number with a unit of 1024, or 0; without a unit it is in bare.
func amount(s string, bare float64) float64 {
	v, err := slurmtext.Size(s, bare)
	if err != nil {
		return 0
	}
	return v
}
