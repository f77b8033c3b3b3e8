package slurmctl

import (
	"strings"
	"time"
)

// clockTime reads a time of the commands: seconds since the Unix epoch, as they are told to write it by
// SLURM_TIME_FORMAT, or local time where a release does not listen.
func clockTime(s string) time.Time {
	if v, ok := parseFloat(s); ok {
		return number{v: v, ok: true}.time()
	}
	if t, err := time.ParseInLocation("2006-01-02T15:04:05", s, time.Local); err == nil {
		return t.UTC()
	}
	return time.Time{} // Unknown, N/A, None
}

// span reads "1-02:03:04", "02:03:04", "03:04", "22:53.824" and, of a limit, "UNLIMITED";
// ok is false when there is no such number of seconds.
func span(s string) (seconds float64, ok bool) {
	days, clock, hasDays := strings.Cut(s, "-")
	if !hasDays {
		days, clock = "", s
	} else {
		d, good := parseFloat(days)
		if !good || d > 1e6 {
			return 0, false
		}
		seconds = d * 86400
	}
	parts := strings.Split(clock, ":")
	if len(parts) > 3 || (len(parts) < 2 && !hasDays) {
		return 0, false
	}
	unit := map[int]float64{1: 3600, 2: 60, 3: 3600}[len(parts)] // D-HH, MM:SS, HH:MM:SS
	if hasDays && len(parts) == 2 {
		unit = 3600 // D-HH:MM
	}
	for _, p := range parts {
		v, good := parseFloat(p)
		if !good || v > 1e9 {
			return 0, false
		}
		seconds += v * unit
		unit /= 60
	}
	return seconds, true
}
