package slurmtext

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// earliest and latest are the limits of plausible times in seconds since the Unix epoch: the years 1990 to 2200. Slurm
// writes a missing time as 0, 2^32-2 or 2^64-2.
const (
	earliest = 631152000
	latest   = 7258118400
	unset    = 4294967294
)

// Unix converts seconds since the Unix epoch; Slurm's numbers for no time are the zero time.
func Unix(v float64) time.Time {
	if !(v > 0 && v <= latest) || v == unset || v == unset+1 {
		return time.Time{}
	}
	return time.UnixMilli(int64(v * 1000)).UTC()
}

// Time parses a time in zone, or seconds since the Unix epoch as written with SLURM_TIME_FORMAT=%s. A nil zone is the
// zone of this machine. Slurm's words for a missing time, such as Unknown, give the zero time.
func Time(s string, zone *time.Location) (time.Time, error) {
	if IsUnset(s) {
		return time.Time{}, nil
	}
	if zone == nil {
		zone = time.Local
	}
	for _, form := range []string{"2006-01-02T15:04:05", time.RFC3339} {
		if t, err := time.ParseInLocation(form, s, zone); err == nil {
			if at := t.Unix(); at < earliest || at > latest {
				return time.Time{}, fmt.Errorf("%q is outside the years 1990 to 2200", Clip(s))
			}
			return t, nil
		}
	}
	if v, err := Number(s); err == nil {
		if v != 0 && v < earliest {
			return time.Time{}, fmt.Errorf("%q is outside the years 1990 to 2200", Clip(s))
		}
		return Unix(v), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 2026-11-21T10:00:00", Clip(s))
}

// Twins returns all times with the same local clock reading as t. There are two if the clock was set back across t, as
// at the end of summer time.
func Twins(t time.Time) []time.Time {
	out := []time.Time{t}
	if t.IsZero() {
		return out
	}
	_, offset := t.Zone()
	begin, end := t.ZoneBounds()
	if !begin.IsZero() {
		_, before := begin.Add(-time.Second).Zone()
		if o := t.Add(time.Duration(offset-before) * time.Second); o.Before(begin) {
			out = append(out, o)
		}
	}
	if !end.IsZero() {
		_, after := end.Zone()
		if o := t.Add(time.Duration(offset-after) * time.Second); !o.Before(end) {
			out = append(out, o)
		}
	}
	return out
}

// Duration parses [DAYS-][HOURS:]MINUTES:SECONDS[.FRACTION], DAYS-HOURS and DAYS-HOURS:MINUTES, in seconds.
func Duration(s string) (float64, error) {
	bad := fmt.Errorf("%q is not a time such as 1-02:03:04", Clip(s))
	days, rest, hasDays := strings.Cut(s, "-")
	total := 0.0
	if hasDays {
		n, err := strconv.ParseUint(days, 10, 20)
		if err != nil {
			return 0, bad
		}
		total = float64(n) * 86400
	} else {
		rest = s
	}
	parts := strings.Split(rest, ":")
	if len(parts) > 3 || (len(parts) < 2 && !hasDays) {
		return 0, bad
	}
	unit := 3600.0
	if len(parts) == 2 && !hasDays {
		unit = 60
	}
	for _, p := range parts {
		v, err := Number(p)
		if err != nil || v > 1e10 {
			return 0, bad
		}
		total += v * unit
		unit /= 60
	}
	return total, nil
}
