package client

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// TimeForms describes the forms that [ParseTime] accepts, for error messages and help texts.
const TimeForms = "a duration before now (30m, 2h, 7d, 2y), a date (2026-11-21), RFC 3339 (2026-11-21T10:00:00Z), Unix seconds " +
	"(1795255200), today, 14:00, now, or now-2hours"

// ParseTime parses a time in one of the forms in [TimeForms]. A duration, with or without a minus sign, is the time
// that long before now. A date is midnight in the time zone of now.
func ParseTime(text string, now time.Time) (time.Time, error) {
	s := strings.TrimSpace(text)
	if t, ok := parseSlurmTime(strings.ToLower(s), now); ok {
		return t, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	if unix, err := strconv.ParseFloat(s, 64); err == nil {
		if unix < 0 || unix > 1e11 || math.IsNaN(unix) {
			return time.Time{}, fmt.Errorf("%q is out of range for Unix seconds; give %s", text, TimeForms)
		}
		whole, frac := math.Modf(unix)
		return time.Unix(int64(whole), int64(math.Round(frac*1e3))*1e6).In(now.Location()), nil
	}
	if d, err := ParseDuration(strings.TrimPrefix(s, "-")); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time; give %s", text, TimeForms)
}

// parseSlurmTime parses the relative times of sacct: now, now-2hours, now+30 (seconds), today, midnight, noon, and a time of
// day, which is on the day of now.
func parseSlurmTime(s string, now time.Time) (time.Time, bool) {
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch s {
	case "now":
		return now, true
	case "today", "midnight":
		return today, true
	case "noon":
		return today.Add(12 * time.Hour), true
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()), true
		}
	}
	offset, ok := strings.CutPrefix(s, "now")
	if !ok || len(offset) < 2 || offset[0] != '+' && offset[0] != '-' {
		return time.Time{}, false
	}
	count := offset[1 : len(offset)-len(strings.TrimLeft(offset[1:], "0123456789"))]
	unit, known := map[string]string{
		"": "s", "second": "s", "seconds": "s", "minute": "m", "minutes": "m", "hour": "h", "hours": "h", "day": "d", "days": "d",
		"week": "w", "weeks": "w", "year": "y", "years": "y",
	}[offset[1+len(count):]]
	d, err := ParseDuration(count + unit)
	if !known || err != nil {
		return time.Time{}, false
	}
	if offset[0] == '-' {
		d = -d
	}
	return now.Add(d), true
}

// ParseDuration is like time.ParseDuration, but also accepts days (d), weeks (w) and years of 365 days (y), as in
// 1d12h, 90s or 1.5h. A number without a unit is in seconds. A sign is an error.
func ParseDuration(text string) (time.Duration, error) {
	bad := func() (time.Duration, error) {
		return 0, fmt.Errorf("%q is not a duration; give a number with a unit: 15s, 30m, 2h, 7d", text)
	}
	s := strings.TrimSpace(text)
	if s == "" || s[0] == '-' || s[0] == '+' {
		return bad()
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		if math.IsNaN(n) || n > math.MaxInt64/1e9 {
			return bad()
		}
		return time.Duration(n * float64(time.Second)), nil
	}
	var sum float64
	for s != "" {
		digits := len(s) - len(strings.TrimLeft(s, "0123456789."))
		rest := s[digits:]
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyzµ"))
		n, err := strconv.ParseFloat(s[:digits], 64)
		if err != nil || letters == 0 {
			return bad()
		}
		var unit time.Duration
		switch word := rest[:letters]; word {
		case "d":
			unit = 24 * time.Hour
		case "w":
			unit = 7 * 24 * time.Hour
		case "y":
			unit = 365 * 24 * time.Hour
		default:
			if unit, err = time.ParseDuration("1" + word); err != nil {
				return bad()
			}
		}
		sum += n * float64(unit)
		s = rest[letters:]
	}
	if sum > math.MaxInt64 {
		return bad()
	}
	return time.Duration(sum), nil
}
