package slurmctl

import (
	"time"

	"reckon/interop/slurmtext"
)

// clockTime parses a time from the output of a Slurm command. It is in seconds since the Unix epoch
// (SLURM_TIME_FORMAT=%s), or in local time if the release ignores that variable. An invalid time gives the zero time.
func clockTime(s string) time.Time {
	t, err := slurmtext.Time(s, time.Local)
	if err != nil || t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// parseSpan parses a duration, in seconds; 0 for none or no limit.
func parseSpan(s string) float64 {
	v, err := slurmtext.Duration(s)
	if err != nil {
		return 0
	}
	return v
}

// parseAmount parses a number with a unit of 1024; without a unit it is in units of bare. An invalid amount is 0.
func parseAmount(s string, bare float64) float64 {
	v, err := slurmtext.Size(s, bare)
	if err != nil {
		return 0
	}
	return v
}
